//! A slot's twin in a GPU's memory.
//!
//! Links write to the slot, which is memory of the host. A batch that is whole is copied to the twin, on
//! a stream that does nothing else, and may be used by a consumer's stream from the copy's end on.
//! Nobody waits for anybody on the host: events say what comes before what.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::result::{self, DriverError, stream::StreamKind};
use cudarc::driver::sys;
use headwater_core::Dtype;
use headwater_core::cast::Normalise;
use headwater_transport::SlotMemory;

use crate::cubin_cache::CubinCache;
use crate::current::Current;
use crate::error::CudaError;
use crate::event::Event;
use crate::expander::{Expander, Expansion};
use crate::gpu::Gpu;
use crate::memory::{DeviceAllocator, DeviceMemory};

/// Copies slots to one GPU.
pub struct Uploader {
    gpu: Gpu,
    allocator: Option<Box<dyn DeviceAllocator>>,
    expander: Option<Expander>,
}

/// A stream of whoever uses what a device slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerStream(u64);

/// The twin of one slot. Dropping it waits for all who still use it.
pub struct DeviceSlot {
    uploader: Arc<Uploader>,
    /// The slot, locked in memory and known to the driver while this lives.
    host: Arc<SlotMemory>,
    memory: DeviceMemory,
    len_bytes: u64,
    stream: sys::CUstream,
    /// The end of the last upload.
    uploaded: Event,
    users: Mutex<Users>,
    made_in: u32,
}

/// Who uses the slot's content.
#[derive(Default)]
struct Users {
    /// Streams that were told to wait for the upload and may now read.
    streams: Vec<ConsumerStream>,
    /// Where streams stood when their owners let go: the next upload comes after.
    gone: Vec<Event>,
}

// SAFETY: the driver's calls on a stream may be made on any thread; all else in it is `Send`.
unsafe impl Send for DeviceSlot {}
// SAFETY: what changes is behind a lock; the driver takes calls from several threads at once.
unsafe impl Sync for DeviceSlot {}

// === impl ConsumerStream ===

impl ConsumerStream {
    /// The legacy default stream, which waits for all blocking streams and they for it.
    pub const LEGACY: Self = Self(1);
    /// The calling thread's default stream.
    const PER_THREAD: Self = Self(2);

    /// A stream by the driver's handle; 1 and 2 are the default streams.
    ///
    /// # Safety
    /// It is a stream of the slot's GPU that lives as long as the slot's content is used.
    #[must_use]
    pub unsafe fn from_handle(handle: u64) -> Self {
        Self(handle)
    }

    fn raw(self) -> sys::CUstream {
        self.0 as usize as sys::CUstream
    }
}

// === impl Uploader ===

impl Uploader {
    /// Opens a GPU for copies of slots.
    ///
    /// # Errors
    /// There is no such GPU, or it cannot be used; says what is missing.
    pub fn open(
        ordinal: u32,
        allocator: Option<Box<dyn DeviceAllocator>>,
    ) -> Result<Self, CudaError> {
        Ok(Self { gpu: Gpu::open(ordinal)?, allocator, expander: None })
    }

    /// With a kernel that makes elements of `dtype` of levels: `bf16`, `f16` or `f32`.
    ///
    /// # Errors
    /// The kernel cannot be had; says what is missing.
    pub fn normalising(
        self,
        normalise: &Normalise,
        dtype: Dtype,
        cache: Option<&CubinCache>,
    ) -> Result<Self, CudaError> {
        let expander = Some(Expander::new(&self.gpu, normalise, dtype, cache)?);
        Ok(Self { expander, ..self })
    }

    /// The GPU.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// A twin of `len_bytes`, at least the slot's own length, for a slot.
    ///
    /// # Errors
    /// The GPU has no memory for it, or the slot cannot be locked in memory.
    pub fn slot(
        self: &Arc<Self>,
        host: Arc<SlotMemory>,
        len_bytes: u64,
    ) -> Result<DeviceSlot, CudaError> {
        assert!(len_bytes >= host.len_bytes(), "a twin of {len_bytes} bytes");
        let memory = DeviceMemory::take(&self.gpu, self.allocator.as_deref(), len_bytes)?;
        let failed = |doing| self.gpu.failed(doing);
        let _current = Current::of(self.gpu.context()).map_err(failed("use it"))?;
        let uploaded = Event::new(self.gpu.context()).map_err(failed("make an event"))?;
        lock_pages(&host).map_err(failed("lock a slot's memory for copies (cuMemHostRegister)"))?;
        let stream = result::stream::create(StreamKind::NonBlocking)
            .inspect_err(|_| unlock_pages(&host))
            .map_err(failed("make a stream"))?;
        let (users, made_in) = (Mutex::default(), std::process::id());
        let uploader = Arc::clone(self);
        Ok(DeviceSlot { uploader, host, memory, len_bytes, stream, uploaded, users, made_in })
    }
}

fn lock_pages(host: &SlotMemory) -> Result<(), DriverError> {
    let bytes = host.len_bytes() as usize;
    let portable = sys::CU_MEMHOSTREGISTER_PORTABLE;
    // SAFETY: the slot's mapping stays where it is as long as the `DeviceSlot` that keeps it.
    unsafe { sys::cuMemHostRegister_v2(host.as_ptr().cast::<c_void>(), bytes, portable) }.result()
}

/// Needs a current context.
fn unlock_pages(host: &SlotMemory) {
    // SAFETY: `lock_pages` has locked them.
    let _ = unsafe { sys::cuMemHostUnregister(host.as_ptr().cast::<c_void>()) }.result();
}

// === impl DeviceSlot ===

impl DeviceSlot {
    /// Number of the GPU.
    #[must_use]
    pub fn ordinal(&self) -> u32 {
        self.uploader.gpu.ordinal()
    }

    /// Address on the GPU of the first byte; of use to streams that [`DeviceSlot::hand_to`] was called for.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Copies the slot's first `len_bytes` to the GPU and normalises there what is to be normalised, as
    /// soon as those who have used the twin before are done with it. Returns at once; until
    /// [`DeviceSlot::is_uploaded`] nobody may write to the slot.
    ///
    /// # Errors
    /// The GPU fails.
    ///
    /// # Panics
    /// Something lies beyond the slot or its twin.
    pub fn upload(&self, len_bytes: u64, expansions: &[Expansion]) -> Result<(), CudaError> {
        assert!(len_bytes <= self.host.len_bytes(), "{len_bytes} bytes of a slot");
        self.enqueue(len_bytes, expansions).map_err(self.uploader.gpu.failed("copy a batch to it"))
    }

    fn enqueue(&self, len_bytes: u64, expansions: &[Expansion]) -> Result<(), DriverError> {
        let gone = std::mem::take(&mut self.users().gone);
        for event in gone {
            // SAFETY: the stream is the slot's own.
            unsafe { event.hold_back(self.stream) }?;
        }
        let _current = Current::of(self.uploader.gpu.context())?;
        let (to, from) = (self.memory.address(), self.host.as_ptr().cast::<c_void>());
        // SAFETY: both ends have `len_bytes`; the source is locked, lives as long as `self`, which waits
        // for the stream when dropped, and is not written to meanwhile, as the contract says. It is
        // handled by address: no reference to it exists.
        unsafe { sys::cuMemcpyHtoDAsync_v2(to, from, len_bytes as usize, self.stream) }.result()?;
        for &expansion in expansions {
            let Expansion { levels, elements, plane, planes } = expansion;
            let expander = self.uploader.expander.as_ref().expect("an uploader that normalises");
            let count = plane * u64::from(planes);
            let end = elements + count * expander.element_bytes();
            assert!(levels + count <= len_bytes && end <= self.len_bytes, "{expansion:?}");
            // SAFETY: the context is current, the places were just checked, and `self` waits for the
            // stream when dropped.
            unsafe { expander.launch(to, expansion, self.stream) }?;
        }
        // SAFETY: the stream is the slot's own.
        unsafe { self.uploaded.set(self.stream) }
    }

    /// Whether the last upload has ended: the slot may be written to again.
    ///
    /// # Errors
    /// The GPU fails.
    pub fn is_uploaded(&self) -> Result<bool, CudaError> {
        self.uploaded.is_reached().map_err(self.uploader.gpu.failed("copy a batch to it"))
    }

    /// Lets a stream read the twin: what it is asked for from now on comes after the upload.
    ///
    /// # Errors
    /// The GPU fails.
    pub fn hand_to(&self, stream: ConsumerStream) -> Result<(), CudaError> {
        let mut users = self.users();
        // SAFETY: the stream is alive by the word that was given for it.
        unsafe { self.uploaded.hold_back(stream.raw()) }
            .map_err(self.uploader.gpu.failed("let a stream wait for a batch"))?;
        // A thread's own default stream cannot be named from another thread, on which it may be let
        // go of; the legacy stream stands for it, as it waits for all of those.
        let known = match stream {
            ConsumerStream::PER_THREAD => ConsumerStream::LEGACY,
            stream => stream,
        };
        if !users.streams.contains(&known) {
            users.streams.push(known);
        }
        Ok(())
    }

    /// Sleeps until the upload has ended.
    ///
    /// # Errors
    /// The GPU fails.
    pub fn wait(&self) -> Result<(), CudaError> {
        self.uploaded.wait().map_err(self.uploader.gpu.failed("copy a batch to it"))
    }

    /// Bytes of the twin after the last upload, copied back: for whoever compares them.
    ///
    /// # Errors
    /// The GPU fails.
    ///
    /// # Panics
    /// They lie beyond the twin.
    pub fn read(&self, offset: u64, len_bytes: u64) -> Result<Vec<u8>, CudaError> {
        assert!(offset + len_bytes <= self.len_bytes, "{len_bytes} bytes from {offset} on");
        self.wait()?;
        let mut bytes = vec![0u8; len_bytes as usize];
        let mut copy = || {
            let _current = Current::of(self.uploader.gpu.context())?;
            // SAFETY: the place was just checked, and the upload has ended.
            unsafe { result::memcpy_dtoh_sync(&mut bytes, self.memory.address() + offset) }
        };
        copy().map_err(self.uploader.gpu.failed("copy a batch back"))?;
        Ok(bytes)
    }

    /// Says that nobody will ask a stream for anything with this content any more. What streams were
    /// asked for before still has its time: the next upload waits for it.
    pub fn let_go(&self) {
        let mut users = self.users();
        let streams = std::mem::take(&mut users.streams);
        for stream in streams {
            // A GPU that fails says so again at the next upload.
            if let Ok(event) = self.stands_at(stream) {
                users.gone.push(event);
            }
        }
    }

    fn stands_at(&self, stream: ConsumerStream) -> Result<Event, DriverError> {
        let context = self.uploader.gpu.context();
        let _current = Current::of(context)?;
        let event = Event::new(context)?;
        // SAFETY: the stream is alive by the word that was given for it.
        unsafe { event.set(stream.raw()) }?;
        Ok(event)
    }

    fn users(&self) -> MutexGuard<'_, Users> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DeviceSlot {
    fn drop(&mut self) {
        // A forked child has nothing of the GPU.
        if std::process::id() != self.made_in {
            return;
        }
        self.let_go();
        for event in std::mem::take(&mut self.users().gone) {
            let _ = event.wait();
        }
        let Ok(_current) = Current::of(self.uploader.gpu.context()) else { return };
        // SAFETY: the stream is the slot's own, and nobody uses it after this.
        unsafe {
            let _ = result::stream::synchronize(self.stream);
            let _ = result::stream::destroy(self.stream);
        }
        unlock_pages(&self.host);
    }
}
