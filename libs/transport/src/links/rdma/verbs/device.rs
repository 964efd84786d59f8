//! Devices and their ports.

use std::ffi::CStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::abi::{
    self, AlignedGid, AsyncEvent, Context, DeviceAttr, GidEntry, PORT_ACTIVE, PortAttr,
};
use super::library::Library;
use crate::links::rdma::wire::Gid;

/// An opened device. Closed when the last thing made of it is gone.
#[derive(Debug)]
pub(crate) struct Device {
    pub(super) library: Library,
    pub(super) context: NonNull<Context>,
    name: String,
    /// Counts completion queues; begins anywhere, so that processes begin with different vectors.
    queues: AtomicU32,
    /// It had a fatal error: nothing made of it works any more.
    dead: AtomicBool,
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
    /// Entries of its table of partitions.
    pub(crate) pkeys: u16,
    /// Packets to and from it need a global route.
    pub(crate) needs_grh: bool,
    pub(crate) message_max_bytes: u32,
}

/// An address of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GidState {
    pub(crate) gid: Gid,
    /// RoCE of version 1, which no router passes. `None`: the library does not say.
    pub(crate) is_roce_v1: Option<bool>,
    /// Index of its network interface; 0 where there is none.
    pub(crate) interface: u32,
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
                let (library, name) = (library.clone(), name.to_owned());
                let (queues, dead) = (AtomicU32::new(std::process::id()), AtomicBool::new(false));
                let device = Device { library, context, name, queues, dead };
                device.hear_without_waiting();
                Ok(Arc::new(device))
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
            pkeys: attr.pkey_tbl_len,
            needs_grh: attr.flags & abi::QPF_GRH_REQUIRED != 0,
            message_max_bytes: attr.max_msg_sz,
        })
    }

    /// The address at an index of the port's table. Of an empty entry all bytes are 0, or there is an
    /// error.
    pub(crate) fn gid(&self, port: u8, index: u8) -> io::Result<GidState> {
        let context = self.context.as_ptr();
        let Some(query) = self.library.query_gid_ex else {
            let mut gid = AlignedGid::default();
            // SAFETY: the context is open, and `gid` has the 16 bytes that the function writes.
            let rc = unsafe { (self.library.query_gid)(context, port, index.into(), &raw mut gid) };
            check(rc)?;
            return Ok(GidState { gid: gid.0, is_roce_v1: None, interface: 0 });
        };
        let mut entry = GidEntry::default();
        // SAFETY: the context is open, and `entry` has the bytes that are given as its size.
        let rc = unsafe {
            query(context, port.into(), index.into(), &raw mut entry, 0, size_of::<GidEntry>())
        };
        check(rc)?;
        let is_roce_v1 = Some(entry.gid_type == abi::GID_TYPE_ROCE_V1);
        Ok(GidState { gid: entry.gid.0, is_roce_v1, interface: entry.ndev_ifindex })
    }

    /// The partition's key at an index of the port's table.
    pub(crate) fn pkey(&self, port: u8, index: u16) -> io::Result<u16> {
        let mut key = 0;
        let context = self.context.as_ptr();
        // SAFETY: the context is open, and `key` has the 2 bytes that the function writes.
        check(unsafe { (self.library.query_pkey)(context, port, index.into(), &raw mut key) })?;
        Ok(u16::from_be(key))
    }

    /// The completion vector for the next queue: they take turns. Each vector has an interrupt, and a driver gives
    /// each interrupt another processor, those near the card first. So one processor need not hear of all queues.
    pub(super) fn next_vector(&self) -> i32 {
        // SAFETY: the context is open.
        let vectors = unsafe { self.context.as_ref() }.num_comp_vectors;
        vector(self.queues.fetch_add(1, Ordering::Relaxed), vectors)
    }

    /// Whether the device has had a fatal error since it was opened. Takes what the device has to say.
    pub(crate) fn is_dead(&self) -> bool {
        while let Some(event) = self.event() {
            tracing::info!(device = self.name, event, "a device reports an event");
            if event == abi::EVENT_DEVICE_FATAL {
                self.dead.store(true, Ordering::Relaxed);
            }
        }
        self.dead.load(Ordering::Relaxed)
    }

    /// What the device reports next, if it does now: the event's number.
    fn event(&self) -> Option<u32> {
        if !self.hears() {
            return None;
        }
        let mut event = AsyncEvent { element: ptr::null_mut(), event_type: 0 };
        // SAFETY: the context is open, and `event` is the structure that the function fills.
        let rc = unsafe { (self.library.get_async_event)(self.context.as_ptr(), &raw mut event) };
        if rc != 0 {
            return None;
        }
        // SAFETY: the function has filled `event`, which is acknowledged once: whoever destroys what it
        // is about waits for that.
        unsafe { (self.library.ack_async_event)(&raw mut event) };
        Some(event.event_type)
    }

    /// Has events asked for without waiting for them.
    fn hear_without_waiting(&self) {
        if let Some(events) = self.events()
            && let Ok(flags) = fcntl_getfl(events)
        {
            fcntl_setfl(events, flags | OFlags::NONBLOCK).ok();
        }
    }

    /// Asking for an event does not wait.
    fn hears(&self) -> bool {
        let flags = self.events().and_then(|events| fcntl_getfl(events).ok());
        flags.is_some_and(|flags| flags.contains(OFlags::NONBLOCK))
    }

    /// The descriptor of its events.
    fn events(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the context is open.
        let descriptor = unsafe { self.context.as_ref() }.async_fd;
        if descriptor < 0 {
            return None;
        }
        // SAFETY: the descriptor is open as long as the context is, which this value keeps open.
        Some(unsafe { BorrowedFd::borrow_raw(descriptor) })
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

/// Vector of the queue of number `queue`, of `vectors` vectors.
fn vector(queue: u32, vectors: i32) -> i32 {
    let vectors = vectors.max(1).cast_unsigned();
    (queue % vectors).cast_signed()
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

#[cfg(test)]
mod tests {
    use super::vector;

    #[test]
    fn queues_take_turns_over_a_devices_vectors() {
        let of = |vectors| [7, 8, 9, 10].map(|queue| vector(queue, vectors));
        assert_eq!(of(3), [1, 2, 0, 1]);
        assert_eq!(of(1), [0; 4]);
        assert_eq!(of(0), [0; 4], "a device that names none");
    }
}
