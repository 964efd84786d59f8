//! Memory that a device may reach.
//!
//! A region owns what it registers: the memory cannot be freed or unmapped while a device may
//! still reach it.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::abi::{ACCESS_LOCAL_WRITE, ACCESS_RELAXED_ORDERING, ACCESS_REMOTE_WRITE, Mr, Pd};
use super::device::{Device, made};
use crate::memory::mapping::Mapping;
use crate::memory::slot::SlotMemory;
use crate::memory::window::{DeviceWindow, Dmabuf};

/// What belongs together on one device: queue pairs reach regions of their own domain only.
#[derive(Debug)]
pub(crate) struct ProtectionDomain {
    pub(super) device: Arc<Device>,
    pub(super) pd: NonNull<Pd>,
}

/// Registered memory.
#[derive(Debug)]
pub(crate) struct MemoryRegion<M> {
    mr: NonNull<Mr>,
    domain: Arc<ProtectionDomain>,
    // After the registration: `Drop` ends that first.
    memory: M,
}

/// Who may write to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writers {
    /// This host's device only.
    Own,
    /// Peers as well.
    Peers,
}

/// Memory of fixed place and length for as long as the value lives.
///
/// # Safety
/// Address and length do not change, and the memory stays mapped until the value is dropped.
pub(crate) unsafe trait Stable {
    /// First byte and length.
    fn range(&self) -> (NonNull<u8>, usize);
}

// SAFETY: a mapping is unmapped by its drop only and never moves.
unsafe impl Stable for Mapping {
    fn range(&self) -> (NonNull<u8>, usize) {
        (self.base(), self.len())
    }
}

// SAFETY: as above; this handle keeps the mapping.
unsafe impl Stable for Arc<Mapping> {
    fn range(&self) -> (NonNull<u8>, usize) {
        (self.base(), self.len())
    }
}

// SAFETY: the slot owns its mapping, and this handle keeps the slot.
unsafe impl Stable for Arc<SlotMemory> {
    fn range(&self) -> (NonNull<u8>, usize) {
        (NonNull::new(self.as_ptr()).expect("a mapping is not at null"), self.len_bytes() as usize)
    }
}

// SAFETY: the domain is a handle of a thread-safe library and not bound to a thread.
unsafe impl Send for ProtectionDomain {}
// SAFETY: as above.
unsafe impl Sync for ProtectionDomain {}
// SAFETY: the registration is a handle as well; the memory is of a type that may be sent.
unsafe impl<M: Send> Send for MemoryRegion<M> {}
// SAFETY: with a shared reference only numbers are read.
unsafe impl<M: Sync> Sync for MemoryRegion<M> {}

// === impl ProtectionDomain ===

impl ProtectionDomain {
    pub(crate) fn new(device: Arc<Device>) -> io::Result<Arc<Self>> {
        // SAFETY: the context is open, and the domain keeps it so.
        let pd = made(unsafe { (device.library.alloc_pd)(device.context.as_ptr()) })?;
        Ok(Arc::new(Self { device, pd }))
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: regions and queue pairs hold the domain, so none is left.
        unsafe { (self.device.library.dealloc_pd)(self.pd.as_ptr()) };
    }
}

// === impl MemoryRegion ===

impl<M: Stable> MemoryRegion<M> {
    /// Registers memory of this process: its pages stay where they are until the region is gone.
    pub(crate) fn new(
        domain: &Arc<ProtectionDomain>,
        memory: M,
        writers: Writers,
    ) -> io::Result<Self> {
        let (start, len) = memory.range();
        let library = &domain.device.library;
        let (pd, access) = (domain.pd.as_ptr(), writers.access());
        // SAFETY: `range` is mapped for as long as `memory` lives, which this region owns and
        // drops after the registration ended.
        let mr = unsafe {
            match library.reg_mr_iova2 {
                // What a peer writes is proved by a completion, which no write is passed by. A
                // library or kernel that does not know the flag leaves it out.
                Some(register) if writers == Writers::Peers => {
                    let access = (access | ACCESS_RELAXED_ORDERING).cast_unsigned();
                    register(pd, start.as_ptr().cast(), len, start.as_ptr() as u64, access)
                }
                _ => (library.reg_mr)(pd, start.as_ptr().cast(), len, access),
            }
        };
        Ok(Self { mr: made(mr)?, domain: Arc::clone(domain), memory })
    }
}

impl MemoryRegion<Arc<dyn DeviceWindow>> {
    /// Registers memory of a GPU: by dmabuf, else by its address, which nvidia-peermem makes sense of.
    /// Requests name it by the GPU's addresses.
    ///
    /// # Errors
    /// Why it goes neither way.
    pub(crate) fn of_window(
        domain: &Arc<ProtectionDomain>,
        window: Arc<dyn DeviceWindow>,
    ) -> Result<(Self, &'static str), String> {
        let (mr, way) = match by_dmabuf(domain, window.as_ref()) {
            Ok(mr) => (mr, "dmabuf"),
            Err(reason) => match by_address(domain, window.as_ref()) {
                Ok(mr) => (mr, "nvidia-peermem"),
                Err(error) => {
                    return Err(format!(
                        "by dmabuf: {reason}; by its address: {error} (is the module \
                         nvidia_peermem loaded?)"
                    ));
                }
            },
        };
        Ok((Self { mr, domain: Arc::clone(domain), memory: window }, way))
    }
}

fn by_dmabuf(domain: &ProtectionDomain, window: &dyn DeviceWindow) -> Result<NonNull<Mr>, String> {
    let Some(register) = domain.device.library.reg_dmabuf_mr else {
        return Err("libibverbs is older than rdma-core 34".into());
    };
    let Dmabuf { descriptor, offset_bytes } = window.dmabuf()?;
    // SAFETY: the descriptor is open during the call, after which the device keeps what it names. The
    // window, which the region owns, answers for the memory.
    let mr = unsafe {
        register(
            domain.pd.as_ptr(),
            offset_bytes,
            window.len_bytes() as usize,
            window.address(),
            descriptor.as_raw_fd(),
            Writers::Peers.access(),
        )
    };
    made(mr).map_err(|error| error.to_string())
}

fn by_address(domain: &ProtectionDomain, window: &dyn DeviceWindow) -> io::Result<NonNull<Mr>> {
    let start = ptr::without_provenance_mut(window.address() as usize);
    let len = window.len_bytes() as usize;
    // SAFETY: where the kernel does not know the address it refuses it; where it does, the window,
    // which the region owns, answers for the memory.
    made(unsafe {
        (domain.device.library.reg_mr)(domain.pd.as_ptr(), start, len, Writers::Peers.access())
    })
}

impl<M> MemoryRegion<M> {
    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    /// Name of the region for work requests of this host.
    pub(crate) fn local_key(&self) -> u32 {
        // SAFETY: the registration lives until this value is dropped.
        unsafe { self.mr.as_ref() }.lkey
    }

    /// Name of the region for peers.
    pub(crate) fn remote_key(&self) -> u32 {
        // SAFETY: as in `local_key`.
        unsafe { self.mr.as_ref() }.rkey
    }
}

impl<M> Drop for MemoryRegion<M> {
    fn drop(&mut self) {
        // SAFETY: registered once, ended once; `memory` is dropped after this.
        unsafe { (self.domain.device.library.dereg_mr)(self.mr.as_ptr()) };
    }
}

// === impl Writers ===

impl Writers {
    fn access(self) -> i32 {
        match self {
            Self::Own => ACCESS_LOCAL_WRITE,
            Self::Peers => ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE,
        }
    }
}
