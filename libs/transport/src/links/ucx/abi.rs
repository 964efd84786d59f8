//! Structures, numbers and functions of UCX's C interface, as far as they are used.
//!
//! From `ucp/api/ucp.h`, `ucp_def.h` and `ucs/type/status.h` of UCX 1.13; `layout.rs` compares them
//! with the headers of the system. UCX reads a field only where the mask has its bit, so structures
//! may be longer in later releases: those that UCX reads end in spare bytes here.
//!
//! Beware: `ucs_status_t` is a packed enumeration, one signed byte.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `ucs_status_t`.
pub(super) type Status = i8;
/// `ucs_status_ptr_t`: null, a request, or a status in disguise.
pub(super) type StatusPtr = *mut c_void;
/// `ucp_config_t *`, `ucp_context_h`, `ucp_worker_h`, `ucp_ep_h`, `ucp_mem_h`, `ucp_rkey_h`.
pub(super) type Handle = *mut c_void;

pub(super) const OK: Status = 0;
pub(super) const IN_PROGRESS: Status = 1;
pub(super) const ERR_BUSY: Status = -15;
/// `UCS_ERR_LAST`: pointers from here to the top of memory are statuses.
pub(super) const ERR_LAST: isize = -100;

/// Release of the interface that is asked for (`ucp_version.h`); later ones keep to it.
pub(super) const API_MAJOR: c_uint = 1;
pub(super) const API_MINOR: c_uint = 13;

pub(super) const PARAM_FEATURES: u64 = 1 << 0;
pub(super) const PARAM_MT_WORKERS_SHARED: u64 = 1 << 5;
pub(super) const FEATURE_RMA: u64 = 1 << 1;
pub(super) const FEATURE_WAKEUP: u64 = 1 << 4;
pub(super) const FEATURE_AM: u64 = 1 << 6;
pub(super) const WORKER_THREAD_MODE: u64 = 1 << 0;
pub(super) const THREAD_MODE_SINGLE: c_int = 0;
pub(super) const EP_REMOTE_ADDRESS: u64 = 1 << 0;
pub(super) const EP_ERR_HANDLING_MODE: u64 = 1 << 1;
pub(super) const EP_ERR_HANDLER: u64 = 1 << 2;
pub(super) const ERR_HANDLING_PEER: c_int = 1;
pub(super) const EP_CLOSE_FORCE: u32 = 1 << 0;
pub(super) const OP_FLAGS: u32 = 1 << 4;
pub(super) const AM_SEND_EAGER: u32 = 1 << 1;
pub(super) const MEM_MAP_ADDRESS: u64 = 1 << 0;
pub(super) const MEM_MAP_LENGTH: u64 = 1 << 1;
pub(super) const AM_HANDLER_ID: u64 = 1 << 0;
pub(super) const AM_HANDLER_CB: u64 = 1 << 2;
pub(super) const AM_HANDLER_ARG: u64 = 1 << 3;

/// Bytes of later releases.
type Spare = [u64; 16];

/// `ucp_params_t`.
#[repr(C)]
#[derive(Default)]
pub(super) struct Params {
    pub(super) field_mask: u64,
    pub(super) features: u64,
    pub(super) request_size: usize,
    pub(super) request_init: usize,
    pub(super) request_cleanup: usize,
    pub(super) tag_sender_mask: u64,
    pub(super) mt_workers_shared: c_int,
    pub(super) estimated_num_eps: usize,
    pub(super) estimated_num_ppn: usize,
    pub(super) name: usize,
    pub(super) spare: Spare,
}

/// `ucp_worker_params_t`.
#[repr(C)]
#[derive(Default)]
pub(super) struct WorkerParams {
    pub(super) field_mask: u64,
    pub(super) thread_mode: c_int,
    pub(super) cpu_mask: [u64; 16],
    pub(super) events: c_uint,
    pub(super) user_data: usize,
    pub(super) event_fd: c_int,
    pub(super) flags: u64,
    pub(super) name: usize,
    pub(super) am_alignment: usize,
    pub(super) client_id: u64,
    pub(super) spare: Spare,
}

/// `ucp_err_handler_cb_t`.
pub(super) type ErrorHandler = unsafe extern "C" fn(*mut c_void, Handle, Status);

/// `ucp_ep_params_t`.
#[repr(C)]
pub(super) struct EndpointParams {
    pub(super) field_mask: u64,
    pub(super) address: *const c_void,
    pub(super) err_mode: c_int,
    pub(super) err_handler: Option<ErrorHandler>,
    pub(super) err_handler_arg: *mut c_void,
    pub(super) user_data: usize,
    pub(super) flags: c_uint,
    pub(super) sockaddr: [usize; 2],
    pub(super) conn_request: usize,
    pub(super) name: usize,
    pub(super) local_sockaddr: [usize; 2],
    pub(super) spare: Spare,
}

/// `ucp_mem_map_params_t`.
#[repr(C)]
pub(super) struct MemMapParams {
    pub(super) field_mask: u64,
    pub(super) address: *mut c_void,
    pub(super) length: usize,
    pub(super) flags: c_uint,
    pub(super) prot: c_uint,
    pub(super) memory_type: c_int,
    pub(super) spare: Spare,
}

/// `ucp_am_recv_callback_t`.
pub(super) type AmHandler = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    usize,
    *mut c_void,
    usize,
    *const c_void,
) -> Status;

/// `ucp_am_handler_param_t`.
#[repr(C)]
pub(super) struct AmHandlerParam {
    pub(super) field_mask: u64,
    pub(super) id: c_uint,
    pub(super) flags: u32,
    pub(super) cb: Option<AmHandler>,
    pub(super) arg: *mut c_void,
    pub(super) spare: Spare,
}

/// `ucp_request_param_t`.
#[repr(C)]
#[derive(Default)]
pub(super) struct RequestParam {
    pub(super) op_attr_mask: u32,
    pub(super) flags: u32,
    pub(super) request: usize,
    pub(super) cb: usize,
    pub(super) datatype: u64,
    pub(super) user_data: usize,
    pub(super) reply_buffer: usize,
    pub(super) memory_type: c_int,
    pub(super) recv_info: usize,
    pub(super) memh: usize,
    pub(super) spare: Spare,
}

headwater_dylib::functions! {
    /// The functions of UCX that are used.
    #[derive(Debug)]
    pub(super) struct Functions;
    // SAFETY: the types are those of the headers; libucp.so.0 keeps to them in all releases of version 1.
    unsafe extern "C" {
        status_string: fn(Status) -> *const c_char = "ucs_status_string";
        get_version: fn(*mut c_uint, *mut c_uint, *mut c_uint) = "ucp_get_version";
        init: fn(c_uint, c_uint, *const Params, *const c_void, *mut Handle) -> Status
            = "ucp_init_version";
        config_read: fn(*const c_char, *const c_char, *mut Handle) -> Status = "ucp_config_read";
        config_modify: fn(Handle, *const c_char, *const c_char) -> Status = "ucp_config_modify";
        config_release: fn(Handle) = "ucp_config_release";
        cleanup: fn(Handle) = "ucp_cleanup";
        print_info: fn(Handle, *mut c_void) = "ucp_context_print_info";
        worker_create: fn(Handle, *const WorkerParams, *mut Handle) -> Status = "ucp_worker_create";
        worker_destroy: fn(Handle) = "ucp_worker_destroy";
        worker_get_address: fn(Handle, *mut *mut c_void, *mut usize) -> Status
            = "ucp_worker_get_address";
        worker_release_address: fn(Handle, *mut c_void) = "ucp_worker_release_address";
        worker_progress: fn(Handle) -> c_uint = "ucp_worker_progress";
        worker_get_efd: fn(Handle, *mut c_int) -> Status = "ucp_worker_get_efd";
        worker_arm: fn(Handle) -> Status = "ucp_worker_arm";
        worker_signal: fn(Handle) -> Status = "ucp_worker_signal";
        worker_set_am_handler: fn(Handle, *const AmHandlerParam) -> Status
            = "ucp_worker_set_am_recv_handler";
        ep_create: fn(Handle, *const EndpointParams, *mut Handle) -> Status = "ucp_ep_create";
        ep_close: fn(Handle, *const RequestParam) -> StatusPtr = "ucp_ep_close_nbx";
        ep_flush: fn(Handle, *const RequestParam) -> StatusPtr = "ucp_ep_flush_nbx";
        am_send: fn(
            Handle,
            c_uint,
            *const c_void,
            usize,
            *const c_void,
            usize,
            *const RequestParam,
        ) -> StatusPtr = "ucp_am_send_nbx";
        put: fn(Handle, *const c_void, usize, u64, Handle, *const RequestParam) -> StatusPtr
            = "ucp_put_nbx";
        request_check: fn(*mut c_void) -> Status = "ucp_request_check_status";
        request_free: fn(*mut c_void) = "ucp_request_free";
        mem_map: fn(Handle, *const MemMapParams, *mut Handle) -> Status = "ucp_mem_map";
        mem_unmap: fn(Handle, Handle) -> Status = "ucp_mem_unmap";
        rkey_pack: fn(Handle, Handle, *mut *mut c_void, *mut usize) -> Status = "ucp_rkey_pack";
        rkey_buffer_release: fn(*mut c_void) = "ucp_rkey_buffer_release";
        rkey_unpack: fn(Handle, *const c_void, *mut Handle) -> Status = "ucp_ep_rkey_unpack";
        rkey_destroy: fn(Handle) = "ucp_rkey_destroy";
    }
}
