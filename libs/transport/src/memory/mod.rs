//! Memory that parts are rendered in and delivered to. Knows no link: a link brings the registration
//! of its buffers and the word that a part is out.

#[allow(unsafe_code)] // mmap and munmap.
pub(crate) mod mapping;
#[allow(unsafe_code)] // Rendering memory as slices.
pub(crate) mod part;
pub(crate) mod place;
#[allow(unsafe_code)] // Slot memory by address.
pub(crate) mod slot;
pub(crate) mod staging;
#[allow(unsafe_code)] // The word of whoever makes windows.
pub(crate) mod window;
