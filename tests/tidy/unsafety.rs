//! Where unsafe code may be.

use crate::tree::{code, files, read, root};

/// Files that hold unsafe code, each with why it cannot do without.
const ROOMS: [(&str, &str); 66] = [
    ("libs/core/tests/allocations.rs", "an allocator that counts"),
    ("libs/render/tests/allocations.rs", "an allocator that counts"),
    ("libs/render-cuda/src/memory.rs", "memory from the GPU's driver"),
    ("libs/render-cuda/src/nvjpeg/budget.rs", "nvJPEG asks it for memory"),
    ("libs/render-cuda/src/nvjpeg/engine.rs", "nvJPEG is C"),
    ("libs/render-cuda/src/nvjpeg/fake.rs", "stands in for that library in tests"),
    ("libs/render-cuda/src/nvjpeg/handle.rs", "nvJPEG is C"),
    ("libs/render-cuda/src/nvjpeg/kernels.rs", "nvJPEG is C"),
    ("libs/render-cuda/src/nvjpeg/library.rs", "looks that library's functions up"),
    ("libs/render-cuda/src/stream.rs", "the GPU's driver is C"),
    ("libs/render/src/decode/heap.rs", "tells C's allocator its thresholds"),
    ("libs/render/src/decode/libwebp.rs", "the WebP library is C"),
    ("libs/render/src/decode/turbo.rs", "the JPEG library is C"),
    ("libs/pixels/src/ops/level.rs", "rounds what is known to be in range"),
    ("libs/pixels/src/ops/resize/rearrange.rs", "vectors of several instruction sets"),
    ("libs/cuda/src/nvrtc.rs", "NVRTC is C"),
    ("libs/cuda/src/libraries.rs", "asks the GPU's driver for its version"),
    ("libs/cuda/src/current.rs", "the GPU's driver is C"),
    ("libs/cuda/src/device_slot.rs", "copies to a GPU on its own"),
    ("libs/cuda/src/device_slot/window.rs", "vouches for a twin's memory"),
    ("libs/cuda/src/event.rs", "the GPU's driver is C"),
    ("libs/cuda/src/expander.rs", "launches a kernel"),
    ("libs/cuda/src/exportable.rs", "descriptors of a GPU's memory"),
    ("libs/cuda/src/gpu.rs", "the GPU's driver is C"),
    ("libs/cuda/src/imports.rs", "memory of another process's GPU"),
    ("libs/cuda/src/mapped.rs", "maps memory of a GPU"),
    ("libs/cuda/src/host_pins.rs", "the GPU's driver is C"),
    ("libs/cuda/src/memory.rs", "memory of a GPU"),
    ("libs/cuda/src/peer_writes.rs", "descriptors of a GPU's memory"),
    ("libs/cuda/src/pinned.rs", "memory from the GPU's driver"),
    ("libs/cuda/src/reader.rs", "copies from a GPU"),
    ("libs/cuda/tests/twins.rs", "copies on a stream of its own"),
    ("libs/dylib/src/open.rs", "opens libraries"),
    ("libs/dylib/src/signals.rs", "puts signal handlers back"),
    ("libs/dylib/src/table.rs", "looks functions up by name"),
    ("libs/dylib/tests/broken_libraries.rs", "calls libraries of its own"),
    ("libs/inventory/src/library.rs", "calls libraries"),
    ("libs/part-rows/src/device.rs", "memory that a device writes to"),
    ("libs/transport/src/memory/mapping.rs", "mmap and munmap"),
    ("libs/transport/src/memory/part.rs", "rendering memory as slices"),
    ("libs/transport/src/memory/part/device.rs", "a device of tests"),
    ("libs/transport/src/memory/part/rows.rs", "rows of one part on several threads"),
    ("libs/transport/src/links/ucx/abi.rs", "functions of UCX, which is C"),
    ("libs/transport/src/links/ucx/context.rs", "UCX's context and registrations"),
    ("libs/transport/src/links/ucx/library.rs", "asks UCX for its version"),
    ("libs/transport/src/links/ucx/port.rs", "UCX's workers and endpoints"),
    ("libs/transport/src/links/ucx/threads.rs", "is called when the process exits"),
    ("libs/transport/src/links/rdma/lane.rs", "posts memory that it owns"),
    ("libs/transport/src/links/rdma/verbs/abi.rs", "types of a C library's functions"),
    ("libs/transport/src/links/rdma/verbs/completion.rs", "completion queues of a C library"),
    ("libs/transport/src/links/rdma/verbs/device.rs", "devices of a C library"),
    ("libs/transport/src/links/rdma/verbs/library.rs", "looks that library's functions up"),
    ("libs/transport/src/links/rdma/verbs/memory.rs", "memory that a network card reaches"),
    ("libs/transport/src/links/rdma/verbs/queue_pair.rs", "queue pairs of a C library"),
    ("libs/transport/src/links/rdma/detection.rs", "a window of tests"),
    ("libs/transport/src/memory/slot.rs", "slot memory by address"),
    ("libs/transport/src/packets.rs", "descriptors from a socket"),
    ("libs/transport/src/peer.rs", "who is at the other end of a socket, read raw"),
    ("libs/transport/src/memory/window.rs", "what a GPU's memory must be"),
    ("libs/transport/src/conformance/window.rs", "vouches for memory in a suite of tests"),
    ("libs/render-cuda/benches/beside_gpu.rs", "pins nothing"),
    ("src/environment.rs", "sets a variable before there are threads"),
    ("src/publish/nodrop.rs", "an option of ZeroMQ's, which is C"),
    ("src/bench/storage/map.rs", "mmap and munmap, for a yardstick"),
    ("gpu-receiver/python/src/device.rs", "memory and streams that Python vouches for"),
    ("gpu-receiver/python/src/dlpack.rs", "DLPack is a C structure"),
];
/// Files of one instruction set or device, anywhere in the operations and the JPEG decoder.
const TWINS: [&str; 6] = ["x86.rs", "sse41.rs", "avx2.rs", "avx512.rs", "neon.rs", "cuda.rs"];
const LIST: &str = "tests/tidy/unsafety.rs";
/// Maximum lines from a note to what it is about.
const NOTE_LINES: usize = 12;

/// Unsafe code in other files, or without a note; crates that do not shut it out.
pub(crate) fn breaches() -> Vec<String> {
    let mut breaches = Vec::new();
    for (path, _) in ROOMS {
        if !root().join(path).exists() {
            breaches.push(format!("{path} is gone: take it off the list in {LIST}"));
        }
    }
    for path in files(&[".rs"]) {
        let code = code(&path);
        let mut blocks = (0..code.len()).filter(|at| is_unsafe(&code[*at])).peekable();
        if blocks.peek().is_some() && !is_room(&path) {
            breaches
                .push(format!("{path} has unsafe code: it lives in the files that {LIST} names"));
            continue;
        }
        let text = read(&path);
        let lines: Vec<&str> = text.lines().collect();
        let noted = |at: usize| {
            let above = &lines[at.saturating_sub(NOTE_LINES)..=at];
            above.iter().any(|line| line.contains("SAFETY") || line.contains("# Safety"))
        };
        for at in blocks.filter(|at| needs_note(&code[*at]) && !noted(*at)) {
            breaches.push(format!("{path}:{}: no SAFETY note that could be proved wrong", at + 1));
        }
    }
    breaches.extend(open_crates());
    breaches
}

fn open_crates() -> Vec<String> {
    let heads = files(&["lib.rs", "src/main.rs"]).into_iter();
    let open = heads.filter(|path| {
        let text = read(path);
        !text.contains("#![forbid(unsafe_code)]") && !text.contains("#![deny(unsafe_code)]")
    });
    open.map(|path| format!("{path}: forbid unsafe_code, or deny it and name the rooms")).collect()
}

fn is_room(path: &str) -> bool {
    let twin = ["libs/jpeg/", "libs/pixels/"].iter().any(|folder| path.starts_with(folder))
        && TWINS.iter().any(|name| path.ends_with(&format!("/{name}")));
    twin || path.starts_with("libs/simd/src/") || ROOMS.iter().any(|(room, _)| *room == path)
}

/// A block, function, impl or trait; the names of lints hold the word too.
fn is_unsafe(line: &str) -> bool {
    let forms = ["unsafe fn", "unsafe trait", "unsafe extern"];
    needs_note(line) || forms.iter().any(|form| line.contains(form))
}

/// What claims that a promise is kept. A function that asks for one says so in its own words.
fn needs_note(line: &str) -> bool {
    line.contains("unsafe {") || line.contains("unsafe impl")
}
