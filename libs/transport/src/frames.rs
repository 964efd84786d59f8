//! The doors of all links for whoever wants to throw bytes at them: fuzzing does.

use crate::{rdma, shm, tcp, ucx};

/// Takes any bytes for each message of each link; none may be read for more than it says.
///
/// # Panics
/// A message is accepted that is not written again as it was read.
pub fn take_any(bytes: &[u8]) {
    tcp::wire::take_any(bytes);
    shm::wire::take_any(bytes);
    rdma::wire::take_any(bytes);
    ucx::wire::take_any(bytes);
}
