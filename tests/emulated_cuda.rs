//! The emulated driver itself: it does things as late as CUDA permits, and stops whoever breaks its
//! contract. What the program does on it, other tests show.

use std::process::{Command, Output};

use crate::emulation;

fn run(scenario: &str, settings: &[(&str, &str)]) -> (Output, String) {
    let mut command = Command::new(emulation::cuda().join("selftest"));
    let output = command.arg(scenario).envs(settings.iter().copied()).output().expect("a program");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

#[track_caller]
fn holds(scenario: &str, settings: &[(&str, &str)]) -> String {
    let (output, said) = run(scenario, settings);
    assert!(output.status.success(), "{scenario}: {}: {said}", output.status);
    said
}

#[test]
fn operations_happen_when_somebody_waits_for_them_and_in_order() {
    for scenario in [
        "copies_happen_when_somebody_waits",
        "pageable_memory_is_read_at_once",
        "registered_memory_is_pinned",
        "events_order_streams",
        "the_legacy_stream_waits_for_blocking_ones_alone",
        "a_copy_from_pageable_memory_may_arrive_after_the_call",
        "a_destroyed_stream_does_what_it_was_asked",
        "a_thread_gets_back_the_context_it_had",
    ] {
        holds(scenario, &[]);
    }
    holds("eager_does_everything_at_once", &[("EMULATED_CUDA", "eager")]);
}

#[test]
fn kernels_run_with_shared_memory_and_barriers() {
    holds("kernels_run_with_shared_memory_and_barriers", &[]);
    holds("threads_of_a_warp_ask_each_other", &[]);
    holds("a_missing_barrier_shows", &[]);
    let said = holds("nonsense_does_not_compile", &[]);
    assert!(said.contains("selftest.cu:1:34: error"), "{said}");
    let said = holds("an_unknown_architecture_is_refused", &[]);
    assert!(said.contains("nvrtc: 5 nvrtc: error: invalid value for --gpu-architecture"), "{said}");
}

#[test]
fn memory_is_bounded_and_failures_last() {
    holds("memory_ends_where_it_is_told_to", &[("EMULATED_CUDA_MEMORY_BYTES", "10000")]);
    holds("pages_can_be_handed_on", &[("EMULATED_CUDA_DMABUF", "1")]);
    let settings = [("EMULATED_CUDA_FAIL", "cuMemsetD8Async:2"), ("EMULATED_CUDA_TALLY", "1")];
    let said = holds("a_failure_lasts_until_the_context_is_released", &settings);
    let left = "1 device allocations, 0 pinned, 1 streams, 0 events, 1 unfinished operations";
    assert!(said.contains(&format!("at the context's release: {left}")), "{said}");
}

#[test]
fn memory_is_shared_between_processes_and_a_killed_ones_gpu_is_late() {
    for scenario in [
        "memory_is_shared_with_whoever_imports_it",
        "bytes_are_the_devices_until_the_last_mapping_is_gone",
        "a_ghost_writes_late_what_was_queued",
    ] {
        holds(scenario, &[]);
    }
}

#[test]
fn misuse_ends_the_process_and_is_named() {
    for (scenario, named) in [
        ("no_context", "cuMemAlloc: this thread has no current context"),
        ("beyond_an_allocation", "4096 bytes from byte 1 on of an allocation of 4096"),
        ("not_the_devices", "is no device memory"),
        ("freed_twice", "is no allocation, or freed before"),
        ("freed_in_use", "cuMemFree: 1 unfinished operations use"),
        ("freed_under_a_kernel", "cuMemFree: 1 unfinished operations use"),
        ("unpinned_in_use", "cuMemFreeHost: 1 unfinished operations use"),
        ("unregistered_in_use", "cuMemHostUnregister: 1 unfinished operations use"),
        ("registered_twice", "are pinned already, or some of them"),
        ("unmapped_while_registered", "was unmapped while it was registered"),
        ("partly_pinned", "only the beginning of 4096 bytes"),
        ("a_stream_after_its_end", "is no stream, or destroyed before"),
        ("an_event_after_its_end", "is no event, or destroyed before"),
        ("a_host_function_that_calls", "called by a host function"),
        ("mapped_without_access", "no access was given to"),
        ("mapped_after_release", "cuMemMap: 0x7001 is no handle, or released before"),
        ("unmapped_in_use", "cuMemUnmap: 1 unfinished operations use"),
        ("freed_though_mapped", "is no allocation, or freed before"),
        ("too_many_threads", "reverse with blocks of 257 x 1 x 1 threads"),
        ("too_much_shared_memory", "reverse with 49153 bytes of shared memory"),
        (
            "threads_that_part",
            "diverge: 1 of 4 threads of a block end or wait elsewhere while the others wait",
        ),
        ("a_kernel_beyond_memory", "write_at: block 0,0,0 thread 0,0,0 touched"),
        ("a_kernel_slightly_beyond_memory", "byte 100 of an allocation of 100 was written"),
    ] {
        let (output, said) = run(scenario, &[]);
        assert!(!output.status.success(), "{scenario} went by");
        assert!(said.contains("emulated CUDA: ") && said.contains(named), "{scenario}: {said}");
    }
    let (output, _) = run("a_device_pointer_on_the_host", &[]);
    assert!(!output.status.success(), "the host can follow a device pointer");
}
