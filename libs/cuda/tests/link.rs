//! The cuda link on a driver: the emulated one, in one process and in two. `libs/transport` has it without a driver.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use headwater_cuda::{DeviceSlot, Gpu, Imports, Uploader};
use headwater_transport::conformance::{HERE, Harness, World, fill, holds, region};
use headwater_transport::links::cuda::{self, CudaConnect, CudaListen, DEFAULT_HANDSHAKE_TIMEOUT};
use headwater_transport::{
    Arrival, DeviceImports as _, DeviceWindow, ExportedWindow, ExportsWindow as _, GpuUuid,
    LeaseId, LinkError, LinkKind, LinkOffer, PartPlace, ReceiverLink, SessionKey, SlotId,
    SlotMemory, WindowHandle, WorkerLink,
};
use tokio::sync::mpsc;

use crate::emulation::{cuda as driver, is_emulated, on_a_gpu, run_again};

/// Both ends on one GPU, each with what it would have in a process of its own.
struct OnDriver {
    uploader: Arc<Uploader>,
    windows: Mutex<HashMap<usize, Arc<DeviceSlot>>>,
}

impl OnDriver {
    fn new() -> Self {
        let uploader = Arc::new(Uploader::open(0, None).expect("the GPU"));
        Self { uploader, windows: Mutex::default() }
    }

    /// A slot in the GPU's memory, and its pages.
    fn exportable(&self, len_bytes: u64) -> (Arc<DeviceSlot>, Arc<SlotMemory>) {
        let host = Arc::new(SlotMemory::private(len_bytes, false).expect("memory"));
        // What is normalised lies behind the slot's own bytes.
        let twin = self.uploader.exportable_slot(host, len_bytes + 1000).expect("a twin");
        let exported = twin.export().expect("a descriptor");
        let WindowHandle::File(file) = exported.handle else { panic!("no descriptor") };
        let pages = SlotMemory::of_device_pages(&file, len_bytes).expect("its pages");
        (Arc::new(twin), Arc::new(pages))
    }
}

fn connect() -> CudaConnect {
    CudaConnect {
        allow_uids: Vec::new(),
        handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
        staging_buffers: 3,
        imports: Arc::new(Imports::new(Gpu::open(0).expect("the GPU"))),
    }
}

#[async_trait]
impl Harness for OnDriver {
    async fn listen(&self, arrivals: mpsc::UnboundedSender<Arrival>) -> Arc<dyn ReceiverLink> {
        cuda::listen(&CudaListen::default(), arrivals).await.expect("a socket")
    }

    async fn connect(
        &self,
        offer: &LinkOffer,
        key: &SessionKey,
    ) -> Result<Arc<dyn WorkerLink>, LinkError> {
        cuda::connect(offer, key, &connect()).await
    }

    fn slot(&self, len_bytes: u64) -> Arc<SlotMemory> {
        let (twin, pages) = self.exportable(len_bytes);
        self.windows.lock().unwrap().insert(pages.as_ptr() as usize, twin);
        pages
    }

    fn window(&self, memory: &Arc<SlotMemory>) -> Option<Arc<dyn DeviceWindow>> {
        let windows = self.windows.lock().unwrap().remove(&(memory.as_ptr() as usize));
        Some(windows.expect("it was just made"))
    }

    fn buffers(&self) -> Option<usize> {
        Some(3)
    }
}

/// Runs where the driver is, see `the_link_keeps_the_contract_on_a_driver`.
mod suite {
    use super::OnDriver;
    use crate::emulation::is_emulated;

    headwater_transport::conformance_suite!(match is_emulated() {
        true => OnDriver::new(),
        false => return,
    });
}

#[test]
fn the_link_keeps_the_contract_on_a_driver() {
    if is_emulated() {
        return;
    }
    let mut suite = Command::new(std::env::current_exe().expect("this program"));
    suite.args(["link::suite::", "--nocapture"]).env("LD_LIBRARY_PATH", driver());
    let output = suite.env("ON_EMULATED_LIBRARIES", "1").output().expect("this program");
    let out = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && out.contains("32 passed"), "{out}{said}");
}

#[test]
fn memory_is_the_same_at_both_ends_and_is_given_back() {
    on_a_gpu("link::memory_is_the_same_at_both_ends_and_is_given_back", &[], || {
        let on = OnDriver::new();
        let free = || cudarc::driver::result::mem_get_info().expect("the driver").0;
        on.uploader.gpu().context().bind_to_thread().expect("a context");
        let before = free();
        let (twin, pages) = on.exportable(5000);
        let imports = Imports::new(Gpu::open(0).expect("the GPU"));
        let imported = imports.import(twin.export().expect("exported")).expect("imported");
        imported.write(&[(10, b"worker"), (4994, b"behind")]).expect("written");
        assert_eq!(pages.read(region(10, 6)), b"worker");
        assert_eq!(twin.read(4994, 6).expect("the twin"), b"behind");
        twin.write_spare(64, b"receiver").expect("written");
        assert_eq!(imported.read(twin.spare_at() + 64, 8).expect("read"), b"receiver");
        assert!(twin.write_spare(4090, b"receiver").unwrap_err().contains("no spare bytes"));
        assert!(imported.write(&[(2 << 20, b"x")]).unwrap_err().contains("beyond"));
        drop(imported);
        drop((twin, pages));
        assert_eq!(free(), before, "memory is left behind");
    });
}

/// Where workers import slots, and a network card writes to them, too.
#[test]
fn cards_can_write_to_memory_that_is_exported() {
    let settings = [("EMULATED_CUDA_DMABUF", "1")];
    on_a_gpu("link::cards_can_write_to_memory_that_is_exported", &settings, || {
        let (twin, pages) = OnDriver::new().exportable(5000);
        let dmabuf = twin.dmabuf().expect("a dma-buf");
        let seen = SlotMemory::of_device_pages(&dmabuf.descriptor, 5000).expect("its pages");
        Imports::new(Gpu::open(0).expect("the GPU"))
            .import(twin.export().expect("exported"))
            .and_then(|imported| imported.write(&[(10, b"worker")]))
            .expect("written");
        assert_eq!(seen.read(region(dmabuf.offset_bytes + 10, 6)), b"worker");
        assert_eq!(pages.read(region(10, 6)), b"worker");
    });
}

#[test]
fn memory_of_a_gpu_that_this_process_does_not_have_is_refused_by_name() {
    let test = "link::memory_of_a_gpu_that_this_process_does_not_have_is_refused_by_name";
    on_a_gpu(test, &[], || {
        let (twin, _pages) = OnDriver::new().exportable(5000);
        let imports = Imports::new(Gpu::open(0).expect("the GPU"));
        let exported = twin.export().expect("exported");
        let other = GpuUuid(*b"MIG instance 1..");
        let refused = imports.import(ExportedWindow { gpu: other, ..exported }).unwrap_err();
        let own = GpuUuid(*b"emulated GPU 0..");
        assert!(refused.contains(&format!("go to {other}")), "{refused}");
        assert!(refused.contains(&format!("this worker has {own}")), "{refused}");
        // Not run on any GPU: the emulated driver has no such handles, and says so.
        let exported = twin.export().expect("exported");
        let fabric = WindowHandle::Fabric([1; 64]);
        let refused = imports.import(ExportedWindow { handle: fabric, ..exported }).unwrap_err();
        assert!(refused.contains("operation not supported"), "{refused}");
    });
}

const OFFER: &str = "HEADWATER_TEST_OFFER";
/// The lease that the worker of `is_killed_in_the_middle_of_a_part` has, in slot 1.
const LEASE: LeaseId = LeaseId(77);
const PART_BYTES: u64 = 3000;

/// Where the part of that lease goes.
fn place() -> PartPlace {
    PartPlace { lease: LEASE, slot: SlotId(1), regions: [region(100, PART_BYTES)].into() }
}

/// A worker of its own process, whose GPU does not do what it is asked for after the proof.
#[test]
fn is_killed_in_the_middle_of_a_part() {
    let Some(offer) = std::env::var_os(OFFER) else { return };
    let address = offer.into_encoded_bytes();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let offer = LinkOffer { kind: LinkKind::Cuda, address };
        let key = SessionKey([9; 32]);
        let link = cuda::connect(&offer, &key, &connect()).await.expect("it connects");
        let mut part = link.begin(place()).await.expect("a buffer");
        fill(&mut part, LEASE);
        link.commit(part).await.expect("nobody comes here");
    });
}

/// Starts that worker, and waits until its GPU stands still.
fn stuck_worker(offer: &LinkOffer, ghost_ms: u64) -> Child {
    let mut worker = Command::new(std::env::current_exe().expect("this program"))
        .args(["link::is_killed_in_the_middle_of_a_part", "--exact", "--nocapture"])
        .env(OFFER, String::from_utf8(offer.address.clone()).expect("a name"))
        .env("EMULATED_CUDA_GHOST_MS", ghost_ms.to_string())
        // The first write is the proof's.
        .env("EMULATED_CUDA_STANDS_STILL_AT", "2")
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("this program");
    let said = BufReader::new(worker.stderr.take().expect("a pipe"));
    let mut lines = said.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("stands still")), "it did not come so far");
    worker
}

/// The rule about the end of a socket: it does not prove that a dead worker's GPU has stopped. The slot that it had a
/// lease on is written long after `Gone`, with final bytes; the slot that takes its place is not.
#[test]
fn a_killed_workers_gpu_writes_late_and_only_to_the_slot_that_was_given_up() {
    let test = "link::a_killed_workers_gpu_writes_late_and_only_to_the_slot_that_was_given_up";
    if !is_emulated() {
        return run_again(test, &[driver()], &[]);
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let on = OnDriver::new();
        let mut world = World::new(&on).await;
        let (slot, old) = world.add_slot(8192);
        assert_eq!(slot, place().slot);
        let peer = headwater_transport::PeerId(5);
        world.receiver().admit(peer, SessionKey([9; 32]));
        world.receiver().expect(peer, place());
        let offer = world.receiver().offer(HERE);
        let mut worker = stuck_worker(&offer, 500);
        assert_eq!(world.next().await, Arrival::Connected { peer });
        worker.kill().and_then(|()| worker.wait()).expect("it is killed");
        world.gone(peer).await;
        let untouched = old.read(region(0, 8192));
        assert!(!holds(&old, &place(), LEASE), "nothing was written so far");
        // What the receiver does with a slot whose writer is gone.
        world.receiver().remove_slot(slot);
        let (_, new) = world.add_slot(8192);
        let start = Instant::now();
        while !holds(&old, &place(), LEASE) {
            assert!(start.elapsed() < Duration::from_secs(60), "its GPU has stopped");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(old.read(region(0, 100)), untouched[..100], "beside the part");
        assert_eq!(new.read(region(0, 8192)), untouched, "the new slot was written");
    });
}

/// With a receiver that does not wait long for a worker that it has dropped.
struct Impatient(OnDriver);

#[async_trait]
impl Harness for Impatient {
    async fn listen(&self, arrivals: mpsc::UnboundedSender<Arrival>) -> Arc<dyn ReceiverLink> {
        let leave_timeout = Duration::from_millis(100);
        let config = CudaListen { leave_timeout, ..CudaListen::default() };
        cuda::listen(&config, arrivals).await.expect("a socket")
    }

    async fn connect(
        &self,
        offer: &LinkOffer,
        key: &SessionKey,
    ) -> Result<Arc<dyn WorkerLink>, LinkError> {
        self.0.connect(offer, key).await
    }

    fn slot(&self, len_bytes: u64) -> Arc<SlotMemory> {
        self.0.slot(len_bytes)
    }

    fn window(&self, memory: &Arc<SlotMemory>) -> Option<Arc<dyn DeviceWindow>> {
        self.0.window(memory)
    }

    fn buffers(&self) -> Option<usize> {
        self.0.buffers()
    }
}

/// Its slot is made anew as well, so nobody has to wait until it does what it was asked for, or dies.
#[test]
fn a_worker_that_was_dropped_and_hangs_counts_as_gone() {
    let test = "link::a_worker_that_was_dropped_and_hangs_counts_as_gone";
    if !is_emulated() {
        return run_again(test, &[driver()], &[]);
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let on = Impatient(OnDriver::new());
        let mut world = World::new(&on).await;
        world.add_slot(8192);
        let peer = headwater_transport::PeerId(5);
        world.receiver().admit(peer, SessionKey([9; 32]));
        world.receiver().expect(peer, place());
        let offer = world.receiver().offer(HERE);
        let mut worker = stuck_worker(&offer, 60_000);
        assert_eq!(world.next().await, Arrival::Connected { peer });
        world.receiver().drop_peer(peer);
        world.gone(peer).await;
        assert!(worker.try_wait().expect("a child").is_none(), "it is still there");
        worker.kill().and_then(|()| worker.wait()).expect("it is killed");
    });
}
