// The emulated driver by itself: selftest SCENARIO. Ends with 0 where the scenario holds; those of
// misuse are ended by the driver, which says what was wrong.
#include "selftest.h"

namespace {

void copies_happen_when_somebody_waits() {
    const CUdeviceptr memory = device();
    const CUstream on = stream();
    unsigned char* source = pinned();
    std::memset(source, 1, BYTES);
    HOLDS(first(memory) == 0xa5);
    OK(cuMemcpyHtoDAsync_v2(memory, source, BYTES, on));
    HOLDS(emulated_cuda_pending() == 1 && first(memory) == 0xa5);
    // The copy reads pinned memory when it runs.
    std::memset(source, 2, BYTES);
    OK(cuStreamSynchronize(on));
    HOLDS(emulated_cuda_pending() == 0 && first(memory) == 2);
    OK(cuMemsetD8Async(memory, 3, BYTES, on));
    unsigned char* target = pinned();
    target[0] = 9;
    OK(cuMemcpyDtoHAsync_v2(target, memory, BYTES, on));
    HOLDS(target[0] == 9);
    OK(cuCtxSynchronize());
    HOLDS(target[0] == 3);
}

void pageable_memory_is_read_at_once() {
    const CUdeviceptr memory = device();
    const CUstream on = stream();
    std::vector<unsigned char> source(BYTES, 1);
    OK(cuMemcpyHtoDAsync_v2(memory, source.data(), BYTES, on));
    source[0] = 2;
    HOLDS(first(memory) == 0xa5);
    OK(cuStreamSynchronize(on));
    HOLDS(first(memory) == 1);
    OK(cuMemsetD8Async(memory, 3, BYTES, on));
    OK(cuMemcpyDtoHAsync_v2(source.data(), memory, BYTES, on));
    HOLDS(source[0] == 3);
}

void registered_memory_is_pinned() {
    std::vector<unsigned char> source(BYTES, 1);
    OK(cuMemHostRegister_v2(source.data(), BYTES, 0));
    const CUdeviceptr memory = device();
    const CUstream on = stream();
    OK(cuMemcpyHtoDAsync_v2(memory, source.data(), BYTES, on));
    source[0] = 2;
    OK(cuStreamSynchronize(on));
    HOLDS(first(memory) == 2);
    OK(cuMemHostUnregister(source.data()));
}

void events_order_streams() {
    const CUdeviceptr memory = device();
    const CUstream one = stream(), other = stream();
    const CUevent between = event(), end = event();
    OK(cuMemsetD8Async(memory, 1, BYTES, one));
    OK(cuEventRecord(between, one));
    OK(cuMemsetD8Async(memory, 7, BYTES, one));
    OK(cuStreamWaitEvent(other, between, 0));
    unsigned char* target = pinned();
    OK(cuMemcpyDtoHAsync_v2(target, memory, BYTES, other));
    OK(cuEventRecord(end, other));
    HOLDS(cuEventQuery(end) == CUDA_ERROR_NOT_READY);
    HOLDS(first(memory) == 1);
    float ms = -1;
    HOLDS(cuEventElapsedTime_v2(&ms, between, end) == CUDA_ERROR_NOT_READY);
    // One step each, so that who asks often enough comes to an end.
    int asked = 0;
    while (cuEventQuery(end) == CUDA_ERROR_NOT_READY) asked++;
    HOLDS(asked > 0 && asked < 10 && target[0] == 1);
    OK(cuEventElapsedTime_v2(&ms, between, end));
    HOLDS(ms > 0);
    // What came after the event has not run.
    HOLDS(first(memory) == 1 && emulated_cuda_pending() == 1);
}

void the_legacy_stream_waits_for_blocking_ones_alone() {
    const CUdeviceptr blocking = device(), apart = device(), memory = device();
    const CUstream one = stream(0), other = stream();
    OK(cuMemsetD8Async(blocking, 1, BYTES, one));
    OK(cuMemsetD8Async(apart, 2, BYTES, other));
    OK(cuMemsetD8Async(memory, 3, BYTES, nullptr));
    OK(cuMemsetD8Async(blocking, 4, BYTES, one));
    OK(cuStreamSynchronize(nullptr));
    HOLDS(first(blocking) == 1 && first(memory) == 3 && first(apart) == 0xa5);
    OK(cuMemsetD8Async(memory, 5, BYTES, nullptr));
    OK(cuMemsetD8Async(blocking, 6, BYTES, one));
    OK(cuStreamSynchronize(one));
    HOLDS(first(memory) == 5 && first(blocking) == 6 && first(apart) == 0xa5);
}

void a_copy_from_pageable_memory_may_arrive_after_the_call() {
    const CUdeviceptr memory = device();
    const unsigned char source[] = {1, 2, 3};
    OK(cuMemcpyHtoD_v2(memory, source, sizeof source));
    HOLDS(first(memory) == 0xa5);
    unsigned char target[3];
    OK(cuMemcpyDtoH_v2(target, memory, sizeof target));
    HOLDS(!std::memcmp(source, target, sizeof source));
}

void a_destroyed_stream_does_what_it_was_asked() {
    const CUdeviceptr memory = device();
    const CUstream on = stream();
    OK(cuMemsetD8Async(memory, 1, BYTES, on));
    OK(cuStreamDestroy_v2(on));
    HOLDS(first(memory) == 0xa5);
    OK(cuCtxSynchronize());
    HOLDS(first(memory) == 1);
}

void eager_does_everything_at_once() {
    const CUdeviceptr memory = device();
    OK(cuMemsetD8Async(memory, 1, BYTES, stream()));
    HOLDS(first(memory) == 1 && emulated_cuda_pending() == 0);
}

void memory_ends_where_it_is_told_to() {
    size_t left, total;
    OK(cuMemGetInfo_v2(&left, &total));
    HOLDS(left == 10000 && total == 10000);
    const CUdeviceptr memory = device(9000);
    CUdeviceptr more = 0;
    HOLDS(cuMemAlloc_v2(&more, 1001) == CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFree_v2(memory));
    OK(cuMemAlloc_v2(&more, 10000));
}

void a_failure_lasts_until_the_context_is_released() {
    const CUdeviceptr memory = device();
    const CUstream on = stream();
    OK(cuMemsetD8Async(memory, 1, BYTES, on));
    HOLDS(cuMemsetD8Async(memory, 2, BYTES, on) == CUDA_ERROR_LAUNCH_FAILED);
    HOLDS(cuStreamSynchronize(on) == CUDA_ERROR_LAUNCH_FAILED);
    HOLDS(cuMemFree_v2(memory) == CUDA_ERROR_LAUNCH_FAILED);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    start();
    OK(cuMemsetD8Async(device(), 2, BYTES, stream()));
}

void pages_can_be_handed_on() {
    const CUdeviceptr memory = device(2 * BYTES);
    int descriptor = -1;
    OK(cuMemGetHandleForAddressRange(&descriptor, memory, 2 * BYTES, 1, 0));
    void* mapped =
        mmap(nullptr, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    HOLDS(mapped != MAP_FAILED);
    std::memset(mapped, 4, BYTES);
    HOLDS(first(memory) == 4);
}

void a_thread_gets_back_the_context_it_had() {
    CUcontext context, found;
    OK(cuCtxGetCurrent(&context));
    std::thread([&] {
        OK(cuCtxPushCurrent_v2(context));
        device();
        OK(cuCtxPopCurrent_v2(&found));
        HOLDS(found == context);
        OK(cuCtxGetCurrent(&found));
        HOLDS(found == nullptr);
    }).join();
    device();
}

const Scenarios ORDER = {
    SCENARIO(copies_happen_when_somebody_waits),
    SCENARIO(pageable_memory_is_read_at_once),
    SCENARIO(registered_memory_is_pinned),
    SCENARIO(events_order_streams),
    SCENARIO(the_legacy_stream_waits_for_blocking_ones_alone),
    SCENARIO(a_copy_from_pageable_memory_may_arrive_after_the_call),
    SCENARIO(a_destroyed_stream_does_what_it_was_asked),
    SCENARIO(eager_does_everything_at_once),
    SCENARIO(memory_ends_where_it_is_told_to),
    SCENARIO(a_failure_lasts_until_the_context_is_released),
    SCENARIO(pages_can_be_handed_on),
    SCENARIO(a_thread_gets_back_the_context_it_had),
};

}  // namespace

int main(int count, char** words) {
    return run_scenario(count, words, {&ORDER, &KERNELS, &MISUSE, &SHARING}, start);
}
