// The part of cuda.h that is emulated: types, constants and names as CUDA 13.0 has them.
#pragma once
#include <cstddef>
#include <cstdint>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st* CUcontext;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef unsigned long long CUmemGenericAllocationHandle;
struct CUmemLocation {
    int type, id;
};
struct CUmemAllocationProp {
    int type, requested_handle_types;
    CUmemLocation location;
    void* windows_data;
    unsigned char compression, gpu_direct_rdma;
    unsigned short usage;
    unsigned char reserved[4];
};
struct CUmemAccessDesc {
    CUmemLocation location;
    int flags;
};
struct CUuuid {
    char bytes[16];
};

enum : CUresult {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
};

enum : unsigned { CU_STREAM_NON_BLOCKING = 1, CU_EVENT_DISABLE_TIMING = 2 };

// Numbers of CUdevice_attribute.
enum : int {
    MAX_THREADS_PER_BLOCK = 1,
    MAX_BLOCK_DIM_X = 2,
    MAX_BLOCK_DIM_Y = 3,
    MAX_BLOCK_DIM_Z = 4,
    MAX_GRID_DIM_X = 5,
    MAX_GRID_DIM_Y = 6,
    MAX_GRID_DIM_Z = 7,
    MAX_SHARED_MEMORY_PER_BLOCK = 8,
    WARP_SIZE = 10,
    CLOCK_RATE = 13,
    MULTIPROCESSOR_COUNT = 16,
    PCI_BUS_ID = 33,
    PCI_DEVICE_ID = 34,
    MAX_THREADS_PER_MULTIPROCESSOR = 39,
    ASYNC_ENGINE_COUNT = 40,
    UNIFIED_ADDRESSING = 41,
    PCI_DOMAIN_ID = 50,
    COMPUTE_CAPABILITY_MAJOR = 75,
    COMPUTE_CAPABILITY_MINOR = 76,
    MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    HOST_REGISTER_SUPPORTED = 99,
    VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
    HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
    GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110,
    MEMORY_POOLS_SUPPORTED = 115,
    GPU_DIRECT_RDMA_SUPPORTED = 116,
    GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS = 117,
    GPU_DIRECT_RDMA_WRITES_ORDERING = 118,
    DMA_BUF_SUPPORTED = 124,
    HANDLE_TYPE_FABRIC_SUPPORTED = 128,
};

// Numbers of CUfunction_attribute.
enum : int {
    FUNC_MAX_THREADS_PER_BLOCK = 0,
    FUNC_SHARED_SIZE_BYTES = 1,
    FUNC_LOCAL_SIZE_BYTES = 3,
    FUNC_NUM_REGS = 4,
    FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
};

// Numbers of CUpointer_attribute.
enum : int {
    POINTER_CONTEXT = 1,
    POINTER_MEMORY_TYPE = 2,
    POINTER_DEVICE_POINTER = 3,
    POINTER_HOST_POINTER = 4,
    POINTER_IS_MANAGED = 8,
    POINTER_DEVICE_ORDINAL = 9,
    POINTER_RANGE_START_ADDR = 11,
    POINTER_RANGE_SIZE = 12,
};

// Of CUmemAllocationType, CUmemLocationType, CUmemAllocationHandleType and CUmemAccess_flags.
const int PINNED_ALLOCATION = 1, ON_DEVICE = 1, POSIX_FILE_DESCRIPTOR = 1, READ_AND_WRITE = 3;
// What handles, reservations and mappings are multiples of.
const size_t GRANULE_BYTES = 2 << 20;

// What the emulated device has, which is what an H100 has.
const int THREADS_MAX = 1024;
const size_t SHARED_BYTES_DEFAULT = 48 << 10;
const size_t SHARED_BYTES_MAX = 227 << 10;
