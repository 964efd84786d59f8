//! Canaries: bytes at the end of each image's place, which a decoder that has decoded the image has written over.
//!
//! An engine may skip an image of a batch and report success. Its place then holds pixels of an earlier part.

use std::hash::{BuildHasher, RandomState};

use headwater_core::draw::Extent;

use super::{Codec, CodecError, Placed};

/// Bytes of a canary, less where an image has fewer.
const CANARY_BYTES: usize = 16;

/// Bytes on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Address of the first.
    pub(crate) at: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Small writes to the device, and reads.
pub(crate) trait Spots: Send {
    /// Writes bytes; they are there when this returns, and the stream is idle.
    ///
    /// # Errors
    /// The device has failed.
    fn write(&mut self, spots: &[Spot]) -> Result<(), String>;

    /// Reads as many bytes at each place as it has, when the stream has done all that was asked of it before.
    ///
    /// # Errors
    /// The device has failed.
    fn read(&mut self, spots: &mut [Spot]) -> Result<(), String>;
}

/// A codec whose images are looked after.
pub(super) struct Watched<C> {
    codec: C,
    spots: Box<dyn Spots>,
    /// Chosen anew for each batch: no image is made to look like one.
    bytes: RandomState,
    batches: u64,
}

// === impl Watched ===

impl<C: Codec> Watched<C> {
    pub(super) fn new(codec: C, spots: Box<dyn Spots>) -> Self {
        Self { codec, spots, bytes: RandomState::new(), batches: 0 }
    }

    /// Canaries of a batch.
    fn canaries(&mut self, images: &[Placed<'_>]) -> Vec<Spot> {
        self.batches += 1;
        let half = |half: u64| self.bytes.hash_one((self.batches, half)).to_le_bytes();
        let canary = [half(0), half(1)].concat();
        let at_the_end = |image: &Placed<'_>| {
            let Extent { width, height } = image.extent;
            let pixels = 3 * u64::from(width) * u64::from(height);
            let bytes = canary[..CANARY_BYTES.min(pixels as usize)].to_vec();
            Spot { at: image.to + pixels - bytes.len() as u64, bytes }
        };
        images.iter().map(at_the_end).collect()
    }
}

impl<C: Codec> Codec for Watched<C> {
    fn takes(&mut self, encoded: &[u8], extent: Extent) -> Result<bool, CodecError> {
        self.codec.takes(encoded, extent)
    }

    fn decode(&mut self, images: &[Placed<'_>]) -> Result<(), CodecError> {
        let canaries = self.canaries(images);
        self.spots.write(&canaries).map_err(CodecError::Device)?;
        self.codec.decode(images)?;
        let mut found = canaries.clone();
        self.spots.read(&mut found).map_err(CodecError::Device)?;
        match canaries.iter().zip(&found).filter(|(put, found)| put == found).count() {
            0 => Ok(()),
            skipped => {
                let of = images.len();
                let reason = format!("it skipped {skipped} of {of} images and reported success");
                Err(CodecError::Device(reason))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// The device's memory. The codec skips the images in `skipped`.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    struct Skipping {
        memory: Memory,
        skipped: &'static [u8],
    }

    impl Spots for Memory {
        fn write(&mut self, spots: &[Spot]) -> Result<(), String> {
            let mut memory = self.0.lock().unwrap();
            for spot in spots {
                memory[spot.at as usize..][..spot.bytes.len()].copy_from_slice(&spot.bytes);
            }
            Ok(())
        }

        fn read(&mut self, spots: &mut [Spot]) -> Result<(), String> {
            let memory = self.0.lock().unwrap();
            for spot in spots {
                let from = &memory[spot.at as usize..][..spot.bytes.len()];
                spot.bytes.copy_from_slice(from);
            }
            Ok(())
        }
    }

    impl Codec for Skipping {
        fn takes(&mut self, _: &[u8], _: Extent) -> Result<bool, CodecError> {
            Ok(true)
        }

        fn decode(&mut self, images: &[Placed<'_>]) -> Result<(), CodecError> {
            let mut memory = self.memory.0.lock().unwrap();
            for image in images.iter().filter(|image| image.encoded != self.skipped) {
                let bytes = 3 * image.extent.width * image.extent.height;
                memory[image.to as usize..][..bytes as usize].fill(7);
            }
            Ok(())
        }
    }

    fn decode(memory: &Memory, skipped: &'static [u8]) -> Result<(), CodecError> {
        let codec = Skipping { memory: memory.clone(), skipped };
        let small = Placed { encoded: b"small", extent: Extent { width: 1, height: 1 }, to: 3 };
        let large = Placed { encoded: b"large", extent: Extent { width: 5, height: 4 }, to: 6 };
        Watched::new(codec, Box::new(memory.clone())).decode(&[small, large])
    }

    #[test]
    fn an_image_that_was_skipped_is_a_failure_of_the_device() {
        let memory = Memory(Arc::new(Mutex::new(vec![1; 80])));
        assert_eq!(decode(&memory, b""), Ok(()));
        for skipped in [&b"small"[..], b"large"] {
            let Err(CodecError::Device(reason)) = decode(&memory, skipped) else {
                panic!("{skipped:?} is missing")
            };
            assert!(reason.contains("skipped 1 of 2 images"), "{reason}");
        }
    }

    #[test]
    fn canaries_lie_within_their_images() {
        let memory = Memory(Arc::new(Mutex::new(vec![1; 80])));
        decode(&memory, b"").unwrap();
        let memory = memory.0.lock().unwrap();
        assert_eq!(memory[..3], [1; 3]);
        assert_eq!(memory[3..66], [7; 63]);
        assert_eq!(memory[66..], [1; 14]);
    }
}
