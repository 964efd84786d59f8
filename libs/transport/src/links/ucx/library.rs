//! UCX's library, opened while the program runs: it starts where the library is absent.

use std::ffi::{CStr, c_uint, c_void};
use std::sync::OnceLock;

use headwater_dylib::UCX;

use super::abi::{ERR_LAST, Functions, OK, Status, StatusPtr};
use super::threads;

/// UCX, once for the process.
#[derive(Debug)]
pub(super) struct Library {
    pub(super) functions: Functions,
    /// As in `1.13.1`.
    pub(super) version: String,
}

// === impl Library ===

impl Library {
    /// The library.
    ///
    /// # Errors
    /// It is not there, or is something else.
    pub(super) fn get() -> Result<&'static Self, String> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        LIBRARY.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self, String> {
        let (functions, _) = UCX.load::<Functions>().map_err(|error| error.to_string())?;
        let (mut major, mut minor, mut release): (c_uint, c_uint, c_uint) = (0, 0, 0);
        // SAFETY: three unsigned ints are written.
        unsafe { (functions.get_version)(&raw mut major, &raw mut minor, &raw mut release) };
        let version = format!("{major}.{minor}.{release}");
        threads::await_at_exit();
        Ok(Self { functions, version })
    }

    /// `Ok` or what the status means.
    pub(super) fn check(&self, status: Status) -> Result<(), String> {
        if status == OK { Ok(()) } else { Err(self.text(status)) }
    }

    /// What a status means.
    pub(super) fn text(&self, status: Status) -> String {
        // SAFETY: answers every status with a text of the library.
        let text = unsafe { CStr::from_ptr((self.functions.status_string)(status)) };
        text.to_string_lossy().into_owned()
    }

    /// The status that stands in place of a request, if it is one.
    pub(super) fn status_of(request: StatusPtr) -> Option<Status> {
        // As UCS_PTR_IS_PTR: null is success, the highest addresses are errors.
        let value = request as isize;
        if value == 0 {
            Some(OK)
        } else if (ERR_LAST..0).contains(&value) {
            Some(value as Status)
        } else {
            None
        }
    }

    /// What UCX says of a context: its transports and devices.
    pub(super) fn describe(&self, context: *mut c_void) -> String {
        let (mut text, mut length) = (std::ptr::null_mut(), 0);
        // SAFETY: both pointers are written when the stream is closed, below.
        let stream = unsafe { libc::open_memstream(&raw mut text, &raw mut length) };
        if stream.is_null() {
            return String::new();
        }
        // SAFETY: the context is open and the stream is one of the C library's.
        unsafe { (self.functions.print_info)(context, stream.cast()) };
        // SAFETY: made above, closed once.
        unsafe { libc::fclose(stream) };
        // SAFETY: the stream left `length` bytes and a zero behind them.
        let said = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        // SAFETY: the stream's memory is the caller's to free.
        unsafe { libc::free(text.cast()) };
        said
    }
}
