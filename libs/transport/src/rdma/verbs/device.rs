//! Devices and their ports.

use std::ffi::CStr;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use super::abi::{self, AlignedGid, Context, DeviceAttr, PORT_ACTIVE, PortAttr};
use super::library::Library;
use crate::rdma::wire::Gid;

/// An opened device. Closed when the last thing made of it is gone.
#[derive(Debug)]
pub(crate) struct Device {
    pub(super) library: Library,
    pub(super) context: NonNull<Context>,
    name: String,
}

/// Limits of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceLimits {
    pub(crate) ports: u8,
    pub(crate) queue_entries: u32,
    pub(crate) completions: u32,
}

/// What a port says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortState {
    pub(crate) state: u32,
    pub(crate) ethernet: bool,
    pub(crate) lid: u16,
    /// As the wire has it: 1 is 256 bytes, 5 is 4096.
    pub(crate) mtu: u8,
    pub(crate) gids: u32,
    pub(crate) message_max_bytes: u32,
}

// SAFETY: libibverbs is thread-safe by its documentation; the context is not bound to a thread.
unsafe impl Send for Device {}
// SAFETY: as above: every function may be called on one context from several threads at once.
unsafe impl Sync for Device {}

/// Names of the devices that the kernel offers. A kernel without verbs has none.
pub(crate) fn names(library: &Library) -> io::Result<Vec<String>> {
    each(library, |_, name| Some(name.to_owned()))
}

/// Opens the device of this name.
pub(crate) fn open(library: &Library, name: &str) -> io::Result<Arc<Device>> {
    let mut opened = each(library, |device, found| {
        // SAFETY: `device` is an entry of a list that is freed only after this call.
        (found == name).then(|| match NonNull::new(unsafe { (library.open_device)(device) }) {
            Some(context) => {
                Ok(Arc::new(Device { library: library.clone(), context, name: name.to_owned() }))
            }
            None => Err(io::Error::last_os_error()),
        })
    })?;
    opened.pop().unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()))
}

/// What `look` makes of each device, while the list of them is there.
fn each<T>(
    library: &Library,
    mut look: impl FnMut(*mut abi::Device, &str) -> Option<T>,
) -> io::Result<Vec<T>> {
    let mut count = 0;
    // SAFETY: `count` outlives the call.
    let list = unsafe { (library.get_device_list)(&raw mut count) };
    if list.is_null() {
        return match io::Error::last_os_error() {
            // A kernel without verbs: no device, no fault.
            error if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EOPNOTSUPP)) => {
                Ok(Vec::new())
            }
            error => Err(error),
        };
    }
    let mut seen = Vec::new();
    for i in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the list has `count` entries, each a device that lives as long as the list; its
        // name is NUL-terminated and part of it.
        let (device, name) = unsafe {
            let device = *list.add(i);
            (device, CStr::from_ptr((library.get_device_name)(device)))
        };
        seen.extend(look(device, &name.to_string_lossy()));
    }
    // SAFETY: the list came from `get_device_list` and is freed once; opened devices outlive it.
    unsafe { (library.free_device_list)(list) };
    Ok(seen)
}

// === impl Device ===

impl Device {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn limits(&self) -> io::Result<DeviceLimits> {
        // SAFETY: all zeroes is a value of this structure of integers.
        let mut attr: DeviceAttr = unsafe { std::mem::zeroed() };
        // SAFETY: the context is open, and `attr` is the structure that the function fills.
        let rc = unsafe { (self.library.query_device)(self.context.as_ptr(), &raw mut attr) };
        check(rc)?;
        Ok(DeviceLimits {
            ports: attr.phys_port_cnt,
            queue_entries: attr.max_qp_wr.max(1).cast_unsigned(),
            completions: attr.max_cqe.max(1).cast_unsigned(),
        })
    }

    pub(crate) fn port(&self, number: u8) -> io::Result<PortState> {
        let mut attr = PortAttr::default();
        // SAFETY: the context is open, and `attr` is the structure that the function fills.
        let rc = unsafe { (self.library.query_port)(self.context.as_ptr(), number, &raw mut attr) };
        check(rc)?;
        Ok(PortState {
            state: attr.state,
            ethernet: attr.link_layer == abi::LINK_LAYER_ETHERNET,
            lid: attr.lid,
            mtu: attr.active_mtu.clamp(1, 5) as u8,
            gids: attr.gid_tbl_len.max(0).cast_unsigned(),
            message_max_bytes: attr.max_msg_sz,
        })
    }

    pub(crate) fn gid(&self, port: u8, index: u8) -> io::Result<Gid> {
        let mut gid = AlignedGid::default();
        let context = self.context.as_ptr();
        // SAFETY: the context is open, and `gid` has the 16 bytes that the function writes.
        let rc = unsafe { (self.library.query_gid)(context, port, index.into(), &raw mut gid) };
        check(rc)?;
        Ok(gid.0)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: opened once, and everything made of it held an Arc of this value.
        unsafe { (self.library.close_device)(self.context.as_ptr()) };
    }
}

// === impl PortState ===

impl PortState {
    pub(crate) fn is_active(&self) -> bool {
        self.state == PORT_ACTIVE
    }

    /// In the kernel's words.
    pub(crate) fn state_name(&self) -> &'static str {
        match self.state {
            1 => "DOWN",
            2 => "INIT",
            3 => "ARMED",
            PORT_ACTIVE => "ACTIVE",
            5 => "ACTIVE_DEFER",
            _ => "of unknown state",
        }
    }
}

/// The library gives an errno, or -1 and sets it.
pub(super) fn check(rc: i32) -> io::Result<()> {
    match rc {
        0 => Ok(()),
        1.. => Err(io::Error::from_raw_os_error(rc)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What a function that makes something made.
pub(super) fn made<T>(pointer: *mut T) -> io::Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(io::Error::last_os_error)
}
