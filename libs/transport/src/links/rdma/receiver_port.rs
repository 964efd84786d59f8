//! The receiver's port, and the slots that are registered with its device. Where the device has had a fatal error,
//! or the port has failed and another one can be used, the slots go over to that.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::adapter::{Adapter, RdmaPort};
use super::connection::Connection;
use super::path::Path;
use super::reach;
use super::slot::Slot;
use super::verbs::MemoryRegion;
use super::wire::Offer;
use crate::link::receiver_permits::ReceiverPermits;
use crate::link::terms::{LinkError, LinkKind};
use crate::memory::place::SlotId;
use crate::memory::slot::SlotMemory;
use crate::memory::window::DeviceWindow;
use crate::metrics;

/// The port that is used now.
#[derive(Debug)]
pub(super) struct ReceiverPort {
    permits: Arc<ReceiverPermits<Path>>,
    choice: RdmaPort,
    adapter: Mutex<Arc<Adapter>>,
    /// Held while slots are registered: each is with the device of the adapter.
    registering: Mutex<()>,
    /// A write to a GPU's memory was seen to come there.
    reaches_gpu: AtomicBool,
}

// === impl ReceiverPort ===

impl ReceiverPort {
    pub(super) fn open(
        choice: &RdmaPort,
        permits: Arc<ReceiverPermits<Path>>,
    ) -> Result<Self, String> {
        let adapter = Adapter::open(choice, None, Connection::try_out)?;
        let (adapter, registering) = (Mutex::new(adapter), Mutex::new(()));
        let (choice, reaches_gpu) = (choice.clone(), AtomicBool::new(false));
        Ok(Self { permits, choice, adapter, registering, reaches_gpu })
    }

    pub(super) fn describe(&self) -> String {
        self.current().describe()
    }

    /// The port, after it was looked after: may take as long as the registration of all slots.
    pub(super) fn usable(&self) -> Arc<Adapter> {
        let adapter = self.current();
        if adapter.route(None).is_ok() { adapter } else { self.mended().1 }
    }

    /// What a worker gets to know of the port, with the address that is best where the control stream's
    /// own is `control`; why it cannot be used now. Does not wait.
    pub(super) fn offer(&self, control: IpAddr) -> Result<Offer, String> {
        self.current().offer(control)
    }

    /// Registers memory of the host as a slot.
    pub(super) fn add(&self, slot: SlotId, memory: Arc<SlotMemory>) -> Result<(), LinkError> {
        let (_registering, adapter) = self.mended();
        let registered = Slot::host(&adapter.domain, slot, memory)?;
        self.count(&registered);
        self.permits.add_slot(slot, registered);
        Ok(())
    }

    /// Registers memory of a GPU as a slot.
    pub(super) fn add_device(
        &self,
        slot: SlotId,
        window: Arc<dyn DeviceWindow>,
    ) -> Result<(), LinkError> {
        let (_registering, adapter) = self.mended();
        let name = adapter.domain.device().name();
        let refused =
            |why: String| LinkKind::Rdma.setup(format!("{name} cannot write to the GPU: {why}"));
        let made = MemoryRegion::of_window(&adapter.domain, window);
        let (region, way) = made.map_err(refused)?;
        if !self.reaches_gpu.load(Ordering::Relaxed) {
            reach::check(&adapter, &region).map_err(refused)?;
            self.reaches_gpu.store(true, Ordering::Relaxed);
            tracing::info!(device = name, way, "rdma link writes to the GPU's memory");
        }
        let registered = Slot::Device(region);
        self.count(&registered);
        self.permits.add_slot(slot, registered);
        Ok(())
    }

    fn count(&self, registered: &Slot) {
        metrics::registered(LinkKind::Rdma, registered.terms().len_bytes);
    }

    /// The port; another one, or the same one opened anew, where it cannot be used. Where there is none, it stays,
    /// and says why when it is asked.
    fn mended(&self) -> (MutexGuard<'_, ()>, Arc<Adapter>) {
        let registering = self.registering.lock().unwrap_or_else(PoisonError::into_inner);
        let adapter = self.current();
        let Err(fault) = adapter.route(None) else { return (registering, adapter) };
        let adapter = match self.replacement(&adapter) {
            Ok(other) => {
                let port = other.describe();
                tracing::warn!(
                    fault,
                    port,
                    "the rdma link goes on with another port, or this one anew"
                );
                *self.lock() = Arc::clone(&other);
                other
            }
            Err(reason) => {
                tracing::warn!(fault, reason, "the rdma link has no port now");
                adapter
            }
        };
        (registering, adapter)
    }

    /// A port that can be used, with all slots registered.
    fn replacement(&self, failed: &Arc<Adapter>) -> Result<Arc<Adapter>, String> {
        let adapter = Adapter::open(&self.choice, None, Connection::try_out)?;
        if Arc::ptr_eq(&adapter.domain, &failed.domain) {
            return Ok(adapter);
        }
        // One after the other: with all registered twice, a limit of locked memory might be passed.
        for (number, memory) in self.permits.each_slot(Slot::memory) {
            let slot = match memory {
                Ok(host) => Slot::host(&adapter.domain, number, host).map_err(|e| e.to_string())?,
                // A batch may be there, so no write is tried: the same card reached it before.
                Err(window) if adapter.device().name() == failed.device().name() => {
                    Slot::Device(MemoryRegion::of_window(&adapter.domain, window)?.0)
                }
                Err(_) => {
                    return Err(format!("{} was not seen to reach the GPU", adapter.describe()));
                }
            };
            self.count(&slot);
            self.permits.replace_slot(number, slot);
        }
        Ok(adapter)
    }

    fn current(&self) -> Arc<Adapter> {
        Arc::clone(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Adapter>> {
        self.adapter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
