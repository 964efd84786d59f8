//! Which of CUDA's libraries this machine has. cudarc panics at the first call of one that it has
//! not, so nothing of it may be called before this has been asked.
#![allow(unsafe_code)]

use crate::error::Library;

/// Whether a library can be opened.
#[must_use]
pub fn is_there(library: Library) -> bool {
    // SAFETY: opening either library runs its initialisers, which NVIDIA's libraries are made for at
    // any time and on any thread; no symbol of it is called.
    unsafe {
        match library {
            Library::Driver => cudarc::driver::sys::is_culib_present(),
            Library::Nvrtc => cudarc::nvrtc::sys::is_culib_present(),
        }
    }
}
