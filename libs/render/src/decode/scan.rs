//! What the markers of a JPEG file say, without decoding it.
//!
//! Source: ITU-T T.81, annex B.

use memchr::memmem;

const START_OF_SCAN: u8 = 0xda;
const END_OF_IMAGE: u8 = 0xd9;

/// Zeros at the end of a file that are no other data.
const PADDING_BYTES: usize = 16;

/// What an image ends with.
pub(super) const END: [u8; 2] = [0xff, END_OF_IMAGE];

/// Bytes that are looked at before asking whether there was a marker.
const BLOCK_BYTES: usize = 512;

/// Whether an end-of-image marker follows the last start of a scan. Inside a scan a 0xff byte
/// is always followed by 0x00 or a restart marker, so the marker cannot be there by accident.
pub(super) fn is_complete(encoded: &[u8]) -> bool {
    let last = |marker: u8| memmem::rfind(encoded, &[0xff, marker]);
    match last(END_OF_IMAGE) {
        // Nothing can follow it.
        Some(end) if end + 2 == encoded.len() => true,
        Some(end) => last(START_OF_SCAN).is_some_and(|scan| end > scan),
        None => false,
    }
}

/// Whether there is one scan of a sequential image without restarts, and no end-of-image marker. Another scan could have been
/// cut off from a progressive one. A file that ends with zeros is one whose end was never written.
pub(super) fn lacks_only_its_end(encoded: &[u8]) -> bool {
    let frame = segments(encoded).find(|(marker, ..)| is_frame(*marker));
    let is_sequential = frame.is_some_and(|(marker, ..)| matches!(marker, 0xc0 | 0xc1));
    // At a restart libjpeg finds its way again, whatever is missing before it.
    let others = [END_OF_IMAGE, START_OF_SCAN].into_iter().chain(0xd0..=0xd7);
    let is_alone =
        |scan| others.clone().all(|marker| memmem::find(scan, &[0xff, marker]).is_none());
    let is_padded = encoded.ends_with(&[0; PADDING_BYTES]);
    is_sequential && !is_padded && first_scan(encoded).is_some_and(is_alone)
}

/// Starts of scans; a thumbnail in a comment may hold more of them.
pub(super) fn count(encoded: &[u8]) -> usize {
    memmem::find_iter(encoded, &[0xff, START_OF_SCAN]).count()
}

/// Whether the first scan is followed by the end of the image, with nothing but coded pixels and
/// restart markers in between. Then no damage in the scan makes the library refuse the image, and
/// rows that are not wanted need not be read to know that.
pub(super) fn is_plain(encoded: &[u8]) -> bool {
    let Some(scan) = first_scan(encoded) else { return false };
    let pairs = |block: usize| {
        let end = scan.len().min(block + BLOCK_BYTES + 1);
        scan[block..end].iter().zip(&scan[(block + 1).min(end)..end])
    };
    // Whole blocks at first, in a form that becomes vectors: nearly all of them have no marker.
    for block in (0..scan.len()).step_by(BLOCK_BYTES) {
        if pairs(block).fold(false, |any, (&first, &second)| any | is_marker(first, second)) {
            let marker = pairs(block).find(|(first, second)| is_marker(**first, **second));
            return marker.is_some_and(|(_, &second)| second == END_OF_IMAGE);
        }
    }
    false
}

/// Whether the second byte names a marker: not a byte of the pixels, a restart, or one of those
/// that may fill the space before a marker.
fn is_marker(first: u8, second: u8) -> bool {
    (first == 0xff) & (second != 0) & (second & 0xf8 != 0xd0) & (second != 0xff)
}

/// Columns of pixels that are coded together, by the factors of the frame's components: a single one is coded block by
/// block. `None` where the markers before the frame are not plain.
pub(super) fn columns_of_mcu(encoded: &[u8]) -> Option<u32> {
    let (_, frame, _) = segments(encoded).find(|(marker, ..)| is_frame(*marker))?;
    // Precision, height and width; then three bytes for each component.
    let components = frame.get(6..)?.as_chunks::<3>().0.get(..usize::from(frame[5]))?;
    let columns = components.iter().map(|[_, factors, _]| u32::from(factors >> 4)).max()?;
    Some(if components.len() == 1 { 8 } else { 8 * columns })
}

/// Whether a frame begins there: `SOF0` to `SOF15`, between which `DHT`, `JPG` and `DAC` lie.
fn is_frame(marker: u8) -> bool {
    (0xc0..=0xcf).contains(&marker) && !matches!(marker, 0xc4 | 0xc8 | 0xcc)
}

/// Whether there is a scan behind plain markers.
pub(super) fn has_scan(encoded: &[u8]) -> bool {
    first_scan(encoded).is_some()
}

/// The bytes after the header of the first scan.
fn first_scan(encoded: &[u8]) -> Option<&[u8]> {
    let mut scans = segments(encoded).filter(|(marker, ..)| *marker == START_OF_SCAN);
    scans.next().map(|(.., rest)| rest)
}

/// Segments up to the first that does not follow the one before it: marker, what it holds, and all behind it.
fn segments(encoded: &[u8]) -> impl Iterator<Item = (u8, &[u8], &[u8])> {
    let mut rest = encoded.get(2..).unwrap_or_default();
    std::iter::from_fn(move || {
        loop {
            let (&0xff, after) = rest.split_first()? else { return None };
            let (&marker, after) = after.split_first()?;
            if marker == 0xff {
                rest = &rest[1..];
                continue;
            }
            let len = usize::from(u16::from_be_bytes(*after.first_chunk()?));
            let held = after.get(2..len).unwrap_or_default();
            rest = after.get(len..)?;
            return Some((marker, held, rest));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = &[0xff, 0xd8, 0xff, 0xff, 0xe0, 0, 3, 9, 0xff, 0xda, 0, 2];

    fn file(scan: &[u8]) -> Vec<u8> {
        [HEAD, scan].concat()
    }

    #[test]
    fn one_scan_of_pixels_and_restarts_up_to_the_end_is_plain() {
        assert!(is_plain(&file(&[1, 0xff, 0, 2, 0xff, 0xd3, 4, 0xff, 0xff, 0xd9])));
        assert!(is_plain(&file(&[0xff, 0xd9, 7, 0xff, 0xda])), "what follows the end is nothing");
        for scan in [&[1][..], &[1, 0xff], &[1, 0xff, 0xda, 0xff, 0xd9], &[0xff, 0xc4, 0xff, 0xd9]]
        {
            assert!(!is_plain(&file(scan)), "{scan:x?}");
        }
        assert!(!is_plain(&HEAD[..9]));
        for len in 505..520 {
            let pixels = vec![0xff; len];
            assert!(is_plain(&file(&[&pixels[..], &[0xd9]].concat())), "{len}");
            assert!(!is_plain(&file(&[&pixels[..], &[0xc4, 0xff, 0xd9]].concat())), "{len}");
        }
    }

    #[test]
    fn the_columns_of_an_mcu_are_those_of_the_widest_component() {
        let frame = |marker: u8, factors: &[u8]| {
            let mut bytes = vec![0xff, 0xd8, 0xff, 0xe0, 0, 3, 9, 0xff, marker, 0];
            bytes.extend([8 + 3 * factors.len() as u8, 8, 0, 9, 0, 9, factors.len() as u8]);
            bytes.extend(factors.iter().flat_map(|factors| [1, *factors, 0]));
            bytes
        };
        let columns = |factors: &[u8]| columns_of_mcu(&frame(0xc0, factors));
        assert_eq!(columns(&[0x22, 0x11, 0x11]), Some(16));
        assert_eq!(columns(&[0x31, 0x31, 0x31]), Some(24));
        assert_eq!(columns(&[0x22, 0x21, 0x21]), Some(16));
        assert_eq!(columns(&[0x11, 0x11, 0x11, 0x41]), Some(32));
        assert_eq!(columns(&[0x22]), Some(8), "one component");
        assert_eq!(columns_of_mcu(&frame(0xc2, &[0x21, 0x21, 0x21])), Some(16));
        assert_eq!(columns_of_mcu(&frame(0xc4, &[0x21, 0x21, 0x21])), None, "tables");
        let whole = frame(0xc0, &[0x21, 0x11, 0x11]);
        assert!((0..whole.len()).all(|len| columns_of_mcu(&whole[..len]).is_none()));
    }

    #[test]
    fn an_image_is_complete_when_it_ends_after_its_last_scan() {
        assert!(is_complete(&file(&[1, 0xff, 0xd9])));
        assert!(is_complete(&file(&[1, 0xff, 0xd9, 0, 0])));
        assert!(!is_complete(&file(&[1, 0xff, 0xd9, 0xff, 0xda])));
        assert!(!is_complete(&file(&[1])));
    }
}
