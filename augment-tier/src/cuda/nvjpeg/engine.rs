//! The GPU's JPEG engines, which decode batches of baseline JPEGs.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use headwater_core::draw::Extent;

use super::handle::{Handle, Made, Parser, check, place};
use super::library::{Image, OUTPUT_RGBI, Opaque, SUBSAMPLING_444, Status};
use super::{Codec, CodecError, Hint, Placed};
use crate::decode::coded::Checker;

/// The engines, on one stream of a GPU. The library allocates their memory itself, and calls no allocator of
/// the handle's.
pub(super) struct Engine {
    state: Made,
    parser: Parser,
    checker: Checker,
    /// The GPU's stream, `cudaStream_t`.
    cuda_stream: *mut c_void,
    /// Images of the batch that the state is prepared for; 0: of none.
    batch: usize,
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
        let library = &handle.library;
        let create = |to: *mut Opaque| {
            // SAFETY: the handle is alive, and the place is ours.
            unsafe { (library.state_create)(handle.get(), to) }
        };
        // SAFETY: the functions belong together.
        let state = unsafe { Handle::make("make a state", create, library.state_destroy)? };
        let parser = Parser::new(&handle)?;
        let checker = Checker::default();
        Ok(Self { state, parser, checker, cuda_stream, batch: 0, hint, handle })
    }

    /// Makes the state ready for a batch of so many, unless it is.
    fn ready(&mut self, images: usize) -> Result<(), CodecError> {
        if self.batch == images {
            return Ok(());
        }
        self.batch = 0;
        let (handle, state, count) = (self.handle.get(), self.state.get(), images as c_int);
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
            check("take memory ahead", status)?;
        }
        self.batch = images;
        Ok(())
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

    fn decode(&mut self, images: &[Placed<'_>]) -> Result<(), CodecError> {
        if images.is_empty() {
            return Ok(());
        }
        self.ready(images.len())?;
        let bytes: Vec<*const u8> = images.iter().map(|image| image.encoded.as_ptr()).collect();
        let lengths: Vec<usize> = images.iter().map(|image| image.encoded.len()).collect();
        let mut places: Vec<Image> = images.iter().map(place).collect();
        let (handle, state) = (self.handle.get(), self.state.get());
        // SAFETY: handle and state are alive; all three lists have as many elements as the batch was
        // prepared for. The bytes and the places on the device outlive the stream's work: the contract
        // of `Codec::decode`. The library copies the lists themselves.
        let status = unsafe {
            let (bytes, lengths) = (bytes.as_ptr(), lengths.as_ptr());
            let decode = self.handle.library.batch_decode;
            decode(handle, state, bytes, lengths, places.as_mut_ptr(), self.cuda_stream)
        };
        if status != Status::SUCCESS {
            // A batch that failed must be prepared anew.
            self.batch = 0;
        }
        check("decode a batch", status)
    }
}
