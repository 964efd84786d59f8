//! A receiver's slot as its card knows it.

use std::sync::Arc;

use super::locked;
use super::verbs::{MemoryRegion, ProtectionDomain, Writers};
use super::wire::RemoteMemory;
use crate::link::terms::{LinkError, LinkKind};
use crate::memory::place::SlotId;
use crate::memory::slot::SlotMemory;
use crate::memory::window::DeviceWindow;

/// A slot that peers may write to; registered once with each device that the receiver uses.
#[derive(Debug)]
pub(super) enum Slot {
    Host(MemoryRegion<Arc<SlotMemory>>),
    Device(MemoryRegion<Arc<dyn DeviceWindow>>),
}

// === impl Slot ===

impl Slot {
    /// Registers a slot of the host.
    ///
    /// # Errors
    /// The memory cannot be registered; names the slot, the limit and the remedy.
    pub(super) fn host(
        domain: &Arc<ProtectionDomain>,
        slot: SlotId,
        memory: Arc<SlotMemory>,
    ) -> Result<Self, LinkError> {
        let len_bytes = memory.len_bytes();
        let region = MemoryRegion::new(domain, memory, Writers::Peers).map_err(|error| {
            let what = format!("slot {}", slot.0);
            LinkKind::Rdma.setup(locked::registration_failure(&what, len_bytes, &error))
        })?;
        Ok(Self::Host(region))
    }

    /// What is registered: memory of the host, or of a GPU.
    pub(super) fn memory(&self) -> Result<Arc<SlotMemory>, Arc<dyn DeviceWindow>> {
        match self {
            Self::Host(region) => Ok(Arc::clone(region.memory())),
            Self::Device(region) => Err(Arc::clone(region.memory())),
        }
    }

    /// As its writers address it.
    pub(super) fn terms(&self) -> RemoteMemory {
        let (address, len_bytes, key) = match self {
            Self::Host(region) => {
                let memory = region.memory();
                (memory.as_ptr() as u64, memory.len_bytes(), region.remote_key())
            }
            Self::Device(region) => {
                let window = region.memory();
                (window.address(), window.len_bytes(), region.remote_key())
            }
        };
        RemoteMemory { address, len_bytes, key }
    }
}
