//! Recipes whose JPEGs a device decodes, with other pixels than the processor's.

use headwater_core::recipe::JpegDecoder;
use headwater_core::{Dtype, Recipe};
use headwater_render::backend::SampleRenderer;
use headwater_render::decode::{DecodeErrorKind, DecodeLimits, Decoder};
use headwater_render::{BadImage, RenderError, Renderer};
use headwater_render_cuda::{CudaRenderer, Device, DeviceError, JpegError, JpegImage, Launch};
use headwater_simd::Simd;

use super::emulation::{EmulatedDevice, Watch};
use super::pictures::{PHOTOS, png, random_png, rng};
use super::recipes::ARENA_BYTES;
use super::sinks::render;

/// Share that the recipes ask for.
const LOAD: f64 = 0.65;

/// Decodes JPEGs with every level inverted; leaves some, and fails with all when told to.
struct Decoding {
    device: EmulatedDevice,
    leaves: fn(&[u8]) -> bool,
    fails: Option<JpegError>,
}

impl Device for Decoding {
    fn name(&self) -> String {
        "one that decodes".to_owned()
    }

    fn arena_bytes(&self) -> u64 {
        self.device.arena_bytes()
    }

    fn shared_bytes_max(&self) -> u32 {
        self.device.shared_bytes_max()
    }

    fn upload(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.device.upload(offset, bytes)
    }

    fn decode_jpegs(
        &mut self,
        images: &[JpegImage<'_>],
        engine_load: f64,
    ) -> Result<Vec<bool>, JpegError> {
        assert_eq!(engine_load, LOAD, "the recipe's");
        if let Some(error) = self.fails.clone() {
            return Err(error);
        }
        let mut done = Vec::new();
        for image in images {
            done.push(!(self.leaves)(image.encoded));
            if done.last() == Some(&true) {
                let pixels = inverted(image.encoded);
                assert_eq!(pixels.len() as u32, 3 * image.extent.width * image.extent.height);
                self.device.upload(image.offset, &pixels)?;
            }
        }
        Ok(done)
    }

    fn launch(&mut self, launch: &Launch) -> Result<(), DeviceError> {
        self.device.launch(launch)
    }

    fn download(&mut self, offset: u64, bytes: u64) -> Result<&[u8], DeviceError> {
        self.device.download(offset, bytes)
    }
}

fn inverted(encoded: &[u8]) -> Vec<u8> {
    let mut decoder = Decoder::new(DecodeLimits::default()).unwrap();
    decoder.decode(encoded).unwrap().pixels().iter().map(|level| 255 - level).collect()
}

/// What the device makes of a JPEG, as a file that every decoder makes the same of.
fn as_the_device_decodes(encoded: &[u8]) -> Vec<u8> {
    let mut decoder = Decoder::new(DecodeLimits::default()).unwrap();
    let extent = decoder.decode(encoded).unwrap().extent();
    png(extent.width, extent.height, &inverted(encoded))
}

fn renderer(arena_bytes: u64, leaves: fn(&[u8]) -> bool) -> CudaRenderer<Decoding> {
    start(arena_bytes, leaves, None)
}

fn start(
    arena_bytes: u64,
    leaves: fn(&[u8]) -> bool,
    fails: Option<JpegError>,
) -> CudaRenderer<Decoding> {
    let device = EmulatedDevice::start(Watch::Nothing, arena_bytes);
    CudaRenderer::new(Decoding { device, leaves, fails }).unwrap()
}

fn plain() -> Renderer {
    Renderer::with_simd(Simd::Plain).unwrap()
}

/// The same recipe for either decoder.
fn recipes() -> (Recipe, Recipe) {
    let turbo = Recipe::preset("imagenet-train", Dtype::Bf16).unwrap();
    let nvjpeg = Recipe { decoder: JpegDecoder::Nvjpeg, hw_decoder_load: LOAD, ..turbo.clone() };
    (turbo, nvjpeg)
}

/// Files among which a device finds JPEGs, and the same ones with the pixels that it makes of those
/// that it does not leave.
fn check(arena_bytes: u64, leaves: fn(&[u8]) -> bool) {
    let (turbo, nvjpeg) = recipes();
    let other = random_png(&mut rng(5), 90, 70);
    let files = [PHOTOS[0], &other, PHOTOS[1], PHOTOS[2], &other];
    let is_left = |file: &[u8]| !file.starts_with(&[0xff, 0xd8]) || leaves(file);
    let decoded =
        files.map(|file| if is_left(file) { file.to_vec() } else { as_the_device_decodes(file) });
    let decoded: Vec<&[u8]> = decoded.iter().map(Vec::as_slice).collect();
    let (expected, _) = render(&mut plain(), &turbo, &decoded);
    let mut kernels = renderer(arena_bytes, leaves);
    let (found, ends) = render(&mut kernels, &nvjpeg, &files);
    assert!(ends.iter().all(Result::is_ok) && !kernels.has_failed(), "{ends:?}");
    assert!(found == expected, "a view differs");
    assert_eq!(kernels.counts().on_device, 5);
}

#[test]
fn views_are_made_of_the_devices_pixels_and_of_the_processors_where_it_leaves_a_file() {
    check(ARENA_BYTES, |_| false);
    check(ARENA_BYTES, |file| file == PHOTOS[1]);
    check(ARENA_BYTES, |_| true);
}

#[test]
fn a_part_in_pieces_has_the_same_bytes() {
    check(2 << 20, |_| false);
    check(2 << 20, |file| file != PHOTOS[2]);
}

/// Start of a table of quantisation, as photos have them.
const TABLE: [u8; 2] = [0xff, 0xdb];

/// A JPEG without what its coefficients are to be multiplied by.
fn without_quantisation(jpeg: &[u8]) -> Vec<u8> {
    let (mut kept, mut at) = (jpeg[..2].to_vec(), 2);
    while jpeg[at + 1] != 0xda {
        let end = at + 2 + usize::from(u16::from_be_bytes([jpeg[at + 2], jpeg[at + 3]]));
        if jpeg[at..at + 2] != TABLE {
            kept.extend_from_slice(&jpeg[at..end]);
        }
        at = end;
    }
    kept.extend_from_slice(&jpeg[at..]);
    kept
}

#[test]
fn a_file_that_the_device_leaves_and_the_processor_refuses_is_a_bad_sample() {
    let (_, nvjpeg) = recipes();
    // By its header and its markers nothing is missing.
    let broken = without_quantisation(PHOTOS[1]);
    let cut = &PHOTOS[2][..500];
    let mut kernels = renderer(ARENA_BYTES, |file| !file.windows(2).any(|two| two == TABLE));
    let (rows, ends) = render(&mut kernels, &nvjpeg, &[PHOTOS[0], &broken, cut, PHOTOS[2]]);
    assert!(ends[0].is_ok() && ends[3].is_ok());
    for number in [1, 2] {
        let RenderError::Bad(BadImage::Decode(error)) = ends[number].clone().unwrap_err() else {
            panic!("{ends:?}");
        };
        assert_ne!(error.kind(), DecodeErrorKind::Unsupported);
        assert!(rows[number].rows.iter().flatten().all(|&byte| byte == 0xcd), "it was written");
    }
}

#[test]
fn a_device_that_fails_fails_all_samples_rather_than_make_other_bytes_of_them() {
    let (turbo, nvjpeg) = recipes();
    let gone = DeviceError { doing: "decode JPEGs".into(), reason: "gone".into() };
    let mut kernels = start(ARENA_BYTES, |_| false, Some(gone.into()));
    for _ in 0..2 {
        let (rows, ends) = render(&mut kernels, &nvjpeg, &PHOTOS);
        let lost = |end: &Result<_, _>| matches!(end, Err(RenderError::DeviceLost { .. }));
        assert!(ends.iter().all(lost), "{ends:?}");
        assert!(rows.iter().flat_map(|rows| &rows.rows).flatten().all(|&byte| byte == 0xcd));
    }
    assert!(kernels.has_failed());
    let (_, ends) = render(&mut kernels, &turbo, &PHOTOS);
    assert!(ends.iter().all(Result::is_ok), "the processor serves recipes of its own");
}

#[test]
fn jpegs_that_the_decoder_lacks_memory_for_fail_and_everything_else_is_rendered() {
    let (turbo, nvjpeg) = recipes();
    let other = random_png(&mut rng(5), 90, 70);
    let full = JpegError::Memory("raise augment.nvjpeg_memory_bytes".into());
    let mut kernels = start(ARENA_BYTES, |_| false, Some(full));
    let files = [PHOTOS[0], &other, PHOTOS[1]];
    let (rows, ends) = render(&mut kernels, &nvjpeg, &files);
    for number in [0, 2] {
        let error = ends[number].clone().unwrap_err();
        assert!(matches!(error, RenderError::Device { .. }));
        assert!(error.to_string().contains("nvjpeg_memory"), "{error}");
        assert!(rows[number].rows.iter().flatten().all(|&byte| byte == 0xcd), "it was written");
    }
    let (expected, _) = render(&mut plain(), &turbo, &files);
    assert!(ends[1].is_ok() && rows[1] == expected[1] && !kernels.has_failed());
}

#[test]
fn an_image_that_does_not_fit_names_the_key_to_raise() {
    let (_, nvjpeg) = recipes();
    let mut kernels = renderer(300 << 10, |_| false);
    let (_, ends) = render(&mut kernels, &nvjpeg, &PHOTOS[..1]);
    let error = ends[0].clone().unwrap_err().to_string();
    assert!(error.contains("augment.cuda_memory_bytes"), "{error}");
}

#[test]
fn the_processor_alone_refuses_such_a_recipe() {
    let (_, nvjpeg) = recipes();
    let renderer: &mut dyn SampleRenderer = &mut plain();
    let (_, ends) = render(renderer, &nvjpeg, &PHOTOS[..1]);
    let error = ends[0].clone().unwrap_err().to_string();
    assert!(error.contains("recipe.decoder is `nvjpeg`"), "{error}");
}
