// Memory by handles: created, mapped where room was reserved, exported and imported.
//
// A handle is pages of its own (a memory file), an exported one a descriptor of them. The bytes are the
// device's until the handle and all its mappings are gone, in this process; other processes that have
// imported them keep the pages.
#include "handles.h"

#include "ghost.h"
#include "memory.h"
#include "state.h"

#include <cstring>
#include <fcntl.h>
#include <map>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace emulated;

namespace {

struct Handle {
    int pages;
    size_t bytes;
    bool is_exportable;
    // Whether network cards can be let write to it.
    bool is_for_cards;
    // Of another process: its bytes are counted there.
    bool is_foreign;
    uint64_t imported;
    // Released, but still mapped.
    bool is_released = false;
    size_t mappings = 0;
};

std::map<CUmemGenericAllocationHandle, Handle> handles;
// By the first address: bytes.
std::map<CUdeviceptr, size_t> reserved;
// By the first address: whose pages are there.
std::map<CUdeviceptr, CUmemGenericAllocationHandle> mapped;
CUmemGenericAllocationHandle last = 0x7000;

bool whole(size_t bytes) { return bytes && bytes % GRANULE_BYTES == 0; }

Handle& known(CUmemGenericAllocationHandle handle, const char* who) {
    const auto found = handles.find(handle);
    if (found == handles.end() || found->second.is_released)
        fail("%s: %#llx is no handle, or released before", who, handle);
    return found->second;
}

CUmemGenericAllocationHandle added(Handle handle) {
    handles[++last] = handle;
    return last;
}

void end_if_unused(CUmemGenericAllocationHandle number) {
    const Handle& handle = handles.at(number);
    if (!handle.is_released || handle.mappings) return;
    close(handle.pages);
    if (!handle.is_foreign) refund_device(handle.bytes);
    handles.erase(number);
}

bool is_usual(const CUmemAllocationProp* prop) {
    return prop->type == PINNED_ALLOCATION && prop->location.type == ON_DEVICE &&
           prop->location.id == 0;
}

}  // namespace

void emulated::forget_handles() {
    for (auto& [number, handle] : handles) {
        close(handle.pages);
        if (!handle.is_foreign) refund_device(handle.bytes);
    }
    handles.clear();
    mapped.clear();
    reserved.clear();
}

bool emulated::is_closed_to_cards(CUdeviceptr start) {
    const auto found = mapped.find(start);
    return found != mapped.end() && !handles.at(found->second).is_for_cards;
}

API CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* prop, int) {
    return call("cuMemGetAllocationGranularity", Needs::Init, [&] {
        if (!is_usual(prop)) return CUDA_ERROR_INVALID_VALUE;
        *bytes = GRANULE_BYTES;
        return CUDA_SUCCESS;
    });
}

API CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                         const CUmemAllocationProp* prop, unsigned long long flags) {
    return call("cuMemCreate", Needs::Init, [&] {
        if (!is_usual(prop) || flags || !whole(bytes)) return CUDA_ERROR_INVALID_VALUE;
        const int types = prop->requested_handle_types;
        if (types && types != POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
        if (!charge_device(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
        const int pages = memfd_create("emulated-device-handle", MFD_CLOEXEC);
        if (pages < 0 || ftruncate(pages, bytes)) fail("no pages for %zu bytes", bytes);
        *handle = added({pages, bytes, types == POSIX_FILE_DESCRIPTOR, prop->gpu_direct_rdma == 1, false, 0});
        return CUDA_SUCCESS;
    });
}

API CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    return call("cuMemRelease", Needs::Init, [&] {
        known(handle, "cuMemRelease").is_released = true;
        end_if_unused(handle);
        return CUDA_SUCCESS;
    });
}

API CUresult cuMemAddressReserve(CUdeviceptr* start, size_t bytes, size_t alignment, CUdeviceptr,
                                 unsigned long long flags) {
    return call("cuMemAddressReserve", Needs::Init, [&] {
        if (!whole(bytes) || flags || alignment % GRANULE_BYTES) return CUDA_ERROR_INVALID_VALUE;
        void* room = mmap(nullptr, bytes + GRANULE_BYTES, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
        const auto at = reinterpret_cast<CUdeviceptr>(room);
        *start = (at + GRANULE_BYTES - 1) / GRANULE_BYTES * GRANULE_BYTES;
        reserved[*start] = bytes;
        return CUDA_SUCCESS;
    });
}

API CUresult cuMemAddressFree(CUdeviceptr start, size_t bytes) {
    return call("cuMemAddressFree", Needs::Init, [&] {
        const auto found = reserved.find(start);
        if (found == reserved.end() || found->second != bytes)
            fail("cuMemAddressFree: %zu bytes at %#llx are not reserved", bytes, start);
        if (mapped.count(start)) fail("cuMemAddressFree: %#llx is still mapped", start);
        reserved.erase(found);
        return CUDA_SUCCESS;
    });
}

API CUresult cuMemMap(CUdeviceptr start, size_t bytes, size_t offset,
                      CUmemGenericAllocationHandle number, unsigned long long flags) {
    return call("cuMemMap", Needs::Init, [&] {
        Handle& handle = known(number, "cuMemMap");
        const auto room = reserved.find(start);
        // Only as it is used here: a whole handle where exactly as much is reserved.
        if (room == reserved.end() || room->second != bytes)
            fail("cuMemMap: %zu bytes at %#llx are not reserved", bytes, start);
        if (offset || flags || bytes != handle.bytes) return CUDA_ERROR_INVALID_VALUE;
        map_device(start, handle.pages, bytes, handle.imported);
        handle.mappings++;
        mapped[start] = number;
        return CUDA_SUCCESS;
    });
}

API CUresult cuMemUnmap(CUdeviceptr start, size_t bytes) {
    return call("cuMemUnmap", Needs::Init, [&] {
        unmap_device(start, bytes);
        const auto number = mapped.at(start);
        mapped.erase(start);
        handles.at(number).mappings--;
        end_if_unused(number);
        return CUDA_SUCCESS;
    });
}

API CUresult cuMemSetAccess(CUdeviceptr start, size_t bytes, const CUmemAccessDesc* who,
                            size_t count) {
    return call("cuMemSetAccess", Needs::Init, [&] {
        for (size_t i = 0; i < count; i++)
            if (who[i].location.type != ON_DEVICE || who[i].location.id || who[i].flags != READ_AND_WRITE)
                return CUDA_ERROR_INVALID_DEVICE;
        give_access(start, bytes);
        return CUDA_SUCCESS;
    });
}

API CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle number, int type,
                                          unsigned long long) {
    return call("cuMemExportToShareableHandle", Needs::Init, [&] {
        const Handle& handle = known(number, "cuMemExportToShareableHandle");
        if (type != POSIX_FILE_DESCRIPTOR || !handle.is_exportable) return CUDA_ERROR_INVALID_VALUE;
        const int descriptor = fcntl(handle.pages, F_DUPFD_CLOEXEC, 0);
        if (descriptor < 0) return CUDA_ERROR_OUT_OF_MEMORY;
        std::memcpy(out, &descriptor, sizeof descriptor);
        return CUDA_SUCCESS;
    });
}

API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shared,
                                            int type) {
    return call("cuMemImportFromShareableHandle", Needs::Init, [&] {
        if (type != POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
        const int pages =
            fcntl(static_cast<int>(reinterpret_cast<intptr_t>(shared)), F_DUPFD_CLOEXEC, 0);
        struct stat status;
        if (pages < 0 || fstat(pages, &status) || !whole(status.st_size)) {
            if (pages >= 0) close(pages);
            return CUDA_ERROR_INVALID_VALUE;
        }
        uint64_t imported = tell_ghost_of(pages);
        // Another process's, though no ghost looks after it.
        if (!imported) imported = ~uint64_t(0);
        *handle = added({pages, size_t(status.st_size), false, false, true, imported});
        return CUDA_SUCCESS;
    });
}
