#include "state.h"

#include "ghost.h"
#include "handles.h"
#include "memory.h"
#include "modules.h"
#include "streams.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace emulated {

const char* const EMULATION = "CUDA";
thread_local Context* current = nullptr;
thread_local bool in_host_function = false;
thread_local int capture_mode = 0;

namespace {

bool initialised = false;
std::vector<std::unique_ptr<Context>> contexts;
unsigned holders = 0;

// Errors of this kind leave the context unusable.
bool is_sticky(CUresult error) { return error >= CUDA_ERROR_ILLEGAL_ADDRESS && error < 800; }

void print_tally(const char* when) {
    if (!setting("EMULATED_CUDA_TALLY")) return;
    const MemoryTally memory = memory_tally();
    const StreamTally streams = stream_tally();
    std::fprintf(stderr,
                 "emulated CUDA: %s: %zu device allocations, %zu pinned, %zu streams, %zu events, "
                 "%zu unfinished operations\n",
                 when, memory.device, memory.pinned, streams.streams, streams.events,
                 streams.operations);
}

__attribute__((destructor)) void at_exit() {
    if (!initialised) return;
    if (holders) print_tally("at exit");
}

}  // namespace

bool eager() {
    static const char* value = setting("EMULATED_CUDA");
    static const bool is = value && !std::strcmp(value, "eager");
    if (value && !is && std::strcmp(value, "late")) fail("EMULATED_CUDA is neither late nor eager");
    return is;
}

size_t memory_bytes() {
    static const char* value = setting("EMULATED_CUDA_MEMORY_BYTES");
    return value ? std::strtoull(value, nullptr, 10) : size_t(1) << 30;
}

int capability() {
    const char* value = setting("EMULATED_CUDA_CAPABILITY");
    int major = 9, minor = 0;
    if (value && std::sscanf(value, "%d.%d", &major, &minor) != 2)
        fail("EMULATED_CUDA_CAPABILITY is not MAJOR.MINOR: %s", value);
    return 10 * major + minor;
}

bool wants_dmabuf() { return setting("EMULATED_CUDA_DMABUF"); }

bool wants_peermem() { return setting("EMULATED_CUDA_PEERMEM"); }

CUresult enter(const char* name, Needs needs) {
    if (needs == Needs::Nothing) return CUDA_SUCCESS;
    if (!initialised) return CUDA_ERROR_NOT_INITIALIZED;
    if (needs == Needs::Context) {
        if (!current) fail("%s: this thread has no current context", name);
        if (current->released) fail("%s: this thread's context has been released", name);
        if (current->failed) return current->failed;
    }
    // A trainer captures a graph all the time: whoever has not said otherwise is refused.
    static const bool capturing = setting("EMULATED_CUDA_CAPTURING");
    static const std::set<std::string> unsafe = {"cuEventQuery",   "cuMemAlloc",     "cuMemAllocHost",
                                                 "cuMemHostAlloc", "cuStreamCreate", "cuStreamQuery"};
    if (capturing && capture_mode == 0 && unsafe.count(name)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    static Failures failures("EMULATED_CUDA_FAIL", CUDA_ERROR_LAUNCH_FAILED);
    const CUresult error = failures.of(name);
    if (is_sticky(error) && current) current->failed = error;
    return error;
}

CUresult initialise() {
    initialised = true;
    return CUDA_SUCCESS;
}

Context* retain() {
    if (holders++ == 0) {
        contexts.push_back(std::make_unique<Context>());
        begin_ghost();
    }
    return contexts.back().get();
}

void release() {
    if (holders == 0) fail("cuDevicePrimaryCtxRelease: nobody holds the context");
    if (--holders) return;
    print_tally("at the context's release");
    // What is still under way is not done: nobody may look at it any more.
    forget_streams();
    forget_modules();
    forget_memory();
    forget_handles();
    end_ghost();
    contexts.back()->released = true;
}

bool is_held() { return holders > 0; }

Context* context_of(CUcontext handle) {
    for (auto& known : contexts)
        if (known.get() == reinterpret_cast<Context*>(handle)) {
            if (known->released) fail("a context that has been released");
            return known.get();
        }
    fail("%p is no context", static_cast<void*>(handle));
}

}  // namespace emulated
