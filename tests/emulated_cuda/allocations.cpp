// Memory of the device and pinned memory: the calls themselves.
#include "handles.h"
#include "memory.h"
#include "state.h"
#include "streams.h"

#include <cstring>

using namespace emulated;

API CUresult cuMemGetInfo_v2(size_t* left, size_t* total) {
    return call("cuMemGetInfo", Needs::Context, [&] {
        *left = device_bytes_left();
        *total = memory_bytes();
        return CUDA_SUCCESS;
    });
}

static CUresult allocate(CUdeviceptr* start, size_t bytes) {
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    *start = take_device(bytes);
    return *start ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API CUresult cuMemAlloc_v2(CUdeviceptr* start, size_t bytes) {
    return call("cuMemAlloc", Needs::Context, [&] { return allocate(start, bytes); });
}

API CUresult cuMemFree_v2(CUdeviceptr start) {
    return call("cuMemFree", Needs::Context, [&] {
        if (start) give_back_device(start, "cuMemFree");
        return CUDA_SUCCESS;
    });
}

// The memory is there from the call on, where CUDA has it from this point of the stream on.
API CUresult cuMemAllocAsync(CUdeviceptr* start, size_t bytes, CUstream stream) {
    return call("cuMemAllocAsync", Needs::Context, [&] {
        stream_of(stream, "cuMemAllocAsync");
        return allocate(start, bytes);
    });
}

API CUresult cuMemFreeAsync(CUdeviceptr start, CUstream stream) {
    return call("cuMemFreeAsync", Needs::Context, [&] {
        device_range(start, 1, "cuMemFreeAsync");
        issue(stream_of(stream, "cuMemFreeAsync"), {},
              [=] { give_back_device(start, "cuMemFreeAsync"); });
        return CUDA_SUCCESS;
    });
}

API CUresult cuMemHostAlloc(void** start, size_t bytes, unsigned) {
    return call("cuMemHostAlloc", Needs::Context, [&] {
        if (!bytes) return CUDA_ERROR_INVALID_VALUE;
        *start = take_pinned(bytes);
        return CUDA_SUCCESS;
    });
}

API CUresult cuMemAllocHost_v2(void** start, size_t bytes) {
    return cuMemHostAlloc(start, bytes, 0);
}

API CUresult cuMemFreeHost(void* start) {
    return call("cuMemFreeHost", Needs::Context, [&] {
        give_back_pinned(start);
        return CUDA_SUCCESS;
    });
}

API CUresult cuMemHostRegister_v2(void* start, size_t bytes, unsigned) {
    return call("cuMemHostRegister", Needs::Context, [&] {
        if (!bytes || !start) return CUDA_ERROR_INVALID_VALUE;
        register_pinned(start, bytes);
        return CUDA_SUCCESS;
    });
}

API CUresult cuMemHostUnregister(void* start) {
    return call("cuMemHostUnregister", Needs::Context, [&] {
        unregister_pinned(start);
        return CUDA_SUCCESS;
    });
}

API CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr start, size_t bytes, int type,
                                           unsigned long long) {
    return call("cuMemGetHandleForAddressRange", Needs::Context, [&] {
        if (!wants_dmabuf() || is_closed_to_cards(start)) return CUDA_ERROR_NOT_SUPPORTED;
        const int descriptor = type == 1 ? device_descriptor(start, bytes) : -1;
        if (descriptor < 0) return CUDA_ERROR_INVALID_VALUE;
        std::memcpy(handle, &descriptor, sizeof descriptor);
        return CUDA_SUCCESS;
    });
}

API CUresult cuPointerGetAttribute(void* data, int attribute, CUdeviceptr at) {
    return call("cuPointerGetAttribute", Needs::Context, [&] {
        CUdeviceptr start = 0;
        size_t bytes = 0;
        const bool device = device_allocation(at, &start, &bytes);
        if (!device && !pinned_users(reinterpret_cast<void*>(at), 1, "cuPointerGetAttribute"))
            return CUDA_ERROR_INVALID_VALUE;
        const auto put = [&](auto value) {
            std::memcpy(data, &value, sizeof value);
            return CUDA_SUCCESS;
        };
        switch (attribute) {
            case POINTER_CONTEXT: return put(current);
            case POINTER_MEMORY_TYPE: return put(unsigned(device ? 2 : 1));
            case POINTER_DEVICE_POINTER: return put(at);
            case POINTER_HOST_POINTER: return device ? CUDA_ERROR_INVALID_VALUE : put(at);
            case POINTER_IS_MANAGED: return put(unsigned(0));
            case POINTER_DEVICE_ORDINAL: return put(int(0));
            case POINTER_RANGE_START_ADDR: return put(start);
            case POINTER_RANGE_SIZE: return put(bytes);
        }
        fail("cuPointerGetAttribute: attribute %d is not emulated", attribute);
    });
}

// For tests: what the device holds now, whatever is under way. 0, or -1 where this is none of it.
API int emulated_cuda_peek(CUdeviceptr start, void* out, size_t bytes) {
    std::lock_guard guard(everything);
    CUdeviceptr first;
    size_t all;
    if (!device_allocation(start, &first, &all) || bytes > all - (start - first)) return -1;
    std::memcpy(out, device_range(start, bytes, "emulated_cuda_peek").held, bytes);
    return 0;
}

// For tests: operations that have not run yet.
API size_t emulated_cuda_pending() {
    std::lock_guard guard(everything);
    return stream_tally().operations;
}
