//! A slot's twin on a GPU as memory that network cards write to. The GPU is CUDA's emulated driver, the
//! card is the test itself: it writes by the descriptor that a card's driver would be given.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use headwater_core::cast::Normalise;
use headwater_core::{Dtype, Region};
use headwater_cuda::{ConsumerStream, DeviceSlot, Uploader};
use headwater_transport::{DeviceWindow, SlotMemory};

use crate::emulation::{is_emulated, on_a_gpu};

const SLOT_BYTES: u64 = 9 << 20;
const DMABUF: (&str, &str) = ("EMULATED_CUDA_DMABUF", "1");
const LIMIT: Duration = Duration::from_secs(60);

fn bytes(seed: u8) -> Vec<u8> {
    (0..SLOT_BYTES as usize).map(|at| (at * at % 241) as u8 ^ seed).collect()
}

fn region(offset_bytes: u64, len_bytes: u64) -> Region {
    Region { offset_bytes, len_bytes }
}

/// A slot with these bytes, and its twin.
fn twin(host_bytes: &[u8]) -> (Arc<SlotMemory>, Arc<DeviceSlot>) {
    let uploader = Arc::new(Uploader::open(0, None).expect("the GPU"));
    uploader.check_peer_writes().expect("cards may write");
    let host = Arc::new(SlotMemory::private(SLOT_BYTES, false).expect("memory"));
    host.copy_from(region(0, SLOT_BYTES), host_bytes);
    let twin = uploader.slot(Arc::clone(&host), SLOT_BYTES + 77).expect("a twin");
    (host, Arc::new(twin))
}

/// What a card's driver makes of a twin: writes to it that the GPU's driver knows nothing of.
struct Card {
    pages: File,
    offset_bytes: u64,
}

impl Card {
    fn of(twin: &DeviceSlot) -> Self {
        let dmabuf = twin.dmabuf().expect("a descriptor");
        Self { pages: dmabuf.descriptor.into(), offset_bytes: dmabuf.offset_bytes }
    }

    fn write(&self, place: Region, bytes: &[u8]) {
        let Region { offset_bytes, len_bytes } = place;
        let bytes = &bytes[offset_bytes as usize..][..len_bytes as usize];
        self.pages.write_all_at(bytes, self.offset_bytes + offset_bytes).expect("pages");
    }
}

#[test]
fn what_a_card_wrote_stays_beside_what_is_copied() {
    on_a_gpu("twins::what_a_card_wrote_stays_beside_what_is_copied", &[DMABUF], || {
        let (from_host, from_card) = (bytes(1), bytes(2));
        let (_host, twin) = twin(&from_host);
        Card::of(&twin).write(region(0, SLOT_BYTES), &from_card);
        let copied = [region(0, 4096), region(70_001, 99), region(SLOT_BYTES - 5, 5)];
        twin.upload_beside_card(&copied, &[]).expect("an upload");
        let mut wanted = from_card;
        for Region { offset_bytes, len_bytes } in copied {
            let place = offset_bytes as usize..(offset_bytes + len_bytes) as usize;
            wanted[place.clone()].copy_from_slice(&from_host[place]);
        }
        assert!(twin.read(0, SLOT_BYTES).expect("the twin") == wanted);
        let window: &dyn DeviceWindow = twin.as_ref();
        assert_eq!(window.read(region(70_000, 101)).expect("it"), wanted[70_000..70_101]);
        let mut read = Vec::new();
        let all = region(0, SLOT_BYTES);
        twin.for_each_chunk(all, |chunk| read.extend_from_slice(chunk)).expect("the twin");
        assert!(read == wanted);
        assert!(window.read(region(SLOT_BYTES, 78)).unwrap_err().contains("beyond the window"));
    });
}

/// The thread's current context.
fn current() -> usize {
    let mut context = std::ptr::null_mut();
    // SAFETY: the place for the answer is ours.
    unsafe { cudarc::driver::sys::cuCtxGetCurrent(&mut context) }.result().expect("the driver");
    context as usize
}

/// A trainer drops the last tensor on a thread of its own, with a current GPU of its own choice, or none.
#[test]
fn a_thread_has_the_current_gpu_that_it_had_whoever_is_dropped_last() {
    on_a_gpu(
        "twins::a_thread_has_the_current_gpu_that_it_had_whoever_is_dropped_last",
        &[DMABUF],
        || {
            let (host, twin) = twin(&bytes(4));
            assert_eq!(current(), 0, "opened");
            twin.upload(&[region(0, SLOT_BYTES)], &[]).expect("an upload");
            assert_eq!(twin.read(0, 8).expect("the twin"), bytes(4)[..8]);
            drop(host);
            drop(twin);
            assert_eq!(current(), 0, "dropped");
        },
    );
}

#[test]
fn a_part_has_one_checksum_in_the_slot_and_in_its_twin() {
    on_a_gpu("twins::a_part_has_one_checksum_in_the_slot_and_in_its_twin", &[DMABUF], || {
        let from_card = bytes(3);
        let (host, twin) = twin(&bytes(0));
        Card::of(&twin).write(region(0, SLOT_BYTES), &from_card);
        host.copy_from(region(0, SLOT_BYTES), &from_card);
        let three_mib = 3 << 20;
        for (rows, regions) in [
            (1, vec![region(5, 1)]),
            (3, vec![region(SLOT_BYTES - three_mib, three_mib), region(0, 3), region(9, 300)]),
            (7, vec![region(64, 7 * 1000), region(9000, 0), region(8000, 7 * 3)]),
            // More than is copied at a time.
            (3, vec![region(0, 3 * three_mib)]),
        ] {
            let wanted = host.checksum(&regions, rows);
            assert_eq!(twin.checksum(&regions, rows).expect("it"), wanted, "{rows} {regions:?}");
        }
        Card::of(&twin).write(region(5, 1), &bytes(4));
        let wanted = host.checksum(&[region(5, 1)], 1);
        assert_ne!(twin.checksum(&[region(5, 1)], 1).expect("it"), wanted, "another byte");
    });
}

#[test]
fn a_twin_is_in_use_until_streams_have_done_what_they_were_asked_for() {
    on_a_gpu(
        "twins::a_twin_is_in_use_until_streams_have_done_what_they_were_asked_for",
        &[DMABUF],
        || {
            let (first, second) = (bytes(5), bytes(6));
            let (_host, twin) = twin(&first);
            let card = Card::of(&twin);
            assert!(twin.is_unused().expect("an answer"), "a new one");
            twin.upload(&[region(0, SLOT_BYTES)], &[]).expect("an upload");
            let consumer = consumer::Stream::new();
            // SAFETY: the stream lives as long as this test.
            let handle = unsafe { ConsumerStream::from_handle(consumer.handle()) };
            twin.hand_to(handle).expect("a stream that waits");
            let copy = consumer.copy(twin.address(), SLOT_BYTES as usize);
            twin.wait().expect("the upload");
            assert!(twin.is_uploaded().expect("an answer"));
            assert!(!twin.is_unused().expect("an answer"), "a stream still has it");
            twin.let_go();
            assert!(!twin.is_unused().expect("an answer"), "what it was asked for is not done");
            let started = Instant::now();
            consumer.finish();
            while !twin.is_unused().expect("an answer") {
                assert!(started.elapsed() < LIMIT, "the twin is never free");
            }
            card.write(region(0, SLOT_BYTES), &second);
            assert!(
                consumer.read(copy, SLOT_BYTES as usize) == first,
                "read after it was written anew"
            );
        },
    );
}

#[test]
fn nothing_here_spoils_a_graph_that_a_trainer_captures() {
    let settings = [DMABUF, ("EMULATED_CUDA_CAPTURING", "1")];
    on_a_gpu("twins::nothing_here_spoils_a_graph_that_a_trainer_captures", &settings, || {
        let from_host = bytes(10);
        let (_host, twin) = twin(&from_host);
        twin.upload_beside_card(&[region(0, SLOT_BYTES)], &[]).expect("an upload");
        while !twin.is_unused().expect("an answer") {}
        assert!(twin.read(0, SLOT_BYTES).expect("the twin") == from_host);
    });
}

#[test]
fn writes_of_cards_are_made_visible_before_they_are_read() {
    let settings = [DMABUF, ("EMULATED_CUDA_FAIL", "cuFlushGPUDirectRDMAWrites:1")];
    on_a_gpu("twins::writes_of_cards_are_made_visible_before_they_are_read", &settings, || {
        let (_host, twin) = twin(&bytes(7));
        let error = twin.upload_beside_card(&[], &[]).expect_err("a driver that fails").to_string();
        assert!(error.contains("GPU 0: see what network cards have written to it"), "{error}");
    });
}

#[test]
fn writes_of_cards_are_made_visible_before_they_are_compared() {
    let settings = [DMABUF, ("EMULATED_CUDA_FAIL", "cuFlushGPUDirectRDMAWrites:1")];
    on_a_gpu("twins::writes_of_cards_are_made_visible_before_they_are_compared", &settings, || {
        let (_host, twin) = twin(&bytes(7));
        let error = twin.checksum(&[region(0, 8)], 1).expect_err("a driver that fails").to_string();
        assert!(error.contains("GPU 0: see what network cards have written to it"), "{error}");
    });
}

#[test]
fn a_twin_whose_last_users_are_not_known_is_not_used_again() {
    // The first event is the upload's own.
    let settings = [DMABUF, ("EMULATED_CUDA_FAIL", "cuEventCreate:2:2")];
    on_a_gpu("twins::a_twin_whose_last_users_are_not_known_is_not_used_again", &settings, || {
        let (_host, twin) = twin(&bytes(9));
        twin.upload(&[region(0, SLOT_BYTES)], &[]).expect("an upload");
        twin.hand_to(ConsumerStream::LEGACY).expect("a stream that waits");
        twin.let_go();
        twin.wait().expect("the upload");
        assert!(twin.is_unused().is_err());
        assert!(twin.upload(&[region(0, SLOT_BYTES)], &[]).is_err());
    });
}

#[test]
fn a_gpu_that_takes_no_writes_of_cards_says_so() {
    on_a_gpu("twins::a_gpu_that_takes_no_writes_of_cards_says_so", &[], || {
        let uploader = Arc::new(Uploader::open(0, None).expect("the GPU"));
        let error = uploader.check_peer_writes().unwrap_err().to_string();
        assert!(error.contains("network cards") && error.contains("GPUDirect RDMA"), "{error}");
    });
}

#[test]
fn a_driver_without_dmabufs_is_named() {
    on_a_gpu("twins::a_driver_without_dmabufs_is_named", &[("EMULATED_CUDA_PEERMEM", "1")], || {
        let (_host, twin) = twin(&bytes(8));
        let reason = twin.dmabuf().map(drop).unwrap_err();
        assert!(reason.contains("no dma-buf"), "{reason}");
    });
}

/// An uploader that normalises to `dtype`.
fn normalising(dtype: Dtype) -> Arc<Uploader> {
    let normalise = Normalise { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] };
    let uploader = Uploader::open(0, None).expect("the GPU");
    Arc::new(uploader.normalising(&normalise, dtype, None).expect("a kernel"))
}

#[test]
fn a_gpu_that_copies_and_normalises_as_the_processor_does_passes_the_proof() {
    let test = "twins::a_gpu_that_copies_and_normalises_as_the_processor_does_passes_the_proof";
    on_a_gpu(test, &[], || {
        let plain = Arc::new(Uploader::open(0, None).expect("the GPU"));
        assert_eq!(plain.prove().expect("a proof"), ["copy of a slot"]);
        for dtype in [Dtype::Bf16, Dtype::F32] {
            let steps = normalising(dtype).prove().expect("a proof");
            assert_eq!(steps, ["copy of a slot", "normalise"]);
        }
    });
}

#[test]
fn a_gpu_whose_copies_are_not_what_was_sent_is_refused() {
    let test = "twins::a_gpu_whose_copies_are_not_what_was_sent_is_refused";
    on_a_gpu(test, &[("EMULATED_CUDA_CORRUPT", "1")], || {
        let uploader = Arc::new(Uploader::open(0, None).expect("the GPU"));
        let error = uploader.prove().unwrap_err().to_string();
        assert!(error.starts_with("GPU 0: its proof failed: `copy of a slot`"), "{error}");
    });
}

/// The kernel's two ways, by which planes of a whole number of words go and those of any length.
#[test]
fn a_gpu_whose_kernel_normalises_otherwise_is_refused() {
    for (name, mutation) in [
        ("fours", "third << 32=>third << 31"),
        ("bytes", "(unsigned short)own[levels[i]]=>own[levels[i]] + 1"),
    ] {
        let test = "twins::a_gpu_whose_kernel_normalises_otherwise_is_refused";
        on_a_gpu(test, &[("EMULATED_NVRTC_REPLACE", mutation)], || {
            let error = normalising(Dtype::Bf16).prove().unwrap_err().to_string();
            assert!(error.starts_with("GPU 0: its proof failed: `normalise`"), "{name}: {error}");
        });
        if is_emulated() {
            break;
        }
    }
}

/// Whoever uses batches: a stream with memory of its own.
mod consumer {
    use std::sync::Arc;

    use cudarc::driver::{CudaContext, CudaStream, result};

    pub(super) struct Stream {
        stream: Arc<CudaStream>,
    }

    impl Stream {
        pub(super) fn new() -> Self {
            let context = CudaContext::new(0).expect("the GPU");
            Self { stream: context.new_stream().expect("a stream") }
        }

        pub(super) fn handle(&self) -> u64 {
            self.stream.cu_stream() as u64
        }

        /// Asks for a copy, and gives its place.
        pub(super) fn copy(&self, from: u64, len: usize) -> u64 {
            self.stream.context().bind_to_thread().expect("a context");
            // SAFETY: the context is current; both ends have `len` bytes and outlive the test's waits.
            unsafe {
                let to = result::malloc_sync(len).expect("memory");
                result::memcpy_dtod_async(to, from, len, self.stream.cu_stream()).expect("a copy");
                to
            }
        }

        pub(super) fn finish(&self) {
            self.stream.synchronize().expect("its work");
        }

        pub(super) fn read(&self, from: u64, len: usize) -> Vec<u8> {
            self.stream.context().bind_to_thread().expect("a context");
            let mut bytes = vec![0; len];
            // SAFETY: the place has `len` bytes, whose copy has ended.
            unsafe { result::memcpy_dtoh_sync(&mut bytes, from) }.expect("a copy back");
            bytes
        }
    }
}
