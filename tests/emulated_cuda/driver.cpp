// Device and context: the calls themselves.
#include "state.h"
#include "streams.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace emulated;

namespace {

struct Named {
    CUresult error;
    const char *name, *text;
};
const Named ERRORS[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
};

const Named* named(CUresult error) {
    const auto found = std::find_if(std::begin(ERRORS), std::end(ERRORS),
                                    [&](const Named& named) { return named.error == error; });
    return found == std::end(ERRORS) ? nullptr : found;
}

const struct {
    int attribute, value;
} ATTRIBUTES[] = {
    {MAX_THREADS_PER_BLOCK, THREADS_MAX},
    {MAX_BLOCK_DIM_X, 1024},
    {MAX_BLOCK_DIM_Y, 1024},
    {MAX_BLOCK_DIM_Z, 64},
    {MAX_GRID_DIM_X, 2147483647},
    {MAX_GRID_DIM_Y, 65535},
    {MAX_GRID_DIM_Z, 65535},
    {MAX_SHARED_MEMORY_PER_BLOCK, int(SHARED_BYTES_DEFAULT)},
    {WARP_SIZE, 32},
    {CLOCK_RATE, 1000000},
    {MULTIPROCESSOR_COUNT, 132},
    {PCI_BUS_ID, 1},
    {PCI_DEVICE_ID, 0},
    {MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {ASYNC_ENGINE_COUNT, 3},
    {UNIFIED_ADDRESSING, 1},
    {PCI_DOMAIN_ID, 0},
    {MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 << 10},
    {MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, int(SHARED_BYTES_MAX)},
    {HOST_REGISTER_SUPPORTED, 1},
    {VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {MEMORY_POOLS_SUPPORTED, 1},
    {HANDLE_TYPE_FABRIC_SUPPORTED, 0},
};

// The thread's contexts; the last one is the current one.
thread_local std::vector<Context*> stack;

CUresult device_call(const char* name, CUdevice device, auto body) {
    return call(name, Needs::Init,
                [&] { return device == 0 ? body() : CUDA_ERROR_INVALID_DEVICE; });
}

}  // namespace

API CUresult cuInit(unsigned flags) {
    std::lock_guard guard(everything);
    return flags ? CUDA_ERROR_INVALID_VALUE : initialise();
}

API CUresult cuDriverGetVersion(int* version) {
    static const char* value = setting("EMULATED_CUDA_VERSION");
    *version = value ? std::atoi(value) : 13000;
    return CUDA_SUCCESS;
}

API CUresult cuGetErrorName(CUresult error, const char** name) {
    const Named* found = named(error);
    *name = found ? found->name : nullptr;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuGetErrorString(CUresult error, const char** text) {
    const Named* found = named(error);
    *text = found ? found->text : nullptr;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuDeviceGetCount(int* count) {
    return call("cuDeviceGetCount", Needs::Init, [&] {
        *count = 1;
        return CUDA_SUCCESS;
    });
}

API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    return device_call("cuDeviceGet", ordinal, [&] {
        *device = 0;
        return CUDA_SUCCESS;
    });
}

API CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
    return device_call("cuDeviceGetName", device, [&] {
        std::strncpy(name, "Emulated GPU", length);
        name[length - 1] = 0;
        return CUDA_SUCCESS;
    });
}

API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
    return device_call("cuDeviceGetUuid", device, [&] {
        // EMULATED_CUDA_UUID: of 16 characters, to be another GPU than other processes have.
        const char* other = setting("EMULATED_CUDA_UUID");
        if (other && std::strlen(other) != sizeof uuid->bytes)
            fail("EMULATED_CUDA_UUID has not 16 characters: %s", other);
        std::memcpy(uuid->bytes, other ? other : "emulated GPU 0..", sizeof uuid->bytes);
        return CUDA_SUCCESS;
    });
}

API CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
    return device_call("cuDeviceCanAccessPeer", device, [&] {
        if (peer == device || peer != 0) return CUDA_ERROR_INVALID_DEVICE;
        *can = 0;
        return CUDA_SUCCESS;
    });
}

API CUresult cuDeviceGetPCIBusId(char* name, int length, CUdevice device) {
    return device_call("cuDeviceGetPCIBusId", device, [&] {
        if (length < 13) return CUDA_ERROR_INVALID_VALUE;
        std::strcpy(name, "0000:01:00.0");
        return CUDA_SUCCESS;
    });
}

API CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
    return device_call("cuDeviceTotalMem", device, [&] {
        *bytes = memory_bytes();
        return CUDA_SUCCESS;
    });
}

API CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device) {
    return device_call("cuDeviceGetAttribute", device, [&] {
        if (attribute == COMPUTE_CAPABILITY_MAJOR || attribute == COMPUTE_CAPABILITY_MINOR) {
            *value = attribute == COMPUTE_CAPABILITY_MAJOR ? capability() / 10 : capability() % 10;
            return CUDA_SUCCESS;
        }
        for (auto& known : ATTRIBUTES)
            if (known.attribute == attribute) {
                *value = known.value;
                return CUDA_SUCCESS;
            }
        switch (attribute) {
            case DMA_BUF_SUPPORTED: *value = wants_dmabuf(); break;
            case GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
            case GPU_DIRECT_RDMA_SUPPORTED: *value = wants_dmabuf() || wants_peermem(); break;
            // By the host, and needed: CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE.
            case GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS: *value = 1; break;
            case GPU_DIRECT_RDMA_WRITES_ORDERING: *value = 0; break;
            default: fail("cuDeviceGetAttribute: attribute %d is not emulated", attribute);
        }
        return CUDA_SUCCESS;
    });
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    return device_call("cuDevicePrimaryCtxRetain", device, [&] {
        *context = reinterpret_cast<CUcontext>(retain());
        return CUDA_SUCCESS;
    });
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    return device_call("cuDevicePrimaryCtxRelease", device, [&] {
        release();
        return CUDA_SUCCESS;
    });
}

API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
    return device_call("cuDevicePrimaryCtxGetState", device, [&] {
        *flags = 0;
        *active = is_held();
        return CUDA_SUCCESS;
    });
}

API CUresult cuCtxSetCurrent(CUcontext context) {
    return call("cuCtxSetCurrent", Needs::Init, [&] {
        // Takes the place of the topmost one.
        if (!stack.empty() && current) stack.pop_back();
        if (context) stack.push_back(context_of(context));
        current = stack.empty() ? nullptr : stack.back();
        return CUDA_SUCCESS;
    });
}

API CUresult cuCtxPushCurrent_v2(CUcontext context) {
    return call("cuCtxPushCurrent", Needs::Init, [&] {
        stack.push_back(context_of(context));
        current = stack.back();
        return CUDA_SUCCESS;
    });
}

API CUresult cuCtxPopCurrent_v2(CUcontext* context) {
    return call("cuCtxPopCurrent", Needs::Init, [&] {
        if (stack.empty()) fail("cuCtxPopCurrent: this thread has no current context");
        if (context) *context = reinterpret_cast<CUcontext>(stack.back());
        stack.pop_back();
        current = stack.empty() ? nullptr : stack.back();
        return CUDA_SUCCESS;
    });
}

API CUresult cuCtxGetCurrent(CUcontext* context) {
    return call("cuCtxGetCurrent", Needs::Init, [&] {
        *context = reinterpret_cast<CUcontext>(current);
        return CUDA_SUCCESS;
    });
}

API CUresult cuCtxGetDevice(CUdevice* device) {
    return call("cuCtxGetDevice", Needs::Context, [&] {
        *device = 0;
        return CUDA_SUCCESS;
    });
}

API CUresult cuCtxSynchronize() {
    return call("cuCtxSynchronize", Needs::Context, [] {
        run_everything();
        return CUDA_SUCCESS;
    });
}

API CUresult cuThreadExchangeStreamCaptureMode(int* mode) {
    return call("cuThreadExchangeStreamCaptureMode", Needs::Init, [&] {
        if (*mode < 0 || *mode > 2) return CUDA_ERROR_INVALID_VALUE;
        std::swap(*mode, capture_mode);
        return CUDA_SUCCESS;
    });
}

API CUresult cuFlushGPUDirectRDMAWrites(int target, int scope) {
    return call("cuFlushGPUDirectRDMAWrites", Needs::Context, [&] {
        if (!wants_dmabuf() && !wants_peermem()) return CUDA_ERROR_NOT_SUPPORTED;
        const bool known = target == 0 && (scope == 100 || scope == 200);
        return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    });
}

API CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    return call("cuCtxGetStreamPriorityRange", Needs::Context, [&] {
        if (least) *least = 0;
        if (greatest) *greatest = -5;
        return CUDA_SUCCESS;
    });
}
