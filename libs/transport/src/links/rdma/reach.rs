//! Whether a card's writes to a GPU's memory come there: between a registration that succeeds and
//! bytes in their places stand the machine's bridges and its IOMMU.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use headwater_core::Region;

use super::adapter::Adapter;
use super::connection::Connection;
use super::lane::Event;
use super::probe::{PROBE_BYTES, pattern};
use super::verbs::MemoryRegion;
use super::wire::RemoteMemory;
use crate::link::key::random_bytes;
use crate::memory::window::DeviceWindow;

/// Time for a write of some packets to come back.
const LIMIT: Duration = Duration::from_secs(5);
/// Between two looks for it.
const LOOK: Duration = Duration::from_millis(1);

/// Writes to both ends of the window, over a queue pair that is connected to itself, and reads back
/// what is there.
///
/// # Errors
/// What did not come, or what came instead.
pub(super) fn check(
    adapter: &Arc<Adapter>,
    region: &MemoryRegion<Arc<dyn DeviceWindow>>,
) -> Result<(), String> {
    let failed = |error: io::Error| format!("no queue pair to try it with: {error}");
    let connection = Connection::new(adapter, 1, true, None).map_err(failed)?;
    connection.connect(&connection.endpoint()).map_err(failed)?;
    let window = region.memory();
    let len_bytes = window.len_bytes().min(PROBE_BYTES as u64);
    for offset_bytes in [0, window.len_bytes() - len_bytes] {
        let mut pattern = pattern(&random_bytes().map_err(failed)?, 0);
        pattern.truncate(len_bytes as usize);
        let address = window.address() + offset_bytes;
        let target = RemoteMemory { address, len_bytes, key: region.remote_key() };
        connection.probe(target, |_| pattern.clone()).map_err(failed)?;
        arrival(&connection)?;
        let found = window.read(Region { offset_bytes, len_bytes })?;
        if found != pattern {
            return Err(format!("{len_bytes} bytes written at {offset_bytes} are not there"));
        }
    }
    Ok(())
}

/// Waits for the write's completion at its target.
fn arrival(connection: &Connection) -> Result<(), String> {
    let limit = Instant::now() + LIMIT;
    while Instant::now() < limit {
        for event in connection.poll().map_err(|error| format!("completion queue: {error}"))? {
            match event {
                Event::Written(_) => return Ok(()),
                Event::Broken(reason) => return Err(format!("a write to it failed: {reason}")),
                Event::Message(_) | Event::Ended(..) => {}
            }
        }
        if let Some(fault) = connection.fault() {
            return Err(format!("a write to it failed: {fault}"));
        }
        std::thread::sleep(LOOK);
    }
    Err(format!("a write to it did not end within {} s", LIMIT.as_secs()))
}
