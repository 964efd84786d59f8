// What all calls share: one lock, one device, its context, and how a misuse ends the process.
#pragma once
#include "../emulated/calls.h"
#include "abi.h"

namespace emulated {

// One life of the device's primary context. Never given back, so that a stale handle is known.
struct Context {
    bool released = false;
    // What every call returns since a failure.
    CUresult failed = CUDA_SUCCESS;
};

enum class Needs { Nothing, Init, Context };

extern thread_local Context* current;
// Set while the program's own function runs in the place of a stream's operation.
extern thread_local bool in_host_function;
// What the thread goes by while a graph is captured: 0 global, 1 thread-local, 2 relaxed.
extern thread_local int capture_mode;

// Whether operations are run as soon as they are asked for: EMULATED_CUDA=eager.
bool eager();
// EMULATED_CUDA_VERSION: the release that the driver says it is made for, 13000 by default;
// EMULATED_NVRTC_VERSION, 13.0 by default, that of NVRTC.
// EMULATED_CUDA_MEMORY_BYTES, 1 GiB by default.
size_t memory_bytes();
// EMULATED_CUDA_CAPABILITY, 9.0 by default; ten times the major number, and the minor one.
int capability();
bool wants_dmabuf();
// Whether other drivers can make sense of the device's addresses, as with nvidia-peermem.
bool wants_peermem();

// Checks what a call needs and whether it is made to fail; what it returns then.
CUresult enter(const char* name, Needs needs);

template <class Body>
CUresult call(const char* name, Needs needs, Body body) {
    if (in_host_function) fail("%s: called by a host function, which may make no calls", name);
    std::lock_guard guard(everything);
    const CUresult refused = enter(name, needs);
    return refused ? refused : body();
}

CUresult initialise();
// The primary context, for one more who holds it.
Context* retain();
void release();
bool is_held();
// The context of a handle, which must be alive.
Context* context_of(CUcontext handle);

}  // namespace emulated
