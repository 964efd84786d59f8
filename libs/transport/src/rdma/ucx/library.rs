//! UCX's library, opened while the program runs: it starts where the library is absent.

use std::ffi::{CStr, c_uint, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::OnceLock;

use super::abi::{ERR_LAST, Functions, OK, Status, StatusPtr};

/// Name of the library: 0 is the ABI that `abi.rs` describes.
pub(super) const LIBRARY_NAME: &str = "libucp.so.0";
/// Signals that UCX takes for itself when it is loaded (`UCX_ERROR_SIGNALS`).
const TAKEN_SIGNALS: [libc::c_int; 4] = [libc::SIGILL, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE];

/// UCX, once for the process. It is never closed: its memory hooks do not survive that.
#[derive(Debug)]
pub(super) struct Library {
    pub(super) functions: Functions,
    /// As in `1.13.1`.
    pub(super) version: String,
    _handle: ManuallyDrop<libloading::Library>,
}

// === impl Library ===

impl Library {
    /// The library.
    ///
    /// # Errors
    /// It is not there, or is something else.
    pub(super) fn get() -> Result<&'static Self, String> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        LIBRARY.get_or_init(|| Self::open(LIBRARY_NAME)).as_ref().map_err(Clone::clone)
    }

    pub(super) fn open(name: &str) -> Result<Self, String> {
        let before = TAKEN_SIGNALS.map(handler);
        // SAFETY: UCX's initialisers read its variables and take signals; the latter are given back
        // below, the rest asks nothing of the process.
        let opened = unsafe { libloading::Library::new(name) };
        for (signal, handler) in TAKEN_SIGNALS.into_iter().zip(&before) {
            give_back(signal, handler.as_ref());
        }
        let handle = opened.map_err(|error| {
            let said = std::error::Error::source(&error).map(ToString::to_string);
            let said = said.unwrap_or_else(|| error.to_string());
            format!(
                "{name} cannot be opened ({said}): apt-get install libucx0, or UCX's own packages"
            )
        })?;
        // SAFETY: the file has the name of UCX's library; one without its functions is refused.
        let functions = unsafe { Functions::fill(&handle) };
        let functions = functions.map_err(|error| format!("{name} is not UCX's: {error}"))?;
        let (mut major, mut minor, mut release): (c_uint, c_uint, c_uint) = (0, 0, 0);
        // SAFETY: three unsigned ints are written.
        unsafe { (functions.get_version)(&raw mut major, &raw mut minor, &raw mut release) };
        let version = format!("{major}.{minor}.{release}");
        Ok(Self { functions, version, _handle: ManuallyDrop::new(handle) })
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

fn handler(signal: libc::c_int) -> Option<libc::sigaction> {
    let mut old = MaybeUninit::uninit();
    // SAFETY: nothing is changed; one structure is written on success.
    let status = unsafe { libc::sigaction(signal, std::ptr::null(), old.as_mut_ptr()) };
    // SAFETY: written, as the status says.
    (status == 0).then(|| unsafe { old.assume_init() })
}

fn give_back(signal: libc::c_int, old: Option<&libc::sigaction>) {
    let Some(old) = old else { return };
    // SAFETY: puts back what the process had for this signal a moment ago.
    unsafe { libc::sigaction(signal, old, std::ptr::null_mut()) };
}
