//! nvJPEG on one stream: opened when an image first needs it, anew after a failure, and asked for no
//! more at once than its memory is enough for.

use super::engine::AT_ONCE_MAX;
use super::{CodecError, NvJpeg, Placed};
use crate::device::{DeviceError, JpegError};

/// What a stream of a GPU does for its decoder.
pub(crate) trait JpegHost: Send {
    /// Opens nvJPEG on the stream.
    ///
    /// # Errors
    /// It is not there, or refuses the GPU.
    fn open(&mut self) -> Result<NvJpeg, String>;

    /// Waits until the stream has done all that was asked of it.
    ///
    /// # Errors
    /// The GPU has failed.
    fn settle(&mut self) -> Result<(), String>;
}

/// The decoder of one stream.
pub(crate) struct JpegStream {
    nvjpeg: Option<NvJpeg>,
    /// Goes after the decoder, which uses what it holds.
    host: Box<dyn JpegHost>,
    /// Images that there has been memory for together, and that engines take together.
    at_once: usize,
}

// === impl JpegStream ===

impl JpegStream {
    pub(crate) fn new(host: Box<dyn JpegHost>) -> Self {
        Self { nvjpeg: None, host, at_once: AT_ONCE_MAX }
    }

    /// The decoder, opened if it is not.
    ///
    /// # Errors
    /// As [`JpegHost::open`].
    pub(crate) fn nvjpeg(&mut self) -> Result<&mut NvJpeg, String> {
        let nvjpeg = match self.nvjpeg.take() {
            Some(nvjpeg) => nvjpeg,
            None => self.host.open()?,
        };
        Ok(self.nvjpeg.insert(nvjpeg))
    }

    /// Gives back what the decoder holds. Nothing of it may be under way.
    pub(crate) fn close(&mut self) {
        self.nvjpeg = None;
    }

    /// As [`NvJpeg::decode`], in pieces where there is too little memory for all; an image's pixels
    /// do not depend on its neighbours. What fails is tried once more by a decoder that is opened
    /// anew.
    ///
    /// # Errors
    /// An image needs by itself more memory than there is, or the GPU fails twice in a row.
    pub(crate) fn decode(
        &mut self,
        images: &[Placed<'_>],
        engine_load: f64,
    ) -> Result<Vec<bool>, JpegError> {
        let mut done = Vec::with_capacity(images.len());
        let mut failed_before = false;
        while done.len() < images.len() {
            let rest = &images[done.len()..];
            let piece = &rest[..rest.len().min(self.at_once)];
            match self.decode_piece(piece, engine_load) {
                Ok(piece) => {
                    done.extend(piece);
                    failed_before = false;
                }
                Err(CodecError::Memory(reason)) if piece.len() > 1 => {
                    self.at_once = piece.len().div_ceil(2);
                    let images = self.at_once;
                    tracing::warn!(
                        reason,
                        images,
                        "nvJPEG has too little memory and decodes fewer images at once: raise \
                         augment.nvjpeg_memory_bytes or lower augment.threads"
                    );
                }
                Err(CodecError::Memory(reason)) => {
                    // The next images need not be as large.
                    self.at_once = AT_ONCE_MAX;
                    return Err(JpegError::Memory(too_large(piece, &reason)));
                }
                Err(error) if failed_before => return Err(lost(error.into_reason())),
                Err(error) => {
                    let reason = error.into_reason();
                    tracing::warn!(reason, "nvJPEG has failed and is opened anew");
                    failed_before = true;
                }
            }
        }
        Ok(done)
    }

    /// After a failure there is no decoder any more: what its state means then, nobody says.
    fn decode_piece(
        &mut self,
        images: &[Placed<'_>],
        engine_load: f64,
    ) -> Result<Vec<bool>, CodecError> {
        // The contract of `Codec`: engines do not wait for the stream.
        self.host.settle().map_err(CodecError::Device)?;
        let nvjpeg = self.nvjpeg().map_err(CodecError::Device)?;
        let decoded = nvjpeg.decode(images, engine_load);
        if decoded.is_err() {
            // Its memory may be in use until then.
            let settled = self.host.settle();
            self.nvjpeg = None;
            settled.map_err(CodecError::Device)?;
        }
        decoded
    }
}

fn too_large(piece: &[Placed<'_>], reason: &str) -> String {
    let of = |image: &Placed<'_>| format!("{} x {}", image.extent.width, image.extent.height);
    let extent = piece.first().map(of).unwrap_or_default();
    format!(
        "nvJPEG has too little memory for an image of {extent} pixels, {reason}: raise \
         augment.nvjpeg_memory_bytes or lower augment.threads"
    )
}

fn lost(reason: String) -> JpegError {
    JpegError::Device(DeviceError { doing: "decode JPEGs".to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use headwater_core::draw::Extent;

    use super::super::Codec;
    use super::*;

    const EXTENT: Extent = Extent { width: 30, height: 20 };

    /// What a decoder and its stream were asked for.
    #[derive(Default)]
    struct Log {
        opened: usize,
        /// Nothing is under way.
        settled: bool,
        batches: Vec<usize>,
        /// Images that there is memory for together.
        room: usize,
        /// Batches that fail from here on.
        failing: usize,
        /// The stream itself fails.
        gone: bool,
    }

    #[derive(Clone)]
    struct Told(Arc<Mutex<Log>>);

    impl Codec for Told {
        fn takes(&mut self, _: &[u8], _: Extent) -> Result<bool, CodecError> {
            Ok(true)
        }

        fn decode(&mut self, images: &[Placed<'_>]) -> Result<(), CodecError> {
            let mut log = self.0.lock().unwrap();
            log.batches.push(images.len());
            assert!(std::mem::take(&mut log.settled), "something is under way");
            if images.len() > log.room {
                return Err(CodecError::Memory("full".into()));
            }
            if log.failing > 0 {
                log.failing -= 1;
                return Err(CodecError::Device("broken".into()));
            }
            Ok(())
        }
    }

    impl JpegHost for Told {
        fn open(&mut self) -> Result<NvJpeg, String> {
            let mut log = self.0.lock().unwrap();
            assert!(log.settled, "what the decoder before has left may be in use");
            log.opened += 1;
            Ok(NvJpeg { engine: None, kernels: Box::new(self.clone()) })
        }

        fn settle(&mut self) -> Result<(), String> {
            let mut log = self.0.lock().unwrap();
            log.settled = true;
            if log.gone { Err("the GPU is gone".into()) } else { Ok(()) }
        }
    }

    fn stream(log: Log) -> (JpegStream, Arc<Mutex<Log>>) {
        let log = Arc::new(Mutex::new(log));
        (JpegStream::new(Box::new(Told(Arc::clone(&log)))), log)
    }

    fn decode(stream: &mut JpegStream, images: usize) -> Result<Vec<bool>, JpegError> {
        let image = Placed { encoded: b"jpeg", extent: EXTENT, to: 0 };
        stream.decode(&vec![image; images], 0.0)
    }

    #[test]
    fn more_images_than_there_is_memory_for_are_decoded_in_pieces() {
        let (mut stream, log) = stream(Log { room: 3, ..Log::default() });
        assert_eq!(decode(&mut stream, 10).unwrap(), [true; 10]);
        assert_eq!(log.lock().unwrap().batches, [10, 5, 3, 3, 3, 1]);
        assert_eq!(decode(&mut stream, 7).unwrap(), [true; 7]);
        assert_eq!(log.lock().unwrap().batches[6..], [3, 3, 1], "what is known is not tried again");
        let log = log.lock().unwrap();
        assert_eq!(log.opened, 3, "anew after each failure");
    }

    #[test]
    fn the_stream_is_idle_again_before_an_engine_needs_a_state_twice() {
        let (mut stream, log) = stream(Log { room: 1000, ..Log::default() });
        assert_eq!(decode(&mut stream, 300).unwrap(), [true; 300]);
        // `Told` asserts that the stream is settled before each.
        assert_eq!(log.lock().unwrap().batches, [127, 127, 46]);
    }

    #[test]
    fn an_image_too_large_alone_names_its_size_and_the_key_and_the_next_ones_are_decoded() {
        let (mut stream, log) = stream(Log { room: 0, ..Log::default() });
        let Err(JpegError::Memory(reason)) = decode(&mut stream, 2) else { panic!("no room") };
        for word in ["30 x 20", "augment.nvjpeg_memory_bytes", "full"] {
            assert!(reason.contains(word), "{reason}");
        }
        log.lock().unwrap().room = 4;
        assert_eq!(decode(&mut stream, 4).unwrap(), [true; 4]);
        assert_eq!(log.lock().unwrap().batches, [2, 1, 4]);
    }

    #[test]
    fn one_failure_opens_the_decoder_anew_and_a_second_one_is_the_devices() {
        let (mut stream, log) = stream(Log { room: 9, failing: 1, ..Log::default() });
        assert_eq!(decode(&mut stream, 2).unwrap(), [true; 2]);
        assert_eq!(log.lock().unwrap().opened, 2);
        log.lock().unwrap().failing = 2;
        let Err(JpegError::Device(error)) = decode(&mut stream, 2) else {
            panic!("it fails twice")
        };
        assert_eq!(error.to_string(), "decode JPEGs: broken");
        assert_eq!(decode(&mut stream, 2).unwrap(), [true; 2], "nothing is left of it");
    }

    #[test]
    fn a_stream_that_is_gone_is_no_matter_of_memory() {
        let (mut stream, _) = stream(Log { room: 1, gone: true, ..Log::default() });
        let Err(JpegError::Device(error)) = decode(&mut stream, 2) else { panic!("it is gone") };
        assert!(error.reason.contains("the GPU is gone"), "{error}");
    }
}
