// The words of CUDA for a C++ compiler, put before a kernel's text by the emulated NVRTC.
#pragma once
#include "kernel_abi.h"

#include <cmath>
#include <type_traits>
#include <utility>

#include "arithmetic.h"

extern "C" {
extern EmulatedBlock emulated_block;
// The linker's names for the ends of a section; none where nothing is in it.
extern unsigned char __start_emulated_shared[] __attribute__((weak));
extern unsigned char __stop_emulated_shared[] __attribute__((weak));
}

#define threadIdx emulated_block.thread
#define blockIdx emulated_block.block
#define blockDim emulated_block.block_size
#define gridDim emulated_block.grid_size
#define __global__
#define __device__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// Blocks run one after the other: what a block shares can be a static variable, which the driver
// spoils before each of them.
#define __shared__ static __attribute__((section("emulated_shared")))
#define SHARED_BYTES(name) unsigned char* name = emulated_block.shared
#define __syncthreads() emulated_block.wait(__LINE__, false)
#define __syncwarp(...) emulated_block.wait(__LINE__, true)

template <class A, class B>
static inline std::common_type_t<A, B> min(A a, B b) {
    return b < a ? b : a;
}
template <class A, class B>
static inline std::common_type_t<A, B> max(A a, B b) {
    return a < b ? b : a;
}

// All threads of a warp take part: masks are not looked at.
namespace emulated {
inline unsigned thread_number() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
template <class T>
T shuffle(T value, unsigned from, int line) {
    static_assert(sizeof(T) <= sizeof(unsigned long long));
    __builtin_memcpy(emulated_block.said + thread_number(), &value, sizeof value);
    emulated_block.wait(line, true);
    __builtin_memcpy(&value, emulated_block.said + from, sizeof value);
    // Nobody says anything else before all have heard this.
    emulated_block.wait(line, true);
    return value;
}
}  // namespace emulated
#define __shfl_xor_sync(mask, value, distance) \
    emulated::shuffle(value, emulated::thread_number() ^ (distance), __LINE__)
#define __shfl_sync(mask, value, lane) \
    emulated::shuffle(value, (emulated::thread_number() & ~31u) | (lane), __LINE__)

// Threads take turns, and none loses its turn in the middle of these.
namespace emulated {
template <class T, class Change>
T atomically(T* at, Change change) {
    const T before = *at;
    *at = change(before);
    return before;
}
}  // namespace emulated
#define EMULATED_ATOMIC(name, changed)                                                    \
    template <class T>                                                                    \
    static inline T name(T* at, std::type_identity_t<T> value) {         \
        return emulated::atomically(at, [&](T before) { return static_cast<T>(changed); }); \
    }
EMULATED_ATOMIC(atomicAdd, before + value)
EMULATED_ATOMIC(atomicSub, before - value)
EMULATED_ATOMIC(atomicMin, value < before ? value : before)
EMULATED_ATOMIC(atomicMax, before < value ? value : before)
EMULATED_ATOMIC(atomicOr, before | value)
EMULATED_ATOMIC(atomicAnd, before & value)
EMULATED_ATOMIC(atomicExch, (void(before), value))
#undef EMULATED_ATOMIC

namespace emulated {
template <class... A, std::size_t... N>
inline void call(void (*kernel)(A...), void** arguments, std::index_sequence<N...>) {
    kernel(*static_cast<A*>(arguments[N])...);
}
template <auto kernel>
struct Entry;
template <class... A, void (*kernel)(A...)>
struct Entry<kernel> {
    static constexpr std::size_t bytes[] = {sizeof(A)..., 0};
    static void run(void** arguments) {
        call(kernel, arguments, std::index_sequence_for<A...>());
    }
    static constexpr EmulatedKernel with(unsigned threads_max) {
        return {run, bytes, sizeof...(A), threads_max};
    }
};
}  // namespace emulated
