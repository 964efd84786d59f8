//! Makes a socket refuse messages for which a subscriber has no room. The `zmq` crate has no call
//! for that.
#![allow(unsafe_code)]

use std::ffi::c_int;

use zmq::Socket;

/// Whether an `XPUB` socket answers `EAGAIN` if one of its subscribers has no room for a message.
/// Otherwise it drops the message for that subscriber.
///
/// # Errors
/// Another kind of socket.
pub(super) fn set_nodrop(socket: &mut Socket, nodrop: bool) -> zmq::Result<()> {
    let value = c_int::from(nodrop);
    // SAFETY: the socket is open until `socket` is dropped, and nobody else uses it meanwhile.
    // ZeroMQ reads only the given number of bytes of `value`, and keeps no pointer to it.
    let status = unsafe {
        zmq_sys::zmq_setsockopt(
            socket.as_mut_ptr(),
            zmq_sys::ZMQ_XPUB_NODROP as c_int,
            (&raw const value).cast(),
            size_of::<c_int>(),
        )
    };
    // It fails for no other reason.
    if status == 0 { Ok(()) } else { Err(zmq::Error::EINVAL) }
}
