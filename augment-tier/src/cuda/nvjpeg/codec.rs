//! One of nvJPEG's ways to decode: a handle with its state, on one stream of a GPU.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use headwater_core::draw::Extent;

use super::budget::Budget;
use super::library::{
    Allocator, Backend, Image, Library, OUTPUT_RGBI, Opaque, SMOOTH_UPSAMPLING, SUBSAMPLING_420,
    Status,
};
use super::{Codec, CodecError, Hint, Placed};

/// Colours of an image that is taken: gray, or three of them.
const COMPONENTS: [c_uint; 2] = [1, 3];

/// nvJPEG with one back end. Not shared: calls of one handle's state exclude each other.
pub(super) struct NvCodec {
    library: Library,
    backend: Backend,
    handle: Opaque,
    state: Opaque,
    stream: Opaque,
    params: Opaque,
    /// The GPU's stream, `cudaStream_t`.
    cuda_stream: *mut c_void,
    /// Images of the batch that the state was made ready for.
    batch: usize,
    hint: Hint,
    /// The library holds pointers to them, so they are dropped after the handle.
    budgets: Box<Budgets>,
    _allocators: Box<[Allocator; 2]>,
}

/// Bounds on what a codec takes.
pub(super) struct Budgets {
    pub(super) device: Budget,
    /// On the host.
    pub(super) pinned: Budget,
}

// SAFETY: the library ties nothing of a handle to a thread; the GPU's context is made current by
// whoever calls, and the value is used by one thread at a time.
unsafe impl Send for NvCodec {}

// === impl NvCodec ===

impl NvCodec {
    /// A codec whose memory comes out of `budgets`.
    ///
    /// # Errors
    /// nvJPEG refuses the back end: the GPU has none of it, or there is no memory.
    pub(super) fn open(
        library: &Library,
        backend: Backend,
        cuda_stream: *mut c_void,
        budgets: Budgets,
        hint: Hint,
    ) -> Result<Self, CodecError> {
        let budgets = Box::new(budgets);
        let allocators = [budgets.device.allocator(), budgets.pinned.allocator()];
        let mut codec = Self {
            library: library.clone(),
            backend,
            handle: null_mut(),
            state: null_mut(),
            stream: null_mut(),
            params: null_mut(),
            cuda_stream,
            batch: 0,
            hint,
            _allocators: Box::new(allocators),
            budgets,
        };
        let flags = if backend == Backend::GpuHybrid { SMOOTH_UPSAMPLING } else { 0 };
        // SAFETY: the allocators and what they point to live as long as the handle (`drop` destroys
        // it first); each place written to is ours.
        unsafe {
            let [device, pinned]: &mut [Allocator; 2] = &mut codec._allocators;
            let (library, handle) = (&codec.library, &mut codec.handle);
            check("create", (library.create)(backend, device, pinned, flags, handle))?;
            let handle = codec.handle;
            check("make a state", (library.state_create)(handle, &mut codec.state))?;
            check("make a parser", (library.stream_create)(handle, &mut codec.stream))?;
            check("make parameters", (library.params_create)(handle, &mut codec.params))?;
            check("set the format", (library.params_format)(codec.params, OUTPUT_RGBI))?;
        }
        Ok(codec)
    }

    /// Engines of the GPU that decode JPEGs, and cores of each.
    pub(super) fn engines(&self) -> Result<(u32, u32), CodecError> {
        let (mut engines, mut cores) = (0, 0);
        // SAFETY: the handle is alive; both places are ours.
        let status = unsafe { (self.library.hardware)(self.handle, &mut engines, &mut cores) };
        check("count engines", status).map(|()| (engines, cores))
    }

    /// Makes the state ready for a batch of so many, unless it is.
    fn ready(&mut self, images: usize) -> Result<(), CodecError> {
        if self.batch == images {
            return Ok(());
        }
        self.batch = 0;
        let count = images as c_int;
        let Self { library, handle, state, .. } = self;
        // SAFETY: handle and state are alive; the numbers are plain.
        unsafe {
            let status = (library.batch_initialise)(*handle, *state, count, 1, OUTPUT_RGBI);
            check("prepare a batch", status)?;
            let Hint { width, height } = self.hint;
            if width > 0 && height > 0 {
                let (width, height) = (width as c_int, height as c_int);
                let status = (library.batch_preallocate)(
                    *handle,
                    *state,
                    count,
                    width,
                    height,
                    SUBSAMPLING_420,
                    OUTPUT_RGBI,
                );
                check("take memory ahead", status)?;
            }
        }
        self.batch = images;
        Ok(())
    }

    fn decode_batch(&mut self, images: &[Placed<'_>]) -> Result<(), CodecError> {
        self.ready(images.len())?;
        let bytes: Vec<*const u8> = images.iter().map(|image| image.encoded.as_ptr()).collect();
        let lengths: Vec<usize> = images.iter().map(|image| image.encoded.len()).collect();
        let mut places: Vec<Image> = images.iter().map(place).collect();
        let Self { library, handle, state, cuda_stream, .. } = self;
        // SAFETY: handle and state are alive; all three lists have as many elements as the batch was
        // prepared for. The bytes and the places on the device outlive the stream's work: the contract
        // of `Codec::decode`. The library copies the lists themselves.
        let status = unsafe {
            let (bytes, lengths) = (bytes.as_ptr(), lengths.as_ptr());
            let places = places.as_mut_ptr();
            (library.batch_decode)(*handle, *state, bytes, lengths, places, *cuda_stream)
        };
        if status != Status::SUCCESS {
            // A batch that failed must be prepared anew.
            self.batch = 0;
        }
        check("decode a batch", status)
    }

    fn decode_alone(&mut self, image: &Placed<'_>) -> Result<(), CodecError> {
        let mut to = place(image);
        let Self { library, handle, state, cuda_stream, .. } = self;
        let (bytes, length) = (image.encoded.as_ptr(), image.encoded.len());
        // SAFETY: handle and state are alive; the bytes and the place on the device outlive the
        // stream's work, see `decode_batch`.
        let status = unsafe {
            (library.decode)(*handle, *state, bytes, length, OUTPUT_RGBI, &mut to, *cuda_stream)
        };
        check("decode an image", status)
    }
}

fn place(image: &Placed<'_>) -> Image {
    let mut to = Image { channel: [null_mut(); 4], pitch: [0; 4] };
    to.channel[0] = image.to as *mut u8;
    to.pitch[0] = 3 * image.extent.width as usize;
    to
}

fn check(doing: &'static str, status: Status) -> Result<(), CodecError> {
    if status == Status::SUCCESS {
        return Ok(());
    }
    let reason = format!("{doing}: {}", status.name());
    Err(match status {
        status if status.is_of_image() => CodecError::Image(reason),
        Status::ALLOCATOR_FAILURE => CodecError::Memory(reason),
        _ => CodecError::Device(reason),
    })
}

impl Codec for NvCodec {
    fn takes(&mut self, encoded: &[u8], extent: Extent) -> Result<bool, CodecError> {
        let (mut width, mut height, mut components, mut refused) = (0, 0, 0, 0);
        let Self { library, handle, stream, params, .. } = self;
        // SAFETY: all handles are alive; pointer and length are those of one slice, which the parser
        // reads during the call alone (it keeps neither metadata nor bytes); the places are ours.
        let status = unsafe {
            let (bytes, length) = (encoded.as_ptr(), encoded.len());
            let parsed = (library.stream_parse)(*handle, bytes, length, 0, 0, *stream);
            let mut steps = vec![parsed];
            if parsed == Status::SUCCESS {
                steps.push((library.stream_size)(*stream, &mut width, &mut height));
                steps.push((library.stream_components)(*stream, &mut components));
                if self.backend == Backend::Hardware {
                    let supported = library.batch_supported;
                    steps.push(supported(*handle, *stream, *params, &mut refused));
                }
            }
            steps.into_iter().find(|status| *status != Status::SUCCESS)
        };
        match check("read a header", status.unwrap_or(Status::SUCCESS)) {
            Err(CodecError::Image(_)) => return Ok(false),
            other => other?,
        }
        // The memory was laid out by libjpeg-turbo's word on the size.
        let agreed = (width, height) == (extent.width, extent.height);
        Ok(agreed && refused == 0 && COMPONENTS.contains(&components))
    }

    fn decode(&mut self, images: &[Placed<'_>]) -> Result<(), CodecError> {
        let decoded = match (self.backend, images) {
            (_, []) => Ok(()),
            (Backend::Hardware, images) => self.decode_batch(images),
            (Backend::GpuHybrid, images) => {
                images.iter().try_for_each(|image| self.decode_alone(image))
            }
        };
        // Which status the library has for memory that it was refused is its own affair.
        let refusals = [&self.budgets.device, &self.budgets.pinned].map(Budget::take_refusal);
        match (decoded, refusals.into_iter().flatten().next()) {
            (Err(error), Some(bytes)) => Err(CodecError::Memory(format!(
                "{} ({bytes} bytes more were refused)",
                error.into_reason()
            ))),
            (decoded, _) => decoded,
        }
    }
}

impl Drop for NvCodec {
    fn drop(&mut self) {
        let Self { library, handle, state, stream, params, .. } = self;
        // SAFETY: each was made by the library or is null, and nobody uses it after this; the handle
        // goes last, and the allocators outlive it.
        unsafe {
            let ends = [
                (*params, library.params_destroy),
                (*stream, library.stream_destroy),
                (*state, library.state_destroy),
                (*handle, library.destroy),
            ];
            for (made, destroy) in ends.into_iter().filter(|(made, _)| !made.is_null()) {
                let status = destroy(made);
                if status != Status::SUCCESS {
                    tracing::debug!(status = status.name(), "nvJPEG kept something");
                }
            }
        }
    }
}
