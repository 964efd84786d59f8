//! libibverbs, opened while the program runs: it starts where the library is absent.

use std::error::Error as _;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use super::abi::{
    AlignedGid, CompChannel, Context, Cq, Device, DeviceAttr, Mr, Pd, PortAttr, Qp, QpAttr,
    QpInitAttr,
};

/// Name of the library: version 1 is the ABI that `abi.rs` describes.
pub(crate) const LIBRARY_NAME: &str = "libibverbs.so.1";

/// `ibv_reg_dmabuf_mr`: domain, offset in the descriptor's memory, length, address for requests,
/// descriptor, access.
pub(super) type RegDmabufMr =
    unsafe extern "C" fn(*mut Pd, u64, usize, u64, c_int, c_int) -> *mut Mr;

/// Declares the table of functions and how it is filled from a library.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: fn($($arg:ty),*) -> $ret:ty = $symbol:literal;)+) => {
        /// The functions of libibverbs that are used. Tests make one of their own: everything
        /// above this table cannot tell.
        #[derive(Clone, Debug)]
        pub(crate) struct Library {
            $($(#[$doc])* pub(super) $name: unsafe extern "C" fn($($arg),*) -> $ret,)+
            /// Not there before rdma-core 34.
            pub(super) reg_dmabuf_mr: Option<RegDmabufMr>,
        }

        impl Library {
            fn fill(library: &libloading::Library) -> Result<Self, String> {
                let missing = |name: &CStr| format!("it has no {}", name.to_string_lossy());
                // SAFETY: the names are those of libibverbs's functions, and the types are its
                // header's (ABI version 1, which the library's name holds to).
                unsafe {
                    Ok(Self {
                        $($name: *library.get($symbol).map_err(|_| missing($symbol))?,)+
                        reg_dmabuf_mr: library.get(c"ibv_reg_dmabuf_mr").ok().map(|found| *found),
                    })
                }
            }
        }
    };
}

functions! {
    get_device_list: fn(*mut c_int) -> *mut *mut Device = c"ibv_get_device_list";
    free_device_list: fn(*mut *mut Device) -> () = c"ibv_free_device_list";
    get_device_name: fn(*mut Device) -> *const c_char = c"ibv_get_device_name";
    open_device: fn(*mut Device) -> *mut Context = c"ibv_open_device";
    close_device: fn(*mut Context) -> c_int = c"ibv_close_device";
    query_device: fn(*mut Context, *mut DeviceAttr) -> c_int = c"ibv_query_device";
    query_port: fn(*mut Context, u8, *mut PortAttr) -> c_int = c"ibv_query_port";
    query_gid: fn(*mut Context, u8, c_int, *mut AlignedGid) -> c_int = c"ibv_query_gid";
    alloc_pd: fn(*mut Context) -> *mut Pd = c"ibv_alloc_pd";
    dealloc_pd: fn(*mut Pd) -> c_int = c"ibv_dealloc_pd";
    reg_mr: fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr = c"ibv_reg_mr";
    dereg_mr: fn(*mut Mr) -> c_int = c"ibv_dereg_mr";
    create_comp_channel: fn(*mut Context) -> *mut CompChannel = c"ibv_create_comp_channel";
    destroy_comp_channel: fn(*mut CompChannel) -> c_int = c"ibv_destroy_comp_channel";
    create_cq: fn(*mut Context, c_int, *mut c_void, *mut CompChannel, c_int) -> *mut Cq
        = c"ibv_create_cq";
    destroy_cq: fn(*mut Cq) -> c_int = c"ibv_destroy_cq";
    get_cq_event: fn(*mut CompChannel, *mut *mut Cq, *mut *mut c_void) -> c_int
        = c"ibv_get_cq_event";
    ack_cq_events: fn(*mut Cq, c_uint) -> () = c"ibv_ack_cq_events";
    create_qp: fn(*mut Pd, *mut QpInitAttr) -> *mut Qp = c"ibv_create_qp";
    modify_qp: fn(*mut Qp, *mut QpAttr, c_int) -> c_int = c"ibv_modify_qp";
    destroy_qp: fn(*mut Qp) -> c_int = c"ibv_destroy_qp";
    wc_status_str: fn(c_uint) -> *const c_char = c"ibv_wc_status_str";
}

// === impl Library ===

impl Library {
    /// The system's libibverbs, opened once; never closed, because its providers keep threads and
    /// mappings.
    pub(crate) fn system() -> Result<Self, String> {
        static SYSTEM: OnceLock<Result<Library, String>> = OnceLock::new();
        SYSTEM.get_or_init(|| Self::open(LIBRARY_NAME)).clone()
    }

    /// Opens a library by its file name.
    pub(crate) fn open(name: &str) -> Result<Self, String> {
        // SAFETY: libibverbs's constructors only prepare its own tables; whoever puts another
        // library of this name in the search path runs code in this process in any case.
        let library = unsafe { libloading::Library::new(name) }.map_err(|error| {
            let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            format!("the library {name} cannot be opened ({reason})")
        })?;
        let functions = Self::fill(&library)
            .map_err(|error| format!("the library {name} is not libibverbs 1.1 ({error})"))?;
        std::mem::forget(library);
        Ok(functions)
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
