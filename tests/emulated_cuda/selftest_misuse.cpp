// What breaks CUDA's contract: each of these is ended by the driver, which says what was wrong.
#include "selftest.h"

namespace {

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

}  // namespace

const Scenarios MISUSE = {
    SCENARIO(no_context),
    SCENARIO(beyond_an_allocation),
    SCENARIO(not_the_devices),
    SCENARIO(freed_twice),
    SCENARIO(freed_in_use),
    SCENARIO(freed_under_a_kernel),
    SCENARIO(unpinned_in_use),
    SCENARIO(unregistered_in_use),
    SCENARIO(registered_twice),
    SCENARIO(unmapped_while_registered),
    SCENARIO(partly_pinned),
    SCENARIO(a_stream_after_its_end),
    SCENARIO(an_event_after_its_end),
    SCENARIO(a_host_function_that_calls),
    SCENARIO(too_many_threads),
    SCENARIO(too_much_shared_memory),
    SCENARIO(threads_that_part),
    SCENARIO(a_kernel_beyond_memory),
    SCENARIO(a_kernel_slightly_beyond_memory),
    SCENARIO(a_device_pointer_on_the_host),
};
