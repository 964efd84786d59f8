//! nvJPEG's handles. All streams of a GPU share one handle for each back end: the library takes a third of
//! a second to make one, and makes them one after the other.
#![allow(unsafe_code)]

use std::ffi::c_uint;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

use headwater_core::draw::Extent;

use super::library::{Backend, Image, Library, OUTPUT_RGBI, Opaque, SMOOTH_UPSAMPLING, Status};
use super::{CodecError, Placed};

/// Colours of an image that is taken: gray, or three of them.
const COMPONENTS: [c_uint; 2] = [1, 3];

/// The handles of a GPU. Each is made when it is first asked for, with the GPU's context current.
#[derive(Default)]
pub(crate) struct Handles {
    kernels: Mutex<Option<Arc<Handle>>>,
    /// `Some(None)`: the GPU has no engines.
    engine: Mutex<Option<Option<Arc<Handle>>>>,
}

/// nvJPEG with one back end. Threads may share it (nvJPEG's guide, "Thread Safety").
pub(super) struct Handle {
    made: Made,
    pub(super) library: Library,
}

/// An object of the library's, destroyed when this is dropped.
pub(super) struct Made {
    made: Opaque,
    destroy: unsafe extern "C" fn(Opaque) -> Status,
}

/// Reads the headers of files. Must be dropped before its handle.
pub(super) struct Parser {
    stream: Made,
    params: Made,
}

// SAFETY: the library ties nothing to a thread, and whoever calls has made the GPU's context current; what
// must not be used by two threads at a time is within values that are not shared.
unsafe impl Send for Made {}
// SAFETY: as above; nothing of it changes.
unsafe impl Sync for Made {}

// === impl Handles ===

impl Handles {
    /// The handle for the kernels.
    ///
    /// # Errors
    /// nvJPEG is not there, or refuses the GPU.
    pub(super) fn kernels(&self) -> Result<Arc<Handle>, String> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = &*kernels {
            return Ok(Arc::clone(handle));
        }
        let handle = Handle::open(Library::system()?, Backend::GpuHybrid)?;
        let handle = handle.ok_or("it does not know this GPU's architecture")?;
        Ok(Arc::clone(kernels.insert(handle)))
    }

    /// The handle for the engines; `None` if the GPU has none. All streams get the same answer.
    ///
    /// # Errors
    /// nvJPEG is not there, or the GPU fails.
    pub(super) fn engine(&self) -> Result<Option<Arc<Handle>>, String> {
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*engine {
            return Ok(known.clone());
        }
        let handle = Handle::open(Library::system()?, Backend::Hardware)?;
        let handle = match handle {
            Some(handle) => Some(handle).filter(|handle| handle.engines() > 0),
            None => None,
        };
        if handle.is_none() {
            tracing::info!("the GPU has no JPEG engine");
        }
        Ok(engine.insert(handle).clone())
    }
}

// === impl Handle ===

impl Handle {
    /// Makes a handle; `None` if the GPU does not have the back end.
    ///
    /// # Errors
    /// The GPU fails.
    pub(super) fn open(library: &Library, backend: Backend) -> Result<Option<Arc<Self>>, String> {
        let flags = if backend == Backend::GpuHybrid { SMOOTH_UPSAMPLING } else { 0 };
        let mut made = null_mut();
        // SAFETY: the place is ours, and null stands for the library's own memory.
        let status = unsafe { (library.create)(backend, null_mut(), null_mut(), flags, &mut made) };
        if status.is_of_architecture() {
            return Ok(None);
        }
        check("create", status).map_err(CodecError::into_reason)?;
        let made = Made { made, destroy: library.destroy };
        Ok(Some(Arc::new(Self { made, library: library.clone() })))
    }

    /// The handle as the library knows it.
    pub(super) fn get(&self) -> Opaque {
        self.made.get()
    }

    /// Engines of the GPU that decode JPEGs.
    pub(super) fn engines(&self) -> u32 {
        let (mut engines, mut cores) = (0, 0);
        // SAFETY: the handle is alive; both places are ours.
        let status = unsafe { (self.library.hardware)(self.get(), &mut engines, &mut cores) };
        if status == Status::SUCCESS { engines } else { 0 }
    }

    /// Calls `create` and owns what it makes.
    ///
    /// # Safety
    /// What `create` writes to its argument is an object that `destroy` takes.
    pub(super) unsafe fn make(
        doing: &'static str,
        create: impl FnOnce(*mut Opaque) -> Status,
        destroy: unsafe extern "C" fn(Opaque) -> Status,
    ) -> Result<Made, CodecError> {
        let mut made = null_mut();
        check(doing, create(&mut made)).map(|()| Made { made, destroy })
    }
}

// === impl Made ===

impl Made {
    /// The object as the library knows it.
    pub(super) fn get(&self) -> Opaque {
        self.made
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: the library made it for that function, and nobody uses it after this.
        let status = unsafe { (self.destroy)(self.made) };
        if status != Status::SUCCESS {
            tracing::debug!(status = status.name(), "nvJPEG kept something");
        }
    }
}

// === impl Parser ===

impl Parser {
    pub(super) fn new(handle: &Handle) -> Result<Self, CodecError> {
        let Library { stream_create, stream_destroy, .. } = handle.library;
        let Library { params_create, params_destroy, params_format, .. } = handle.library;
        // SAFETY: the handle is alive, and the functions belong together.
        unsafe {
            let stream = |to: *mut Opaque| stream_create(handle.get(), to);
            let stream = Handle::make("make a parser", stream, stream_destroy)?;
            let params = |to: *mut Opaque| params_create(handle.get(), to);
            let params = Handle::make("make parameters", params, params_destroy)?;
            check("set the format", params_format(params.get(), OUTPUT_RGBI))?;
            Ok(Self { stream, params })
        }
    }

    /// The library's object with the header that was read last.
    pub(super) fn stream(&self) -> Opaque {
        self.stream.get()
    }

    /// The library's parameters, which ask for the format of [`place`].
    pub(super) fn params(&self) -> Opaque {
        self.params.get()
    }

    /// Reads the header of an image.
    pub(super) fn read(&mut self, handle: &Handle, encoded: &[u8]) -> Result<(), CodecError> {
        // SAFETY: handle and stream are alive; pointer and length are those of one slice.
        let status = unsafe {
            let (bytes, length) = (encoded.as_ptr(), encoded.len());
            (handle.library.stream_parse)(handle.get(), bytes, length, 0, 0, self.stream())
        };
        check("read a header", status)
    }

    /// Whether a file has the expected size, three colours or gray, and `refused` writes 0.
    pub(super) fn takes(
        &mut self,
        handle: &Handle,
        encoded: &[u8],
        extent: Extent,
        refused: impl FnOnce(&Self, &mut i32) -> Status,
    ) -> Result<bool, CodecError> {
        match self.read(handle, encoded).and_then(|()| self.judge(handle, extent, refused)) {
            Err(CodecError::Image(_)) => Ok(false),
            other => other,
        }
    }

    fn judge(
        &self,
        handle: &Handle,
        extent: Extent,
        refused: impl FnOnce(&Self, &mut i32) -> Status,
    ) -> Result<bool, CodecError> {
        let (mut width, mut height, mut components, mut number) = (0, 0, 0, 0);
        let Library { stream_size, stream_components, .. } = handle.library;
        // SAFETY: the stream is alive and has a header; the places are ours.
        unsafe {
            check("read its size", stream_size(self.stream(), &mut width, &mut height))?;
            check("read its colours", stream_components(self.stream(), &mut components))?;
        }
        check("ask whether it is supported", refused(self, &mut number))?;
        // The memory was laid out by libjpeg-turbo's word on the size.
        let agreed = (width, height) == (extent.width, extent.height);
        Ok(agreed && number == 0 && COMPONENTS.contains(&components))
    }
}

/// The destination of an image: interleaved rows without padding.
pub(super) fn place(image: &Placed<'_>) -> Image {
    let mut to = Image { channel: [null_mut(); 4], pitch: [0; 4] };
    to.channel[0] = image.to as *mut u8;
    to.pitch[0] = 3 * image.extent.width as usize;
    to
}

pub(super) fn check(doing: &'static str, status: Status) -> Result<(), CodecError> {
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
