//! The GPU's JPEG engines, which decode batches of baseline JPEGs.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use headwater_core::draw::Extent;

use super::coded::Checker;
use super::handle::{Handle, Made, Parser, check, place};
use super::library::{Image, OUTPUT_RGBI, Opaque, SUBSAMPLING_444, Status};
use super::{Codec, CodecError, Hint, Placed};

/// Images of a batch at most: two to the power of this.
const BATCH_LOG2_MAX: usize = 6;
/// Images at most that need no state twice: a state's memory is in use until the stream is idle.
pub(super) const AT_ONCE_MAX: usize = (2 << BATCH_LOG2_MAX) - 1;

/// The engines, on one stream of a GPU. The library allocates their memory itself, and calls no allocator of
/// the handle's.
pub(super) struct Engine {
    /// States for batches of 1, 2, 4 images and so on, once they are prepared.
    states: [Option<Made>; BATCH_LOG2_MAX + 1],
    /// States that are destroyed when the stream is idle.
    spoilt: Vec<Made>,
    parser: Parser,
    checker: Checker,
    /// The GPU's stream, `cudaStream_t`.
    cuda_stream: *mut c_void,
    hint: Hint,
    handle: Arc<Handle>,
}

// SAFETY: the library ties nothing to a thread; the GPU's context is made current by whoever calls, and
// the value is used by one thread at a time.
unsafe impl Send for Engine {}

// === impl Engine ===

impl Engine {
    /// # Errors
    /// The GPU fails, or has no memory for it.
    pub(super) fn open(
        handle: Arc<Handle>,
        cuda_stream: *mut c_void,
        hint: Hint,
    ) -> Result<Self, CodecError> {
        let parser = Parser::new(&handle)?;
        let checker = Checker::default();
        Ok(Self {
            states: Default::default(),
            spoilt: Vec::new(),
            parser,
            checker,
            cuda_stream,
            hint,
            handle,
        })
    }

    /// A state that is ready for a batch of 2 to the power of `log2` images. Making one ready takes memory of the device
    /// anew, which may take longer than to decode: so each size has its own.
    fn ready(&mut self, log2: usize) -> Result<Opaque, CodecError> {
        let state = match self.states[log2].take() {
            Some(state) => state,
            None => {
                let state = self.state()?;
                self.prepare(&state, 1 << log2)?;
                state
            }
        };
        Ok(self.states[log2].insert(state).get())
    }

    fn state(&self) -> Result<Made, CodecError> {
        let library = &self.handle.library;
        let create = |to: *mut Opaque| {
            // SAFETY: the handle is alive, and the place is ours.
            unsafe { (library.state_create)(self.handle.get(), to) }
        };
        // SAFETY: the functions belong together.
        unsafe { Handle::make("make a state", create, library.state_destroy) }
    }

    fn prepare(&self, state: &Made, images: usize) -> Result<(), CodecError> {
        let (handle, state, count) = (self.handle.get(), state.get(), images as c_int);
        // Called even without a hint, as then the library keeps its memory in a pool.
        let Hint { width, height } = self.hint;
        let (width, height) = (width.max(1) as c_int, height.max(1) as c_int);
        let library = &self.handle.library;
        // SAFETY: handle and state are alive; the numbers are plain.
        unsafe {
            let status = (library.batch_initialise)(handle, state, count, 1, OUTPUT_RGBI);
            check("prepare a batch", status)?;
            let ahead = library.batch_preallocate;
            let status = ahead(handle, state, count, width, height, SUBSAMPLING_444, OUTPUT_RGBI);
            check("take memory ahead", status)
        }
    }

    /// Decodes 2 to the power of `log2` images.
    fn decode_batch(&mut self, images: &[Placed<'_>], log2: usize) -> Result<(), CodecError> {
        let state = self.ready(log2)?;
        let bytes: Vec<*const u8> = images.iter().map(|image| image.encoded.as_ptr()).collect();
        let lengths: Vec<usize> = images.iter().map(|image| image.encoded.len()).collect();
        let mut places: Vec<Image> = images.iter().map(place).collect();
        let handle = self.handle.get();
        // SAFETY: handle and state are alive; all three lists have as many elements as the batch was
        // prepared for. The bytes and the places on the device outlive the stream's work: the contract
        // of `Codec::decode`. The library copies the lists themselves.
        let status = unsafe {
            let (bytes, lengths) = (bytes.as_ptr(), lengths.as_ptr());
            let decode = self.handle.library.batch_decode;
            decode(handle, state, bytes, lengths, places.as_mut_ptr(), self.cuda_stream)
        };
        if status != Status::SUCCESS {
            // What a state is after a batch that failed, nobody says. The stream may still use its memory.
            self.spoilt.extend(self.states[log2].take());
        }
        check("decode a batch", status)
    }
}

impl Codec for Engine {
    /// Takes whole files only. An engine stops where the coded pixels are damaged or end too early. It
    /// reports no error, and the rest of the image shows pixels of one that it decoded before.
    fn takes(&mut self, encoded: &[u8], extent: Extent) -> Result<bool, CodecError> {
        let handle = &*self.handle;
        let refused = |parser: &Parser, number: &mut i32| {
            let supported = handle.library.batch_supported;
            // SAFETY: all are alive, and the stream has a header.
            unsafe { supported(handle.get(), parser.stream(), parser.params(), number) }
        };
        let taken = self.parser.takes(handle, encoded, extent, refused)?;
        Ok(taken && self.checker.is_whole(encoded))
    }

    /// In batches of few sizes: an image's pixels do not depend on the others of its batch.
    fn decode(&mut self, images: &[Placed<'_>]) -> Result<(), CodecError> {
        assert!(images.len() <= AT_ONCE_MAX, "each state once until the stream is idle");
        self.spoilt.clear();
        let mut rest = images;
        while !rest.is_empty() {
            let log2 = (rest.len().ilog2() as usize).min(BATCH_LOG2_MAX);
            let (batch, later) = rest.split_at(1 << log2);
            self.decode_batch(batch, log2)?;
            rest = later;
        }
        Ok(())
    }
}
