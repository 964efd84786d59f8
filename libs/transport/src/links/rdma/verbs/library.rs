//! libibverbs, opened while the program runs: it starts where the library is absent.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use headwater_dylib::{DylibError, IBVERBS};

use super::abi::{
    self, AlignedGid, AsyncEvent, CompChannel, Context, Cq, Device, DeviceAttr, GidEntry, Mr, Pd,
    PortAttr, Qp, QpAttr, QpInitAttr,
};

headwater_dylib::functions! {
    /// The functions of libibverbs that are used.
    #[derive(Clone, Debug)]
    pub(crate) struct Library;
    // SAFETY: names and types are those of the header (ABI version 1, which the library's name holds to).
    unsafe extern "C" {
        get_device_list: fn(*mut c_int) -> *mut *mut Device = "ibv_get_device_list";
        free_device_list: fn(*mut *mut Device) -> () = "ibv_free_device_list";
        get_device_name: fn(*mut Device) -> *const c_char = "ibv_get_device_name";
        open_device: fn(*mut Device) -> *mut Context = "ibv_open_device";
        close_device: fn(*mut Context) -> c_int = "ibv_close_device";
        query_device: fn(*mut Context, *mut DeviceAttr) -> c_int = "ibv_query_device";
        query_port: fn(*mut Context, u8, *mut PortAttr) -> c_int = "ibv_query_port";
        query_gid: fn(*mut Context, u8, c_int, *mut AlignedGid) -> c_int = "ibv_query_gid";
        /// The key in network byte order.
        query_pkey: fn(*mut Context, u8, c_int, *mut u16) -> c_int = "ibv_query_pkey";
        get_async_event: fn(*mut Context, *mut AsyncEvent) -> c_int = "ibv_get_async_event";
        ack_async_event: fn(*mut AsyncEvent) -> () = "ibv_ack_async_event";
        fork_init: fn() -> c_int = "ibv_fork_init";
        alloc_pd: fn(*mut Context) -> *mut Pd = "ibv_alloc_pd";
        dealloc_pd: fn(*mut Pd) -> c_int = "ibv_dealloc_pd";
        reg_mr: fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr = "ibv_reg_mr";
        dereg_mr: fn(*mut Mr) -> c_int = "ibv_dereg_mr";
        create_comp_channel: fn(*mut Context) -> *mut CompChannel = "ibv_create_comp_channel";
        destroy_comp_channel: fn(*mut CompChannel) -> c_int = "ibv_destroy_comp_channel";
        create_cq: fn(*mut Context, c_int, *mut c_void, *mut CompChannel, c_int) -> *mut Cq
            = "ibv_create_cq";
        destroy_cq: fn(*mut Cq) -> c_int = "ibv_destroy_cq";
        get_cq_event: fn(*mut CompChannel, *mut *mut Cq, *mut *mut c_void) -> c_int
            = "ibv_get_cq_event";
        ack_cq_events: fn(*mut Cq, c_uint) -> () = "ibv_ack_cq_events";
        create_qp: fn(*mut Pd, *mut QpInitAttr) -> *mut Qp = "ibv_create_qp";
        modify_qp: fn(*mut Qp, *mut QpAttr, c_int) -> c_int = "ibv_modify_qp";
        destroy_qp: fn(*mut Qp) -> c_int = "ibv_destroy_qp";
        wc_status_str: fn(c_uint) -> *const c_char = "ibv_wc_status_str";
    }
    optional {
        /// Domain, memory, length, address for requests, access with optional flags. Not there before
        /// rdma-core 28.
        reg_mr_iova2: fn(*mut Pd, *mut c_void, usize, u64, c_uint) -> *mut Mr = "ibv_reg_mr_iova2";
        /// Port, index, what is filled, flags, its size. Not there before rdma-core 32.
        query_gid_ex: fn(*mut Context, u32, u32, *mut GidEntry, u32, usize) -> c_int
            = "_ibv_query_gid_ex";
        /// Whether fork is safe, needs `ibv_fork_init` or does without. Not there before rdma-core 35.
        is_fork_initialized: fn() -> c_int = "ibv_is_fork_initialized";
        /// Domain, offset in the descriptor's memory, length, address for requests, descriptor,
        /// access. Not there before rdma-core 34.
        reg_dmabuf_mr: fn(*mut Pd, u64, usize, u64, c_int, c_int) -> *mut Mr = "ibv_reg_dmabuf_mr";
    }
}

// === impl Library ===

impl Library {
    /// The system's libibverbs, opened once.
    pub(crate) fn system() -> Result<Self, DylibError> {
        static SYSTEM: OnceLock<Result<Library, DylibError>> = OnceLock::new();
        let load = || {
            let (library, _): (Self, _) = IBVERBS.load()?;
            library.prepare_for_fork();
            Ok(library)
        };
        SYSTEM.get_or_init(load).clone()
    }

    /// Before the first other verb: a process that forks, as Python's do, must not have pages copied
    /// away from under the device. Kernels from 5.12 on copy registered pages for the child instead.
    fn prepare_for_fork(&self) {
        let unneeded = match self.is_fork_initialized {
            Some(state) => {
                // SAFETY: the function takes no arguments, and may be called at any time.
                unsafe { state() == abi::FORK_UNNEEDED }
            }
            None => copies_when_it_forks(&rustix::system::uname().release().to_string_lossy()),
        };
        if unneeded {
            return;
        }
        // SAFETY: the function takes no arguments, and may be called at any time.
        let rc = unsafe { (self.fork_init)() };
        if rc != 0 {
            let error = std::io::Error::from_raw_os_error(rc.abs());
            tracing::warn!(
                %error,
                "libibverbs cannot make fork safe in this process (another library has registered \
                 memory before): do not fork once batches are received, or set RDMAV_FORK_SAFE=1"
            );
        }
    }

    /// As it was before rdma-core 34.
    #[cfg(test)]
    pub(crate) fn without_dmabuf(self) -> Self {
        Self { reg_dmabuf_mr: None, ..self }
    }

    /// As it was before rdma-core 32.
    #[cfg(test)]
    pub(crate) fn without_gid_entries(self) -> Self {
        Self { query_gid_ex: None, ..self }
    }

    /// What a failed completion means, in the library's words.
    pub(super) fn status(&self, status: c_uint) -> String {
        // SAFETY: the function takes any number and gives a constant string.
        let text = unsafe { (self.wc_status_str)(status) };
        if text.is_null() {
            return format!("status {status}");
        }
        // SAFETY: not null (just checked), NUL-terminated and never freed: a constant.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// Whether a kernel of this release gives a forked child copies of registered pages: from 5.12 on.
fn copies_when_it_forks(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (5, 12),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_from_5_12_on_copy_registered_pages_when_they_fork() {
        for (release, copies) in [
            ("5.12.0-rc1", true),
            ("6.1.0-18-amd64", true),
            ("5.11.22", false),
            ("4.18.0-553.el8_10.x86_64", false),
            ("of another kind", false),
        ] {
            assert_eq!(copies_when_it_forks(release), copies, "{release}");
        }
    }
}
