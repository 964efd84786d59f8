//! Memory of a receiver's GPU, mapped for a worker's.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fmt;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{self, CUmemAllocationHandleType};
use headwater_part_rows::Pins;
use headwater_transport::{DeviceImports, ExportedWindow, GpuUuid, ImportedWindow, WindowHandle};

use crate::gpu::{Gpu, said, uuid_of};
use crate::host_pins::HostPins;
use crate::libraries::check_sharing;
use crate::mapped::{Handle, Mapped};
use crate::reader::Readers;

/// A worker's GPU, as far as it takes memory of receivers'.
pub struct Imports {
    gpu: Gpu,
    pins: HostPins,
    copiers: Arc<Readers>,
}

/// A receiver's memory.
struct Imported {
    mapped: Mapped,
    copiers: Arc<Readers>,
}

// === impl Imports ===

impl Imports {
    /// For windows that this GPU writes to.
    #[must_use]
    pub fn new(gpu: Gpu) -> Self {
        let pins = HostPins::new(Arc::clone(gpu.context()));
        let copiers = Arc::new(Readers::new(gpu.context()));
        Self { gpu, pins, copiers }
    }

    /// Whether this GPU reaches memory of the one of that name.
    fn check(&self, owner: GpuUuid) -> Result<(), String> {
        let devices = devices().map_err(said)?;
        let Some(&(device, _)) = devices.iter().find(|(_, uuid)| *uuid == owner) else {
            let names: Vec<String> = devices.iter().map(|(_, uuid)| uuid.to_string()).collect();
            return Err(format!(
                "the receiver's batches go to {owner}, and this worker has {}: give both the same GPUs; a part of a GPU \
                 (MIG) shares no memory with others",
                names.join(", ")
            ));
        };
        let own = self.gpu.context().cu_device();
        if device == own {
            return Ok(());
        }
        let mut can = 0;
        // SAFETY: both devices are the driver's, and the place for the answer is ours.
        let asked = unsafe { sys::cuDeviceCanAccessPeer(&mut can, own, device) }.result();
        asked.map_err(said)?;
        match can {
            0 => Err(format!("GPU {} does not reach memory of {owner}", self.gpu.ordinal())),
            _ => Ok(()),
        }
    }

    fn map(&self, handle: &WindowHandle, len: usize) -> Result<Mapped, DriverError> {
        let mut imported = 0;
        let kind;
        let shared: *mut c_void = match handle {
            WindowHandle::File(file) => {
                kind = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
                file.as_raw_fd() as usize as *mut c_void
            }
            WindowHandle::Fabric(bytes) => {
                kind = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC;
                bytes.as_ptr().cast_mut().cast()
            }
        };
        // SAFETY: the driver takes the number of a descriptor that is open, or reads the 64 bytes of a fabric handle; both
        // live until the call returns. The place for the answer is ours.
        unsafe { sys::cuMemImportFromShareableHandle(&mut imported, shared, kind) }.result()?;
        // Released at the end: the mapping keeps the memory, and nothing else of this process does.
        let handle = Handle::new(imported);
        Mapped::new(self.gpu.context(), &handle, len)
    }
}

impl fmt::Debug for Imports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Imports").field("gpu", &self.gpu.ordinal()).finish_non_exhaustive()
    }
}

impl DeviceImports for Imports {
    fn import(&self, exported: ExportedWindow) -> Result<Box<dyn ImportedWindow>, String> {
        check_sharing().map_err(|error| error.to_string())?;
        let ExportedWindow { gpu, len_bytes, whole_bytes, handle } = exported;
        self.check(gpu)?;
        if len_bytes > whole_bytes {
            return Err(format!("a slot of {len_bytes} bytes in memory of {whole_bytes}"));
        }
        let whole = usize::try_from(whole_bytes).map_err(|error| error.to_string())?;
        let mapped = self.map(&handle, whole).map_err(|error| {
            format!("the driver does not import {whole_bytes} bytes of {gpu}: {}", said(error))
        })?;
        Ok(Box::new(Imported { mapped, copiers: Arc::clone(&self.copiers) }))
    }

    fn pins(&self) -> &dyn Pins {
        &self.pins
    }
}

/// The GPUs that this process has.
fn devices() -> Result<Vec<(sys::CUdevice, GpuUuid)>, DriverError> {
    let mut count = 0;
    // SAFETY: the place for the answer is ours.
    unsafe { sys::cuDeviceGetCount(&mut count) }.result()?;
    let device = |ordinal| {
        let mut device = 0;
        // SAFETY: as above.
        unsafe { sys::cuDeviceGet(&mut device, ordinal) }.result()?;
        Ok((device, uuid_of(device)?))
    };
    (0..count).map(device).collect()
}

// === impl Imported ===

impl fmt::Debug for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, len) = (self.mapped.address(), self.mapped.len_bytes());
        write!(f, "Imported({address:#x}, {len} bytes)")
    }
}

impl Imported {
    fn place(&self, offset_bytes: u64, len: usize) -> Result<u64, String> {
        let end = offset_bytes.checked_add(len as u64);
        if end.is_none_or(|end| end > self.mapped.len_bytes()) {
            return Err(format!("{len} bytes from {offset_bytes} on lie beyond {self:?}"));
        }
        Ok(self.mapped.address() + offset_bytes)
    }
}

// SAFETY: the mapping keeps its place until it is dropped, with this value, and access was given to the GPU whose pins
// say that they reach windows.
unsafe impl ImportedWindow for Imported {
    fn address(&self) -> u64 {
        self.mapped.address()
    }

    fn write(&self, pieces: &[(u64, &[u8])]) -> Result<(), String> {
        let place = |&(at, bytes): &(u64, _)| Ok((self.place(at, <[u8]>::len(bytes))?, bytes));
        let placed = pieces.iter().map(place).collect::<Result<Vec<_>, String>>()?;
        // SAFETY: the places lie in the mapping, which `self` keeps until this returns.
        self.copiers.with(|copier| unsafe { copier.write(&placed) }).map_err(said)
    }

    fn read(&self, offset_bytes: u64, len_bytes: u64) -> Result<Vec<u8>, String> {
        let piece = (self.place(offset_bytes, len_bytes as usize)?, len_bytes as usize);
        // SAFETY: as in `write`.
        self.copiers
            .with(|copier| unsafe { copier.copy(&[piece]) }.map(<[u8]>::to_vec))
            .map_err(said)
    }
}
