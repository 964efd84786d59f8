// The words of CUDA for a C++ compiler, so that the text of the kernels runs on the processor. An
// emulation for tests: it says what the kernels compute, nothing about a GPU's speed, and nothing
// about the GPU's own arithmetic beyond what IEEE 754 says of the rounding modes named.
//
// The threads of a block are threads of the system, and __syncthreads is a barrier: a sanitizer for
// data races sees what a GPU's race checker would. Blocks run one after the other.
#pragma once
#include <barrier>
#include <cstddef>
#include <deque>

#include "arithmetic.h"

namespace emulation {
struct Index {
    unsigned int x = 0, y = 0, z = 0;
};
extern thread_local Index thread;
extern Index block, block_size, grid_size;
extern unsigned char* shared;
extern std::barrier<>* threads_of_block;
// Threads that ask each other: 32, or all of a smaller block.
struct Warp {
    explicit Warp(unsigned int threads) : meeting(threads) {}
    std::barrier<> meeting;
    unsigned int said[32];
};
extern std::deque<Warp> warps;
}  // namespace emulation

#define threadIdx emulation::thread
#define blockIdx emulation::block
#define blockDim emulation::block_size
#define gridDim emulation::grid_size
#define __device__ static
#define __global__
#define __constant__ static const
#define __forceinline__ inline
#define __launch_bounds__(...)
#define SHARED_BYTES(name) unsigned char* name = emulation::shared

static inline void __syncthreads() { emulation::threads_of_block->arrive_and_wait(); }

static inline void __syncwarp() {
    emulation::warps[threadIdx.x / 32].meeting.arrive_and_wait();
}

static inline unsigned int atomicOr(unsigned int* at, unsigned int value) {
    return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
}

static inline unsigned int __shfl_xor_sync(unsigned int, unsigned int value, int distance) {
    emulation::Warp& warp = emulation::warps[threadIdx.x / 32];
    warp.said[threadIdx.x % 32] = value;
    warp.meeting.arrive_and_wait();
    const unsigned int answer = warp.said[threadIdx.x % 32 ^ distance];
    warp.meeting.arrive_and_wait();
    return answer;
}
