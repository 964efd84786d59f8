//! A slot's twin in a GPU's memory.
//!
//! Links write to the slot, which is memory of the host. A batch that is whole is copied to the twin, on
//! a stream that does nothing else, and may be used by a consumer's stream from the copy's end on.
//! Nobody waits for anybody on the host: events say what comes before what. What a network card has
//! written to the twin itself is not copied.
#![allow(unsafe_code)]

mod window;

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::result::{self, DriverError, stream::StreamKind};
use cudarc::driver::sys;
use headwater_core::Region;
use headwater_transport::{SPARE_BYTES, SlotMemory};

use crate::current::Current;
use crate::error::CudaError;
use crate::event::Event;
use crate::expander::Expansion;
use crate::exportable::ExportableMemory;
use crate::host_pins;
use crate::memory::DeviceMemory;
use crate::uploader::Uploader;

/// A stream of whoever uses what a device slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerStream(u64);

/// The twin of one slot. Dropping it waits for all who still use it.
pub struct DeviceSlot {
    /// The slot, locked in memory and known to the driver while this lives.
    host: Arc<SlotMemory>,
    memory: DeviceMemory,
    /// The same where other processes can import it.
    exportable: Option<Arc<ExportableMemory>>,
    len_bytes: u64,
    stream: sys::CUstream,
    /// The end of the last upload.
    uploaded: Event,
    users: Mutex<Users>,
    made_in: u32,
    /// Dropped last: it leaves the thread the current GPU that it had.
    uploader: Arc<Uploader>,
}

/// Who uses the slot's content.
#[derive(Default)]
struct Users {
    /// Streams that wait for the upload and may then read.
    streams: Vec<ConsumerStream>,
    /// Where streams stood when their owners let go: the next upload comes after.
    gone: Vec<Event>,
    /// Where a stream stood could not be marked.
    failed: Option<DriverError>,
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

fn lock_pages(host: &SlotMemory) -> Result<(), DriverError> {
    // SAFETY: the slot's mapping stays where it is as long as the `DeviceSlot` that keeps it.
    unsafe { host_pins::lock_pages(host.as_ptr(), host.len_bytes() as usize) }
}

/// Needs a current context.
fn unlock_pages(host: &SlotMemory) {
    // SAFETY: `lock_pages` has locked them.
    unsafe { host_pins::unlock_pages(host.as_ptr()) };
}

// === impl Users ===

impl Users {
    fn take_gone(&mut self) -> Result<Vec<Event>, DriverError> {
        self.failed.map_or_else(|| Ok(std::mem::take(&mut self.gone)), Err)
    }

    /// Whether all have let go, and have done what they were asked for before.
    fn are_through(&self) -> Result<bool, DriverError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        for event in &self.gone {
            if !event.is_reached()? {
                return Ok(false);
            }
        }
        Ok(self.streams.is_empty())
    }
}

// === impl Uploader ===

impl Uploader {
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
        let memory = DeviceMemory::take(self.gpu(), self.allocator(), len_bytes)?;
        DeviceSlot::new(Arc::clone(self), host, (memory, None), len_bytes)
    }

    /// The same in memory that other processes of the node can import. A framework's allocator, if any, is not asked: only
    /// memory that the driver has made for this can be exported.
    ///
    /// # Errors
    /// As for [`Uploader::slot`], or the driver exports no memory.
    pub fn exportable_slot(
        self: &Arc<Self>,
        host: Arc<SlotMemory>,
        len_bytes: u64,
    ) -> Result<DeviceSlot, CudaError> {
        assert!(len_bytes >= host.len_bytes(), "a twin of {len_bytes} bytes");
        let exportable = ExportableMemory::take(self.gpu(), len_bytes + SPARE_BYTES)?;
        let exportable = Arc::new(exportable);
        // SAFETY: the bytes are the GPU's, and nobody's but the slot's, as long as `exportable` lives.
        let memory = unsafe {
            DeviceMemory::kept_by(exportable.address(), Box::new(Arc::clone(&exportable)))
        };
        DeviceSlot::new(Arc::clone(self), host, (memory, Some(exportable)), len_bytes)
    }
}

// === impl DeviceSlot ===

impl DeviceSlot {
    fn new(
        uploader: Arc<Uploader>,
        host: Arc<SlotMemory>,
        (memory, exportable): (DeviceMemory, Option<Arc<ExportableMemory>>),
        len_bytes: u64,
    ) -> Result<Self, CudaError> {
        let failed = |doing| uploader.gpu().failed(doing);
        let _current = Current::of(uploader.gpu().context()).map_err(failed("use it"))?;
        let uploaded = Event::new(uploader.gpu().context()).map_err(failed("make an event"))?;
        lock_pages(&host).map_err(failed("lock a slot's memory for copies (cuMemHostRegister)"))?;
        let stream = result::stream::create(StreamKind::NonBlocking)
            .inspect_err(|_| unlock_pages(&host))
            .map_err(failed("make a stream"))?;
        let (users, made_in) = (Mutex::default(), std::process::id());
        drop(_current);
        Ok(Self { host, memory, exportable, len_bytes, stream, uploaded, users, made_in, uploader })
    }

    /// Number of the GPU.
    #[must_use]
    pub fn ordinal(&self) -> u32 {
        self.uploader.gpu().ordinal()
    }

    /// Address on the GPU of the first byte; of use to streams that [`DeviceSlot::hand_to`] was called for.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Copies regions of the slot to the twin and normalises there what `expansions` names, as soon as those who have
    /// used the twin before are done with it. Returns at once; until [`DeviceSlot::is_uploaded`] nobody may write to
    /// the slot, and a card not to the twin until [`DeviceSlot::is_unused`].
    ///
    /// # Errors
    /// The GPU fails.
    ///
    /// # Panics
    /// Something lies beyond the slot or its twin.
    pub fn upload(&self, copies: &[Region], expansions: &[Expansion]) -> Result<(), CudaError> {
        let within = |copy: &Region| copy.offset_bytes + copy.len_bytes <= self.host.len_bytes();
        assert!(copies.iter().all(within), "{copies:?} of {} bytes", self.host.len_bytes());
        self.enqueue(copies, expansions).map_err(self.uploader.gpu().failed("copy a batch to it"))
    }

    /// The same for a batch where a card has written other regions to the twin: they are seen from
    /// here on.
    ///
    /// # Errors
    /// The GPU fails.
    ///
    /// # Panics
    /// As for [`DeviceSlot::upload`].
    pub fn upload_beside_card(
        &self,
        copies: &[Region],
        expansions: &[Expansion],
    ) -> Result<(), CudaError> {
        self.settle_writes()?;
        self.upload(copies, expansions)
    }

    fn enqueue(&self, copies: &[Region], expansions: &[Expansion]) -> Result<(), DriverError> {
        let gone = self.users().take_gone()?;
        for event in gone {
            // SAFETY: the stream is the slot's own.
            unsafe { event.hold_back(self.stream) }?;
        }
        let _current = Current::of(self.uploader.gpu().context())?;
        let twin = self.memory.address();
        for &Region { offset_bytes, len_bytes } in copies {
            let from = self.host.as_ptr().wrapping_add(offset_bytes as usize).cast::<c_void>();
            let (to, len) = (twin + offset_bytes, len_bytes as usize);
            // SAFETY: both ends have the region; the source is locked, lives as long as `self`, which
            // waits for the stream when dropped, and is not written to meanwhile, as the contract says.
            // It is handled by address: no reference to it exists.
            unsafe { sys::cuMemcpyHtoDAsync_v2(to, from, len, self.stream) }.result()?;
        }
        for &expansion in expansions {
            let Expansion { levels, elements, plane, planes } = expansion;
            let expander = self.uploader.expander();
            let count = plane * u64::from(planes);
            let end = elements + count * expander.element_bytes();
            assert!(
                levels + count <= self.host.len_bytes() && end <= self.len_bytes,
                "{expansion:?}"
            );
            // SAFETY: the context is current, the places were just checked, and `self` waits for the
            // stream when dropped.
            unsafe { expander.launch(twin, expansion, self.stream) }?;
        }
        // SAFETY: the stream is the slot's own.
        unsafe { self.uploaded.set(self.stream) }
    }

    /// Whether the last upload has ended: the slot may be written to again.
    ///
    /// # Errors
    /// The GPU fails.
    pub fn is_uploaded(&self) -> Result<bool, CudaError> {
        self.uploaded.is_reached().map_err(self.uploader.gpu().failed("copy a batch to it"))
    }

    /// Whether, besides, all streams are through with what they were asked for before
    /// [`DeviceSlot::let_go`]: a card may write to the twin again.
    ///
    /// # Errors
    /// The GPU fails.
    pub fn is_unused(&self) -> Result<bool, CudaError> {
        let users = self.users();
        let through =
            users.are_through().map_err(self.uploader.gpu().failed("ask it what it has done"))?;
        Ok(through && self.is_uploaded()?)
    }

    /// Lets a stream read the twin: what it is asked for from now on comes after the upload.
    ///
    /// # Errors
    /// The GPU fails.
    pub fn hand_to(&self, stream: ConsumerStream) -> Result<(), CudaError> {
        let mut users = self.users();
        // SAFETY: the stream is alive by the word that was given for it.
        unsafe { self.uploaded.hold_back(stream.raw()) }
            .map_err(self.uploader.gpu().failed("let a stream wait for a batch"))?;
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
        self.uploaded.wait().map_err(self.uploader.gpu().failed("copy a batch to it"))
    }

    /// Bytes of the twin after the last upload, copied back.
    ///
    /// # Errors
    /// The GPU fails.
    ///
    /// # Panics
    /// They lie beyond the twin.
    pub fn read(&self, offset_bytes: u64, len_bytes: u64) -> Result<Vec<u8>, CudaError> {
        self.wait()?;
        self.copied_back(Region { offset_bytes, len_bytes })
    }

    /// Says that nobody will ask a stream for anything with this content any more. What streams were
    /// asked for before still has its time: the next upload waits for it.
    pub fn let_go(&self) {
        let mut users = self.users();
        let streams = std::mem::take(&mut users.streams);
        for stream in streams {
            match self.stands_at(stream) {
                Ok(event) => users.gone.push(event),
                // Nobody knows when that stream is through.
                Err(error) => users.failed = Some(error),
            }
        }
    }

    fn stands_at(&self, stream: ConsumerStream) -> Result<Event, DriverError> {
        let context = self.uploader.gpu().context();
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
        let Ok(_current) = Current::of(self.uploader.gpu().context()) else { return };
        // SAFETY: the stream is the slot's own, and nobody uses it after this.
        unsafe {
            let _ = result::stream::synchronize(self.stream);
            let _ = result::stream::destroy(self.stream);
        }
        unlock_pages(&self.host);
    }
}
