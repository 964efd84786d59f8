// Kernels on the emulated driver.
#include "selftest.h"

#include <algorithm>

namespace {

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
extern "C" __global__ void largest_of_warp(u32* values) {
    u32 value = values[threadIdx.x];
    // Warps go round as often as they like.
    for (u32 round = 0; round <= threadIdx.x / 32; round++)
        for (int distance = 16; distance > 0; distance /= 2)
            value = max(value, __shfl_xor_sync(0xffffffffu, value, distance));
    values[threadIdx.x] = value;
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

}  // namespace

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

namespace {

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

void threads_of_a_warp_ask_each_other() {
    const CUfunction largest = kernel("largest_of_warp");
    std::vector<unsigned> values(64), found(64);
    for (unsigned i = 0; i < 64; i++) values[i] = i * 37 % 64;
    CUdeviceptr memory = device(4 * 64);
    OK(cuMemcpyHtoD_v2(memory, values.data(), 4 * 64));
    launch(largest, 1, 64, 0, nullptr, {&memory});
    OK(cuMemcpyDtoH_v2(found.data(), memory, 4 * 64));
    for (unsigned i = 0; i < 64; i++) {
        const auto first = values.begin() + i / 32 * 32;
        HOLDS(found[i] == *std::max_element(first, first + 32));
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

}  // namespace

const Scenarios KERNELS = {
    SCENARIO(kernels_run_with_shared_memory_and_barriers),
    SCENARIO(threads_of_a_warp_ask_each_other),
    SCENARIO(a_missing_barrier_shows),
    SCENARIO(nonsense_does_not_compile),
    SCENARIO(an_unknown_architecture_is_refused),
};
