// Memory by handles, which other processes import; and the late GPU of a killed one.
#include "selftest.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

extern "C" {
CUresult cuMemCreate(CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*, unsigned long long);
CUresult cuMemRelease(CUmemGenericAllocationHandle);
CUresult cuMemAddressReserve(CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long);
CUresult cuMemAddressFree(CUdeviceptr, size_t);
CUresult cuMemMap(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
CUresult cuMemUnmap(CUdeviceptr, size_t);
CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t);
CUresult cuMemExportToShareableHandle(void*, CUmemGenericAllocationHandle, int, unsigned long long);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle*, void*, int);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, CUstream);
}

namespace {

const size_t SHARED = GRANULE_BYTES;
const CUmemLocation HERE = {ON_DEVICE, 0};

CUmemGenericAllocationHandle created(size_t bytes = SHARED) {
    const CUmemAllocationProp prop = {PINNED_ALLOCATION, POSIX_FILE_DESCRIPTOR, HERE, nullptr, 0, 0, 0, {}};
    CUmemGenericAllocationHandle handle;
    OK(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

CUdeviceptr mapped(CUmemGenericAllocationHandle handle, bool with_access = true) {
    CUdeviceptr at = 0;
    OK(cuMemAddressReserve(&at, SHARED, 0, 0, 0));
    OK(cuMemMap(at, SHARED, 0, handle, 0));
    const CUmemAccessDesc access = {HERE, READ_AND_WRITE};
    if (with_access) OK(cuMemSetAccess(at, SHARED, &access, 1));
    return at;
}

int exported(CUmemGenericAllocationHandle handle) {
    int descriptor = -1;
    OK(cuMemExportToShareableHandle(&descriptor, handle, POSIX_FILE_DESCRIPTOR, 0));
    return descriptor;
}

CUdeviceptr imported(int descriptor) {
    CUmemGenericAllocationHandle handle;
    OK(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(intptr_t(descriptor)),
                                      POSIX_FILE_DESCRIPTOR));
    const CUdeviceptr at = mapped(handle);
    // Its mapping keeps it.
    OK(cuMemRelease(handle));
    return at;
}

void memory_is_shared_with_whoever_imports_it() {
    const CUmemGenericAllocationHandle handle = created();
    const CUdeviceptr own = mapped(handle), other = imported(exported(handle));
    const CUstream on = stream();
    OK(cuMemsetD8Async(own, 7, SHARED, on));
    OK(cuStreamSynchronize(on));
    HOLDS(first(other) == 7);
    const CUdeviceptr source = device();
    OK(cuMemsetD8Async(source, 9, BYTES, on));
    OK(cuMemcpyDtoDAsync_v2(other, source, BYTES, on));
    HOLDS(first(own) == 7);
    OK(cuStreamSynchronize(on));
    HOLDS(first(own) == 9);
}

void bytes_are_the_devices_until_the_last_mapping_is_gone() {
    size_t before, left, total;
    OK(cuMemGetInfo_v2(&before, &total));
    const CUmemGenericAllocationHandle handle = created();
    const CUdeviceptr own = mapped(handle);
    OK(cuMemRelease(handle));
    OK(cuMemGetInfo_v2(&left, &total));
    HOLDS(left == before - SHARED);
    OK(cuMemUnmap(own, SHARED));
    OK(cuMemAddressFree(own, SHARED));
    OK(cuMemGetInfo_v2(&left, &total));
    HOLDS(left == before);
}

// A process that imports the memory, asks for a write and is killed before it has run.
void a_ghost_writes_late_what_was_queued() {
    const CUmemGenericAllocationHandle handle = created();
    const CUdeviceptr own = mapped(handle);
    OK(cuMemsetD8Async(own, 1, SHARED, nullptr));
    OK(cuCtxSynchronize());
    const std::string descriptor = std::to_string(fcntl(exported(handle), F_DUPFD, 0));
    const pid_t child = fork();
    if (child == 0) {
        setenv("EMULATED_CUDA_GHOST_MS", "300", 1);
        setenv("SHARED", descriptor.c_str(), 1);
        execl("/proc/self/exe", "selftest", "is_killed_with_a_write_queued", nullptr);
        _exit(1);
    }
    int status;
    HOLDS(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    // It is gone, and its GPU is not.
    HOLDS(first(own) == 1);
    int waited = 0;
    while (first(own) == 1 && waited++ < 200) usleep(20000);
    HOLDS(first(own) == 5);
    // What had run before was not done again.
    unsigned char second;
    HOLDS(emulated_cuda_peek(own + BYTES, &second, 1) == 0 && second == 6);
}

void is_killed_with_a_write_queued() {
    const CUdeviceptr there = imported(std::atoi(std::getenv("SHARED"))), source = device();
    const CUstream on = stream();
    OK(cuMemsetD8Async(source, 4, BYTES, on));
    OK(cuMemcpyDtoDAsync_v2(there + BYTES, source, BYTES, on));
    OK(cuStreamSynchronize(on));
    OK(cuMemsetD8Async(source, 6, BYTES, on));
    OK(cuMemcpyDtoDAsync_v2(there + BYTES, source, BYTES, on));
    OK(cuMemsetD8Async(source, 5, BYTES, on));
    OK(cuStreamSynchronize(on));
    OK(cuMemcpyDtoDAsync_v2(there, source, BYTES, on));
    kill(getpid(), SIGKILL);
}

void mapped_without_access() { OK(cuMemsetD8Async(mapped(created(), false), 0, 1, nullptr)); }
void mapped_after_release() {
    const CUmemGenericAllocationHandle handle = created();
    OK(cuMemRelease(handle));
    mapped(handle);
}
void unmapped_in_use() {
    const CUdeviceptr own = mapped(created());
    OK(cuMemsetD8Async(own, 0, BYTES, nullptr));
    cuMemUnmap(own, SHARED);
}
void freed_though_mapped() {
    const CUdeviceptr own = mapped(created());
    cuMemFree_v2(own);
}

}  // namespace

const Scenarios SHARING = {
    SCENARIO(memory_is_shared_with_whoever_imports_it),
    SCENARIO(bytes_are_the_devices_until_the_last_mapping_is_gone),
    SCENARIO(a_ghost_writes_late_what_was_queued),
    SCENARIO(is_killed_with_a_write_queued),
    SCENARIO(mapped_without_access),
    SCENARIO(mapped_after_release),
    SCENARIO(unmapped_in_use),
    SCENARIO(freed_though_mapped),
};
