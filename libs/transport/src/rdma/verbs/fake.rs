//! A libibverbs of tests, behind the same table of functions: machines that this one is not.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr;

use super::abi::{
    self, AlignedGid, CompChannel, Context, Cq, Device, DeviceAttr, Mr, Pd, PortAttr, Qp, QpAttr,
    QpInitAttr,
};
use super::library::Library;
use crate::rdma::wire::Gid;

/// State (4 is ACTIVE) and GIDs of a port.
type Port = (u32, Vec<Gid>);
/// Name and ports.
pub(crate) type FakeDevice = (&'static str, Vec<Port>);

/// What the machine of this thread has. One test, one thread, one machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    /// Errno of listing devices, where that fails.
    pub(crate) list_error: Option<i32>,
    pub(crate) devices: Vec<FakeDevice>,
    /// Devices cannot be opened.
    pub(crate) closed: bool,
    /// Errno of registering memory.
    pub(crate) registration_error: Option<i32>,
    /// The library is too old to register memory of other drivers.
    pub(crate) without_dmabuf: bool,
    /// Errno of registering such memory.
    pub(crate) dmabuf_error: Option<i32>,
}

thread_local! {
    static MACHINE: RefCell<Machine> = RefCell::default();
    static NAMES: RefCell<Vec<CString>> = RefCell::default();
}

// === impl Machine ===

impl Machine {
    /// The library of this machine, for this thread.
    pub(crate) fn library(self) -> Library {
        let name = |(name, _): &(&str, _)| CString::new(*name).expect("a name");
        NAMES.set(self.devices.iter().map(name).collect());
        let with_dmabuf = !self.without_dmabuf;
        MACHINE.set(self);
        Library {
            get_device_list,
            free_device_list,
            get_device_name,
            open_device,
            close_device,
            query_device,
            query_port,
            query_gid,
            alloc_pd,
            dealloc_pd,
            reg_mr,
            dereg_mr,
            create_comp_channel,
            destroy_comp_channel,
            create_cq,
            destroy_cq,
            get_cq_event,
            ack_cq_events,
            create_qp,
            modify_qp,
            destroy_qp,
            wc_status_str,
            reg_dmabuf_mr: with_dmabuf.then_some(reg_dmabuf_mr as _),
        }
    }
}

fn fail<T>(errno: i32) -> *mut T {
    rustix_errno(errno);
    ptr::null_mut()
}

fn rustix_errno(errno: i32) {
    // SAFETY: the C library's own place for the error of this thread.
    unsafe { *libc::__errno_location() = errno };
}

/// Handles are numbers from 1 on, never looked behind: a device's and a context's is its place.
fn handle<T>(number: usize) -> *mut T {
    ptr::without_provenance_mut(number)
}

unsafe extern "C" fn get_device_list(count: *mut c_int) -> *mut *mut Device {
    let machine = MACHINE.with_borrow(Clone::clone);
    if let Some(errno) = machine.list_error {
        return fail(errno);
    }
    let list: Vec<*mut Device> =
        (1..=machine.devices.len()).map(handle).chain([ptr::null_mut()]).collect();
    // SAFETY: the caller gives a place for the number.
    unsafe { *count = machine.devices.len() as c_int };
    Box::into_raw(list.into_boxed_slice()).cast()
}

unsafe extern "C" fn free_device_list(list: *mut *mut Device) {
    let len = MACHINE.with_borrow(|machine| machine.devices.len()) + 1;
    // SAFETY: `list` is the boxed slice that `get_device_list` gave, of this length.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(list, len)) });
}

unsafe extern "C" fn get_device_name(device: *mut Device) -> *const c_char {
    NAMES.with_borrow(|names| names[device.addr() - 1].as_ptr())
}

unsafe extern "C" fn open_device(device: *mut Device) -> *mut Context {
    match MACHINE.with_borrow(|machine| machine.closed) {
        true => fail(libc::EACCES),
        false => handle(device.addr()),
    }
}

unsafe extern "C" fn close_device(_: *mut Context) -> c_int {
    0
}

unsafe extern "C" fn query_device(context: *mut Context, attr: *mut DeviceAttr) -> c_int {
    let ports = MACHINE.with_borrow(|machine| machine.devices[context.addr() - 1].1.len());
    // SAFETY: the caller gives a place for the answer.
    unsafe {
        (*attr).max_qp_wr = 64;
        (*attr).max_cqe = 1024;
        (*attr).phys_port_cnt = ports as u8;
    }
    0
}

unsafe extern "C" fn query_port(context: *mut Context, port: u8, attr: *mut PortAttr) -> c_int {
    let (state, gids) = MACHINE.with_borrow(|machine| {
        let (state, gids) = &machine.devices[context.addr() - 1].1[usize::from(port) - 1];
        (*state, gids.len())
    });
    let said = PortAttr {
        state,
        active_mtu: 5,
        gid_tbl_len: gids as c_int,
        max_msg_sz: 1 << 30,
        link_layer: abi::LINK_LAYER_ETHERNET,
        ..PortAttr::default()
    };
    // SAFETY: the caller gives a place for the answer.
    unsafe { *attr = said };
    0
}

unsafe extern "C" fn query_gid(
    context: *mut Context,
    port: u8,
    index: c_int,
    gid: *mut AlignedGid,
) -> c_int {
    let found = MACHINE.with_borrow(|machine| {
        let gids = &machine.devices[context.addr() - 1].1[usize::from(port) - 1].1;
        usize::try_from(index).ok().and_then(|index| gids.get(index).copied())
    });
    match found {
        // SAFETY: the caller gives a place for the answer.
        Some(found) => unsafe { *gid = AlignedGid(found) },
        None => return -1,
    }
    0
}

unsafe extern "C" fn alloc_pd(_: *mut Context) -> *mut Pd {
    handle(1)
}

unsafe extern "C" fn dealloc_pd(_: *mut Pd) -> c_int {
    0
}

unsafe extern "C" fn reg_mr(_: *mut Pd, addr: *mut c_void, length: usize, _: c_int) -> *mut Mr {
    if let Some(errno) = MACHINE.with_borrow(|machine| machine.registration_error) {
        return fail(errno);
    }
    registered(addr, length, 2)
}

/// Its key for peers tells how it was registered.
fn registered(addr: *mut c_void, length: usize, rkey: u32) -> *mut Mr {
    let (context, pd) = (handle(1), handle(1));
    Box::into_raw(Box::new(Mr { context, pd, addr, length, handle: 1, lkey: 1, rkey }))
}

unsafe extern "C" fn reg_dmabuf_mr(
    _: *mut Pd,
    offset: u64,
    length: usize,
    address: u64,
    descriptor: c_int,
    _: c_int,
) -> *mut Mr {
    if let Some(errno) = MACHINE.with_borrow(|machine| machine.dmabuf_error) {
        return fail(errno);
    }
    // SAFETY: the place for the answer is ours.
    let end = unsafe { libc::lseek(descriptor, 0, libc::SEEK_END) };
    if u64::try_from(end).is_ok_and(|end| offset + length as u64 <= end) {
        registered(ptr::without_provenance_mut(address as usize), length, 3)
    } else {
        fail(libc::EINVAL)
    }
}

unsafe extern "C" fn dereg_mr(mr: *mut Mr) -> c_int {
    // SAFETY: boxed by `reg_mr`, ended once.
    drop(unsafe { Box::from_raw(mr) });
    0
}

// No test goes so far: a queue needs a kernel.

unsafe extern "C" fn create_comp_channel(_: *mut Context) -> *mut CompChannel {
    fail(libc::ENOSYS)
}

unsafe extern "C" fn destroy_comp_channel(_: *mut CompChannel) -> c_int {
    libc::ENOSYS
}

unsafe extern "C" fn create_cq(
    _: *mut Context,
    _: c_int,
    _: *mut c_void,
    _: *mut CompChannel,
    _: c_int,
) -> *mut Cq {
    fail(libc::ENOSYS)
}

unsafe extern "C" fn destroy_cq(_: *mut Cq) -> c_int {
    libc::ENOSYS
}

unsafe extern "C" fn get_cq_event(
    _: *mut CompChannel,
    _: *mut *mut Cq,
    _: *mut *mut c_void,
) -> c_int {
    libc::ENOSYS
}

unsafe extern "C" fn ack_cq_events(_: *mut Cq, _: c_uint) {}

unsafe extern "C" fn create_qp(_: *mut Pd, _: *mut QpInitAttr) -> *mut Qp {
    fail(libc::ENOSYS)
}

unsafe extern "C" fn modify_qp(_: *mut Qp, _: *mut QpAttr, _: c_int) -> c_int {
    libc::ENOSYS
}

unsafe extern "C" fn destroy_qp(_: *mut Qp) -> c_int {
    libc::ENOSYS
}

unsafe extern "C" fn wc_status_str(_: c_uint) -> *const c_char {
    ptr::null()
}
