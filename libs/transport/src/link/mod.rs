//! What all links have in common: the contract and its terms, the keys of sessions, and who may write
//! what, on both sides.

pub(crate) mod contract;
pub(crate) mod key;
pub(crate) mod messages;
pub(crate) mod receiver_permits;
pub(crate) mod receiving_end;
pub(crate) mod recent;
pub(crate) mod terms;
pub(crate) mod worker_permits;
