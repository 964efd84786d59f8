//! What the rdma link has beside the contract: its beginning goes over the control stream, and its
//! slots may lie in a GPU's memory.

use std::sync::Arc;

use async_trait::async_trait;

use crate::link::contract::ReceiverLink;
use crate::link::terms::LinkError;
use crate::memory::place::SlotId;
use crate::memory::window::DeviceWindow;

/// The receiver's end of the rdma link.
pub trait RdmaReceiver: ReceiverLink {
    /// Answers what a connecting worker asks over the control stream ([`Exchange`]). Makes queue
    /// pairs, which takes a while: not to be called on an async thread.
    fn answer(&self, request: &[u8]) -> Vec<u8>;

    /// As [`ReceiverLink::add_slot`], for memory of a GPU: parts of this slot land there, and not in
    /// the host's memory. The first such slot is tried out with a write before it is added.
    ///
    /// # Errors
    /// The card cannot write there; what was tried, and the remedy.
    fn add_device_slot(&self, slot: SlotId, window: Arc<dyn DeviceWindow>)
    -> Result<(), LinkError>;
}

/// The control stream, as far as a connecting worker needs it: passes a request to the receiver's
/// [`RdmaReceiver::answer`] and its answer back.
#[async_trait]
pub trait Exchange: Send + Sync {
    /// # Errors
    /// The control stream is gone.
    async fn exchange(&self, request: Vec<u8>) -> Result<Vec<u8>, LinkError>;
}
