//! Memory by handles: what the driver creates or imports, and where it is mapped.
#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::CudaContext;
use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{self, CUmemGenericAllocationHandle};

use crate::current::Current;

/// A handle of memory, released when dropped. The memory stays as long as it is mapped.
pub(crate) struct Handle(CUmemGenericAllocationHandle);

/// A handle's memory where a GPU may read and write it. Unmapped when dropped.
pub(crate) struct Mapped {
    // First: unmapped before the room is given back.
    _pages: Pages,
    room: Room,
}

/// Addresses that nothing else has.
struct Room {
    context: Arc<CudaContext>,
    address: u64,
    len: usize,
}

/// What is mapped at some addresses.
struct Pages {
    context: Arc<CudaContext>,
    address: u64,
    len: usize,
}

/// Where memory of a device is.
pub(crate) fn on_device(device: sys::CUdevice) -> sys::CUmemLocation {
    sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: device }
}

// === impl Handle ===

impl Handle {
    /// Takes over a handle that the driver has just given.
    pub(crate) fn new(handle: CUmemGenericAllocationHandle) -> Self {
        Self(handle)
    }

    pub(crate) fn raw(&self) -> CUmemGenericAllocationHandle {
        self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the driver gave it to this value only, and nobody uses it after this.
        let _ = unsafe { sys::cuMemRelease(self.0) }.result();
    }
}

// === impl Mapped ===

impl Mapped {
    /// Maps all of a handle's memory, of `len` bytes, for the GPU of a context.
    pub(crate) fn new(
        context: &Arc<CudaContext>,
        handle: &Handle,
        len: usize,
    ) -> Result<Self, DriverError> {
        let _current = Current::of(context)?;
        let mut address = 0;
        // SAFETY: the place for the answer is ours.
        unsafe { sys::cuMemAddressReserve(&mut address, len, 0, 0, 0) }.result()?;
        let room = Room { context: Arc::clone(context), address, len };
        // SAFETY: the addresses are reserved, and nothing is mapped there.
        unsafe { sys::cuMemMap(address, len, 0, handle.raw(), 0) }.result()?;
        let pages = Pages { context: Arc::clone(context), address, len };
        let access = sys::CUmemAccessDesc {
            location: on_device(context.cu_device()),
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: exactly this range was just mapped.
        unsafe { sys::cuMemSetAccess(address, len, &access, 1) }.result()?;
        Ok(Self { _pages: pages, room })
    }

    pub(crate) fn address(&self) -> u64 {
        self.room.address
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        self.room.len as u64
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let Ok(_current) = Current::of(&self.context) else { return };
        // SAFETY: `Mapped::new` mapped this range, and its owner has seen the end of what used it.
        let _ = unsafe { sys::cuMemUnmap(self.address, self.len) }.result();
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let Ok(_current) = Current::of(&self.context) else { return };
        // SAFETY: `Mapped::new` reserved it, and what was mapped there is unmapped.
        let _ = unsafe { sys::cuMemAddressFree(self.address, self.len) }.result();
    }
}
