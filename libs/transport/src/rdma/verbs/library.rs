//! libibverbs, opened while the program runs: it starts where the library is absent.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use headwater_dylib::{DylibError, IBVERBS};

use super::abi::{
    AlignedGid, CompChannel, Context, Cq, Device, DeviceAttr, Mr, Pd, PortAttr, Qp, QpAttr,
    QpInitAttr,
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
        SYSTEM.get_or_init(|| IBVERBS.load().map(|(functions, _)| functions)).clone()
    }

    /// As it was before rdma-core 34.
    #[cfg(test)]
    pub(crate) fn without_dmabuf(self) -> Self {
        Self { reg_dmabuf_mr: None, ..self }
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
