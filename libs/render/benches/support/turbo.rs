//! libjpeg-turbo itself, to measure against.

/// Decodes all pixels by libjpeg-turbo itself.
pub(crate) fn decode(turbo: &mut turbojpeg::Decompressor, photo: &[u8], pixels: &mut Vec<u8>) {
    let header = turbo.read_header(photo).expect("a photo");
    let (width, height) = (header.width, header.height);
    pixels.resize(3 * width * height, 0);
    let (pixels, format) = (&mut pixels[..], turbojpeg::PixelFormat::RGB);
    let image = turbojpeg::Image { pixels, width, pitch: 3 * width, height, format };
    turbo.decompress(photo, image).expect("a photo");
}
