//! JPEGs decoded by a GPU: by its engines where they take an image, by kernels where those do.
//!
//! Its pixels are not libjpeg-turbo's, nor are an engine's those of the kernels. So a recipe has to
//! ask for it, and which way an image goes follows from its bytes and the recipe only, never from
//! what it is decoded together with, nor from how busy anything is. What no way takes goes to the
//! processor's decoder, which also is the judge of whether an image is damaged.

mod budget;
mod canary;
mod coded;
mod engine;
#[cfg(test)]
mod fake;
mod handle;
mod kernels;
mod library;
mod stream;

use headwater_core::draw::Extent;
use xxhash_rust::xxh3::xxh3_64;

use budget::Budget;
pub(super) use budget::{Kind, Memory};
use canary::Watched;
pub(super) use canary::{Spot, Spots};
use engine::Engine;
pub(super) use handle::Handles;
pub(super) use kernels::Settle;
use kernels::{Budgets, Kernels};
pub(super) use stream::{JpegHost, JpegStream};

/// An image and where on the device its pixels go: interleaved RGB without padding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed<'a> {
    /// The file.
    pub(super) encoded: &'a [u8],
    /// Its size, which the place was made for.
    pub(super) extent: Extent,
    /// Address of the first pixel.
    pub(super) to: u64,
}

/// Size of the largest image that memory is taken for ahead; 0: none is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hint {
    pub(super) width: u32,
    pub(super) height: u32,
}

/// What a worker wants of nvJPEG.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NvJpegSettings {
    /// Maximum bytes of the GPU's memory that its kernels take for themselves, over all streams.
    pub memory_bytes: u64,
    /// Columns of the largest image that memory is taken for ahead; 0: none.
    pub width_hint: u32,
    /// Rows of it.
    pub height_hint: u32,
}

/// One way to decode.
///
/// Contract: the device's stream is idle when `decode` is called, because an engine writes at once, whatever
/// the stream still has to do. `decode` puts work on the stream and need not wait; later work on the
/// stream sees the pixels. Files and places stay as they are until the stream has been waited for. After
/// a device error nothing else may be called.
pub(super) trait Codec: Send {
    /// Whether it takes an image of that size, by its header only.
    fn takes(&mut self, encoded: &[u8], extent: Extent) -> Result<bool, CodecError>;

    /// Decodes images that it takes, all or none that can be relied on.
    fn decode(&mut self, images: &[Placed<'_>]) -> Result<(), CodecError>;
}

/// Why images were not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CodecError {
    /// One of them is damaged, or of a kind that is not taken.
    Image(String),
    /// It needs more of the device's memory than it may have.
    Memory(String),
    /// The device.
    Device(String),
}

/// The ways there are on one stream.
pub(super) struct NvJpeg {
    engine: Option<Box<dyn Codec>>,
    kernels: Box<dyn Codec>,
}

/// Which way an image goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Engine,
    Kernels,
    Processor,
}

// === impl NvJpeg ===

impl NvJpeg {
    /// Opens both ways on a stream of the GPU whose context is current. `settings.memory_bytes` bounds
    /// the kernels' memory on the device, and their pinned memory on the host.
    ///
    /// # Errors
    /// nvJPEG is not there, or refuses the GPU. A GPU without engines is no error.
    pub(super) fn open(
        handles: &Handles,
        cuda_stream: *mut std::ffi::c_void,
        settings: NvJpegSettings,
        settle: Settle,
        (memory, spots): (impl Fn(Kind) -> Box<dyn Memory>, Box<dyn Spots>),
    ) -> Result<Self, String> {
        let hint = Hint { width: settings.width_hint, height: settings.height_hint };
        let budget = |kind| Budget::new(settings.memory_bytes, memory(kind));
        let budgets = Budgets { device: budget(Kind::Device), pinned: budget(Kind::Pinned) };
        let kernels = Kernels::open(handles.kernels()?, cuda_stream, settle, budgets);
        let kernels = Box::new(kernels.map_err(CodecError::into_reason)?);
        let open = |handle| Engine::open(handle, cuda_stream, hint);
        let engine = handles.engine()?.map(open).transpose().map_err(CodecError::into_reason)?;
        let watched = |engine| Box::new(Watched::new(engine, spots)) as Box<dyn Codec>;
        Ok(Self { engine: engine.map(watched), kernels })
    }

    /// Whether the GPU has engines.
    pub(super) fn has_engine(&self) -> bool {
        self.engine.is_some()
    }

    /// Decodes images to their places; of each whether that was done. What was not is the
    /// processor's. `engine_load`: share of the images that are tried on the engines.
    ///
    /// # Errors
    /// The device fails, or has too little memory for all images together. Never that of an image.
    pub(super) fn decode(
        &mut self,
        images: &[Placed<'_>],
        engine_load: f64,
    ) -> Result<Vec<bool>, CodecError> {
        let mut ways = Vec::with_capacity(images.len());
        for image in images {
            ways.push(self.way(image, engine_load)?);
        }
        let mut done = vec![false; images.len()];
        if let Some(engine) = &mut self.engine {
            decode_on(&mut **engine, images, &ways, Way::Engine, &mut done)?;
        }
        decode_on(&mut *self.kernels, images, &ways, Way::Kernels, &mut done)?;
        Ok(done)
    }

    fn way(&mut self, image: &Placed<'_>, engine_load: f64) -> Result<Way, CodecError> {
        let engine = self.engine.as_mut().filter(|_| is_of_share(image.encoded, engine_load));
        if let Some(engine) = engine
            && engine.takes(image.encoded, image.extent)?
        {
            return Ok(Way::Engine);
        }
        let taken = self.kernels.takes(image.encoded, image.extent)?;
        Ok(if taken { Way::Kernels } else { Way::Processor })
    }
}

/// Decodes all images of one way together. Where that fails for one of them, nothing says for which:
/// then each is decoded by itself, so that its neighbours are as they would be without it.
fn decode_on(
    codec: &mut dyn Codec,
    images: &[Placed<'_>],
    ways: &[Way],
    way: Way,
    done: &mut [bool],
) -> Result<(), CodecError> {
    let numbers: Vec<usize> = (0..images.len()).filter(|&number| ways[number] == way).collect();
    let together: Vec<Placed<'_>> = numbers.iter().map(|&number| images[number]).collect();
    if together.is_empty() {
        return Ok(());
    }
    match codec.decode(&together) {
        Ok(()) => numbers.iter().for_each(|&number| done[number] = true),
        Err(CodecError::Image(_)) => {
            for number in numbers {
                match codec.decode(&images[number..=number]) {
                    Ok(()) => done[number] = true,
                    Err(CodecError::Image(reason)) => {
                        tracing::debug!(reason, "nvJPEG leaves an image to the processor");
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Whether a file is among so large a share of all files, by its bytes.
fn is_of_share(encoded: &[u8], share: f64) -> bool {
    // The upper 53 bits are exact in a double.
    let place = (xxh3_64(encoded) >> 11) as f64 / (1u64 << 53) as f64;
    place < share
}

// === impl CodecError ===

impl CodecError {
    /// What was said.
    fn into_reason(self) -> String {
        match self {
            Self::Image(reason) | Self::Memory(reason) | Self::Device(reason) => reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    const EXTENT: Extent = Extent { width: 4, height: 4 };

    /// Takes files that begin with one of its letters; those with a `!` behind it fail.
    struct Scripted {
        letters: &'static [u8],
        batches: Arc<Mutex<Vec<Vec<u8>>>>,
    }

    impl Codec for Scripted {
        fn takes(&mut self, encoded: &[u8], _: Extent) -> Result<bool, CodecError> {
            Ok(self.letters.contains(&encoded[0]))
        }

        fn decode(&mut self, images: &[Placed<'_>]) -> Result<(), CodecError> {
            let letters = images.iter().map(|image| image.encoded[0]).collect();
            self.batches.lock().unwrap().push(letters);
            let starts = |second| images.iter().any(|image| image.encoded.get(1) == Some(second));
            if starts(&b'!') {
                return Err(CodecError::Image("bad".into()));
            }
            if starts(&b'#') { Err(CodecError::Device("gone".into())) } else { Ok(()) }
        }
    }

    type Batches = Arc<Mutex<Vec<Vec<u8>>>>;

    fn scripted(engine: Option<&'static [u8]>, kernels: &'static [u8]) -> (NvJpeg, [Batches; 2]) {
        let batches: [Batches; 2] = Default::default();
        let codec = |letters, at: usize| {
            Box::new(Scripted { letters, batches: Arc::clone(&batches[at]) }) as Box<dyn Codec>
        };
        let engine = engine.map(|letters| codec(letters, 0));
        (NvJpeg { engine, kernels: codec(kernels, 1) }, batches)
    }

    fn decode(nvjpeg: &mut NvJpeg, files: &[&[u8]], load: f64) -> Result<Vec<bool>, CodecError> {
        let placed = |encoded| Placed { encoded, extent: EXTENT, to: 0 };
        let images: Vec<Placed<'_>> = files.iter().map(|&encoded| placed(encoded)).collect();
        nvjpeg.decode(&images, load)
    }

    #[test]
    fn the_engine_comes_first_then_kernels_then_the_processor() {
        let (mut nvjpeg, [engine, kernels]) = scripted(Some(b"ab"), b"abc");
        let done = decode(&mut nvjpeg, &[b"a", b"c", b"x", b"b"], 1.0).unwrap();
        assert_eq!(done, [true, true, false, true]);
        assert_eq!(*engine.lock().unwrap(), [b"ab".to_vec()], "one batch");
        assert_eq!(*kernels.lock().unwrap(), [b"c".to_vec()]);
        let (mut nvjpeg, [_, kernels]) = scripted(None, b"abc");
        decode(&mut nvjpeg, &[b"a", b"b"], 1.0).unwrap();
        assert_eq!(*kernels.lock().unwrap(), [b"ab".to_vec()]);
    }

    #[test]
    fn one_bad_image_leaves_the_others_of_its_batch_alone() {
        let (mut nvjpeg, [engine, _]) = scripted(Some(b"abc"), b"abc");
        let done = decode(&mut nvjpeg, &[b"a", b"b!", b"c"], 1.0).unwrap();
        assert_eq!(done, [true, false, true], "the processor judges the second");
        assert_eq!(engine.lock().unwrap().len(), 4);
    }

    #[test]
    fn a_device_that_fails_is_told_from_a_bad_image() {
        let (mut nvjpeg, _) = scripted(Some(b"ab"), b"ab");
        assert_eq!(
            decode(&mut nvjpeg, &[b"a", b"b#"], 1.0),
            Err(CodecError::Device("gone".into()))
        );
    }

    #[test]
    fn a_files_way_follows_from_its_bytes_and_the_share_alone() {
        let files: Vec<Vec<u8>> = (0..4000u32).map(|n| n.to_le_bytes().to_vec()).collect();
        for share in [0.0, 0.25, 0.65, 1.0] {
            let of_share = files.iter().filter(|file| is_of_share(file, share)).count() as f64;
            assert!((of_share / 4000.0 - share).abs() < 0.03, "{share}: {of_share}");
        }
        let of = |share| files.iter().filter(move |file| is_of_share(file, share));
        assert!(of(0.25).all(|file| is_of_share(file, 0.65)), "a larger share holds the smaller");
    }
}
