//! The coded pixels without their stuffing, and where restart markers stood.

#[cfg(target_arch = "x86_64")]
mod avx512;

use headwater_simd::Simd;

use crate::declined::Declined;

/// Bytes after the last one that may be read, all zero: what damaged bits can take the decoding of one batch beyond
/// the end.
pub(crate) const PADDING_BYTES: usize = 8192;
/// Bytes that are kept for the next image at most.
const RETAINED_BYTES_MAX: usize = 4 << 20;
/// Bytes of a scan at most: its bits are counted in 32 bits.
const BYTES_MAX: usize = 1 << 28;

const RST0: u8 = 0xd0;
const END_OF_IMAGE: u8 = 0xd9;

/// The coded pixels of a scan as plain bytes. Keeps its memory.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The bytes, and then zeros.
    bytes: Vec<u8>,
    len: usize,
    /// The same as big-endian numbers of 32 bits.
    words: Vec<u32>,
    /// Where the bytes after each restart marker begin.
    restarts: Vec<u32>,
}

/// What a way of copying came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Copied {
    /// Bytes that were read.
    pub(crate) read: usize,
    /// Bytes that were written.
    pub(crate) written: usize,
}

// === impl Stream ===

impl Stream {
    /// Takes the stuffing out of `scan`, which must end with the end of the image after at most `restarts_max` restart
    /// markers.
    pub(crate) fn fill(
        &mut self,
        simd: Simd,
        scan: &[u8],
        restarts_max: usize,
    ) -> Result<(), Declined> {
        if scan.len() > BYTES_MAX {
            return Err(Declined::Header("too long a scan"));
        }
        let Self { bytes, words, len, restarts } = self;
        restarts.clear();
        // A way of copying may write a vector beyond its last byte.
        let room = scan.len() + PADDING_BYTES;
        if bytes.len() > RETAINED_BYTES_MAX.max(room) {
            (*bytes, *words) = (Vec::new(), Vec::new());
        }
        if bytes.len() < room {
            bytes.resize(room, 0);
        }
        let (mut at, mut to) = (0, 0);
        loop {
            let copied = copy(simd, &scan[at..], &mut bytes[to..]);
            at += copied.read;
            to += copied.written;
            match scan.get(at..at + 2) {
                Some(&[0xff, END_OF_IMAGE]) => break,
                Some(&[0xff, marker])
                    if marker == RST0 + (restarts.len() % 8) as u8
                        && restarts.len() < restarts_max =>
                {
                    restarts.push(to as u32);
                    at += 2;
                }
                _ => return Err(Declined::Markers),
            }
        }
        *len = to;
        bytes[to..to + PADDING_BYTES].fill(0);
        Ok(())
    }

    /// The bytes and at least [`PADDING_BYTES`] zeros.
    pub(crate) fn padded(&self) -> &[u8] {
        &self.bytes[..self.len + PADDING_BYTES]
    }

    pub(crate) fn bits(&self) -> u32 {
        self.len as u32 * 8
    }

    /// Where the bytes after each restart marker begin.
    pub(crate) fn restarts(&self) -> &[u32] {
        &self.restarts
    }

    /// The bytes as numbers of 32 bits, zeros after them included.
    #[cfg(any(target_arch = "x86_64", test))]
    pub(crate) fn words(&mut self) -> &[u32] {
        let (chunks, _) = self.bytes[..self.len + PADDING_BYTES].as_chunks();
        self.words.clear();
        self.words.extend(chunks.iter().map(|chunk| u32::from_be_bytes(*chunk)));
        &self.words
    }
}

fn copy(simd: Simd, scan: &[u8], to: &mut [u8]) -> Copied {
    let begun: Option<Copied> = match simd {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(proof) => proof.vbmi2().map(|proof| avx512::copy(proof, scan, to)),
        _ => None,
    };
    let begun = begun.unwrap_or_default();
    let rest = copy_plain(&scan[begun.read..], &mut to[begun.written..]);
    Copied { read: begun.read + rest.read, written: begun.written + rest.written }
}

/// Copies up to the first marker, or to the end where there is none.
fn copy_plain(scan: &[u8], to: &mut [u8]) -> Copied {
    let (mut read, mut written) = (0, 0);
    loop {
        let rest = &scan[read..];
        let plain = memchr::memchr(0xff, rest).unwrap_or(rest.len());
        to[written..written + plain].copy_from_slice(&rest[..plain]);
        read += plain;
        written += plain;
        if rest.get(plain + 1) != Some(&0) {
            return Copied { read, written };
        }
        to[written] = 0xff;
        read += 2;
        written += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(scan: &[u8]) -> Result<(Vec<u8>, Vec<u32>), Declined> {
        let mut found = Simd::available().iter().map(|simd| {
            let mut stream = Stream::default();
            // What an earlier image left is gone.
            stream.fill(*simd, &[&[7; 9000][..], &[0xff, 0xd9]].concat(), 0).unwrap();
            stream.fill(*simd, scan, 2)?;
            let (bytes, padding) = stream.padded().split_at(stream.bits() as usize / 8);
            assert!(padding.iter().all(|byte| *byte == 0));
            let bytes = bytes.to_vec();
            assert!(
                stream
                    .words()
                    .iter()
                    .flat_map(|word| word.to_be_bytes())
                    .zip(&bytes)
                    .all(|(a, b)| a == *b)
            );
            Ok((bytes, stream.restarts().to_vec()))
        });
        let first = found.next().unwrap();
        assert!(found.all(|other| other == first));
        first
    }

    #[test]
    fn stuffing_goes_and_restarts_are_found() {
        let long = vec![5; 200];
        let scan = [
            &long[..],
            &[0xff, 0, 9, 0xff, 0xd0],
            &long,
            &[0xff, 0, 0xff, 0, 0xff, 0xd1, 3, 0xff, 0xd9, 8],
        ];
        let bytes = [&long[..], &[0xff, 9], &long, &[0xff, 0xff, 3]].concat();
        assert_eq!(filled(&scan.concat()), Ok((bytes, vec![202, 404])));
        for zeros in 0..140 {
            let scan = [&vec![1; zeros][..], &[0xff, 0, 0, 0xff, 0xd9], &[0; 130]].concat();
            assert_eq!(
                filled(&scan),
                Ok(([&vec![1; zeros][..], &[0xff, 0]].concat(), vec![])),
                "{zeros}"
            );
        }
    }

    #[test]
    fn markers_out_of_place_are_a_doubt() {
        for end in [
            &[][..],
            &[0xff],
            &[0xff, 0xd1, 0xff, 0xd9],
            &[0xff, 0xff, 0xd9],
            &[0xff, 0xd0, 1, 0xff, 0xd1, 2, 0xff, 0xd2, 3, 0xff, 0xd9],
            &[0xff, 0xc4, 0xff, 0xd9],
        ] {
            for len in [0, 60, 63, 64, 200] {
                assert_eq!(
                    filled(&[&vec![1; len][..], end].concat()),
                    Err(Declined::Markers),
                    "{end:x?}"
                );
            }
        }
    }
}
