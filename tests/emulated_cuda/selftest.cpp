// The emulated driver by itself: selftest SCENARIO. Ends with 0 where the scenario holds; those of
// misuse are ended by the driver, which says what was wrong.
#include "abi.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

extern "C" {
CUresult cuInit(unsigned);
CUresult cuDevicePrimaryCtxRetain(CUcontext*, CUdevice);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuCtxSynchronize();
CUresult cuMemAlloc_v2(CUdeviceptr*, size_t);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemGetInfo_v2(size_t*, size_t*);
CUresult cuMemHostAlloc(void**, size_t, unsigned);
CUresult cuMemFreeHost(void*);
CUresult cuMemHostRegister_v2(void*, size_t, unsigned);
CUresult cuMemHostUnregister(void*);
CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void*, size_t);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr, const void*, size_t, CUstream);
CUresult cuMemcpyDtoH_v2(void*, CUdeviceptr, size_t);
CUresult cuMemcpyDtoHAsync_v2(void*, CUdeviceptr, size_t, CUstream);
CUresult cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, CUstream);
CUresult cuMemGetHandleForAddressRange(void*, CUdeviceptr, size_t, int, unsigned long long);
CUresult cuStreamCreate(CUstream*, unsigned);
CUresult cuStreamDestroy_v2(CUstream);
CUresult cuStreamSynchronize(CUstream);
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned);
CUresult cuLaunchHostFunc(CUstream, void (*)(void*), void*);
CUresult cuEventCreate(CUevent*, unsigned);
CUresult cuEventDestroy_v2(CUevent);
CUresult cuEventRecord(CUevent, CUstream);
CUresult cuEventSynchronize(CUevent);
CUresult cuEventQuery(CUevent);
CUresult cuEventElapsedTime_v2(float*, CUevent, CUevent);
CUresult cuModuleLoadData(CUmodule*, const void*);
CUresult cuModuleGetFunction(CUfunction*, CUmodule, const char*);
CUresult cuFuncSetAttribute(CUfunction, int, int);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        CUstream, void**, void**);
int emulated_cuda_peek(CUdeviceptr, void*, size_t);
size_t emulated_cuda_pending();
int nvrtcCreateProgram(void**, const char*, const char*, int, const char* const*,
                       const char* const*);
int nvrtcCompileProgram(void*, int, const char* const*);
int nvrtcGetProgramLogSize(void*, size_t*);
int nvrtcGetProgramLog(void*, char*);
int nvrtcGetCUBINSize(void*, size_t*);
int nvrtcGetCUBIN(void*, char*);
}

namespace {

const size_t BYTES = 4096;

#define HOLDS(condition)                                                               \
    if (!(condition)) {                                                                \
        std::fprintf(stderr, "selftest: line %d: not %s\n", __LINE__, #condition);     \
        std::exit(1);                                                                  \
    }
#define OK(call) HOLDS((call) == CUDA_SUCCESS)

void start() {
    OK(cuInit(0));
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
}

CUdeviceptr device(size_t bytes = BYTES) {
    CUdeviceptr memory = 0;
    OK(cuMemAlloc_v2(&memory, bytes));
    return memory;
}

unsigned char* pinned(size_t bytes = BYTES) {
    void* memory;
    OK(cuMemHostAlloc(&memory, bytes, 0));
    return static_cast<unsigned char*>(memory);
}

CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream made;
    OK(cuStreamCreate(&made, flags));
    return made;
}

CUevent event() {
    CUevent made;
    OK(cuEventCreate(&made, 0));
    return made;
}

// The first byte as it is now.
int first(CUdeviceptr memory) {
    unsigned char byte;
    HOLDS(emulated_cuda_peek(memory, &byte, 1) == 0);
    return byte;
}

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

// === kernels ===

const char* const SOURCE = R"(
typedef unsigned int u32;
struct Scale { u32 by; __device__ u32 of(u32 value) const { return by * value; } };
extern "C" __global__ void __launch_bounds__(256, 2)
reverse(const u32* from, u32* to, u32 count, Scale scale) {
    extern __shared__ __align__(16) u32 tile[];
    __shared__ u32 largest;
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) largest = 0;
    tile[threadIdx.x] = i < count ? from[i] : 0;
    __syncthreads();
    atomicMax(&largest, tile[threadIdx.x]);
    __syncthreads();
    if (i < count) to[i] = scale.of(tile[blockDim.x - 1 - threadIdx.x]) + largest;
}
extern "C" __global__ void diverge(u32* to) {
    if (threadIdx.x == 0) return;
    __syncthreads();
    to[threadIdx.x] = 1;
}
extern "C" __global__ void races(u32* to) {
    extern __shared__ u32 tile[];
    tile[threadIdx.x] = threadIdx.x + 1;
    to[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void write_at(u32* to, unsigned long long at) { to[at] = 1; }
)";

std::vector<char> compiled(const char* source, const char* option) {
    void* program;
    HOLDS(nvrtcCreateProgram(&program, source, "selftest.cu", 0, nullptr, nullptr) == 0);
    const int status = nvrtcCompileProgram(program, 1, &option);
    size_t bytes;
    HOLDS(nvrtcGetProgramLogSize(program, &bytes) == 0);
    std::vector<char> log(bytes);
    HOLDS(nvrtcGetProgramLog(program, log.data()) == 0);
    std::fprintf(stderr, "nvrtc: %d %s\n", status, log.data());
    if (status) std::exit(0);
    HOLDS(nvrtcGetCUBINSize(program, &bytes) == 0);
    std::vector<char> image(bytes);
    HOLDS(nvrtcGetCUBIN(program, image.data()) == 0);
    return image;
}

CUfunction kernel(const char* name) {
    CUmodule module;
    OK(cuModuleLoadData(&module, compiled(SOURCE, "--gpu-architecture=sm_90").data()));
    CUfunction found;
    OK(cuModuleGetFunction(&found, module, name));
    return found;
}

void launch(CUfunction kernel, unsigned blocks, unsigned threads, size_t shared_bytes, CUstream on,
            std::vector<void*> arguments) {
    OK(cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, shared_bytes, on, arguments.data(),
                      nullptr));
}

void kernels_run_with_shared_memory_and_barriers() {
    const CUfunction reverse = kernel("reverse");
    const unsigned threads = 64;
    unsigned count = 3 * threads - 5, by = 10;
    std::vector<unsigned> values(count);
    for (unsigned i = 0; i < count; i++) values[i] = i + 1;
    CUdeviceptr from = device(4 * count), to = device(4 * count);
    const CUstream on = stream();
    OK(cuMemcpyHtoDAsync_v2(from, values.data(), 4 * count, on));
    launch(reverse, 3, threads, 4 * threads, on, {&from, &to, &count, &by});
    HOLDS(emulated_cuda_pending() == 2);
    std::vector<unsigned> found(count);
    OK(cuMemcpyDtoHAsync_v2(found.data(), to, 4 * count, on));
    for (unsigned i = 0; i < count; i++) {
        const unsigned block = i / threads, mirrored = block * threads + threads - 1 - i % threads;
        const unsigned value = mirrored < count ? values[mirrored] : 0;
        const unsigned last = std::min((block + 1) * threads, count);
        HOLDS(found[i] == by * value + last);
    }
}

void a_missing_barrier_shows() {
    const CUfunction races = kernel("races");
    CUdeviceptr to = device();
    launch(races, 1, 4, 16, nullptr, {&to});
    unsigned found[4];
    OK(cuMemcpyDtoH_v2(found, to, sizeof found));
    HOLDS(found[0] == 0xa5a5a5a5 && found[3] == 1);
}

void nonsense_does_not_compile() { compiled("extern \"C\" __global__ void f() { x; }", "-arch=sm_90"); }
void an_unknown_architecture_is_refused() { compiled(SOURCE, "--gpu-architecture=sm_1"); }

// === misuse ===

void no_context() {
    start();
    std::thread([] { device(); }).join();
}
void beyond_an_allocation() { OK(cuMemsetD8Async(device() + 1, 0, BYTES, nullptr)); }
void not_the_devices() {
    OK(cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(pinned()), 0, 1, nullptr));
}
void freed_twice() {
    const CUdeviceptr memory = device();
    OK(cuMemFree_v2(memory));
    cuMemFree_v2(memory);
}
void freed_in_use() {
    const CUdeviceptr memory = device();
    OK(cuMemsetD8Async(memory, 0, BYTES, nullptr));
    cuMemFree_v2(memory);
}
void freed_under_a_kernel() {
    const CUfunction write_at = kernel("write_at");
    CUdeviceptr memory = device();
    unsigned long long at = 0;
    launch(write_at, 1, 1, 0, stream(), {&memory, &at});
    cuMemFree_v2(memory);
}
void unpinned_in_use() {
    unsigned char* source = pinned();
    OK(cuMemcpyHtoDAsync_v2(device(), source, BYTES, nullptr));
    cuMemFreeHost(source);
}
void unregistered_in_use() {
    std::vector<unsigned char> source(BYTES);
    OK(cuMemHostRegister_v2(source.data(), BYTES, 0));
    OK(cuMemcpyHtoDAsync_v2(device(), source.data(), BYTES, nullptr));
    cuMemHostUnregister(source.data());
}
void registered_twice() {
    std::vector<unsigned char> source(BYTES);
    OK(cuMemHostRegister_v2(source.data(), BYTES, 0));
    cuMemHostRegister_v2(source.data() + BYTES - 1, 1, 0);
}
void unmapped_while_registered() {
    void* mapped =
        mmap(nullptr, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    OK(cuMemHostRegister_v2(mapped, BYTES, 0));
    munmap(mapped, BYTES);
    cuMemHostUnregister(mapped);
}
void partly_pinned() {
    std::vector<unsigned char> source(BYTES);
    OK(cuMemHostRegister_v2(source.data(), BYTES / 2, 0));
    cuMemcpyHtoDAsync_v2(device(), source.data(), BYTES, nullptr);
}
void a_stream_after_its_end() {
    const CUstream on = stream();
    OK(cuStreamDestroy_v2(on));
    cuStreamSynchronize(on);
}
void an_event_after_its_end() {
    const CUevent made = event();
    OK(cuEventDestroy_v2(made));
    cuEventQuery(made);
}
void a_host_function_that_calls() {
    OK(cuLaunchHostFunc(nullptr, [](void*) { cuCtxSynchronize(); }, nullptr));
    cuCtxSynchronize();
}
void too_many_threads() { launch(kernel("reverse"), 1, 257, 0, nullptr, {}); }
void too_much_shared_memory() { launch(kernel("reverse"), 1, 32, 49153, nullptr, {}); }
void threads_that_part() {
    CUdeviceptr to = device();
    launch(kernel("diverge"), 1, 4, 0, nullptr, {&to});
    cuCtxSynchronize();
}
void a_kernel_beyond_memory() {
    CUdeviceptr to = device();
    unsigned long long at = 1 << 10;
    launch(kernel("write_at"), 1, 1, 0, nullptr, {&to, &at});
    cuCtxSynchronize();
}
void a_kernel_slightly_beyond_memory() {
    CUdeviceptr to = device(100);
    unsigned long long at = 25;
    launch(kernel("write_at"), 1, 1, 0, nullptr, {&to, &at});
    OK(cuCtxSynchronize());
    cuMemFree_v2(to);
}
void a_device_pointer_on_the_host() { *reinterpret_cast<volatile char*>(device()) = 1; }

#define SCENARIO(name) {#name, name}
const std::map<std::string, std::function<void()>> SCENARIOS = {
    SCENARIO(copies_happen_when_somebody_waits), SCENARIO(pageable_memory_is_read_at_once),
    SCENARIO(registered_memory_is_pinned), SCENARIO(events_order_streams),
    SCENARIO(the_legacy_stream_waits_for_blocking_ones_alone),
    SCENARIO(a_copy_from_pageable_memory_may_arrive_after_the_call),
    SCENARIO(a_destroyed_stream_does_what_it_was_asked), SCENARIO(eager_does_everything_at_once),
    SCENARIO(memory_ends_where_it_is_told_to),
    SCENARIO(a_failure_lasts_until_the_context_is_released), SCENARIO(pages_can_be_handed_on),
    SCENARIO(kernels_run_with_shared_memory_and_barriers), SCENARIO(a_missing_barrier_shows),
    SCENARIO(nonsense_does_not_compile), SCENARIO(an_unknown_architecture_is_refused),
    SCENARIO(no_context), SCENARIO(beyond_an_allocation), SCENARIO(not_the_devices),
    SCENARIO(freed_twice), SCENARIO(freed_in_use), SCENARIO(freed_under_a_kernel),
    SCENARIO(unpinned_in_use), SCENARIO(unregistered_in_use), SCENARIO(registered_twice),
    SCENARIO(unmapped_while_registered), SCENARIO(partly_pinned), SCENARIO(a_stream_after_its_end),
    SCENARIO(an_event_after_its_end), SCENARIO(a_host_function_that_calls),
    SCENARIO(too_many_threads), SCENARIO(too_much_shared_memory), SCENARIO(threads_that_part),
    SCENARIO(a_kernel_beyond_memory), SCENARIO(a_kernel_slightly_beyond_memory),
    SCENARIO(a_device_pointer_on_the_host),
};

}  // namespace

int main(int count, char** words) {
    const auto found = SCENARIOS.find(count == 2 ? words[1] : "");
    if (found == SCENARIOS.end()) {
        std::fprintf(stderr, "selftest: no such scenario\n");
        return 2;
    }
    start();
    found->second();
}
