// What the scenarios of the emulated driver's own test share.
#pragma once
#include "../emulated/scenarios.h"
#include "abi.h"

#include <cstring>
#include <sys/mman.h>
#include <thread>
#include <vector>

extern "C" {
CUresult cuInit(unsigned);
CUresult cuDevicePrimaryCtxRetain(CUcontext*, CUdevice);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuCtxGetCurrent(CUcontext*);
CUresult cuCtxPushCurrent_v2(CUcontext);
CUresult cuCtxPopCurrent_v2(CUcontext*);
CUresult cuCtxSynchronize();
CUresult cuMemAlloc_v2(CUdeviceptr*, size_t);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemGetInfo_v2(size_t*, size_t*);
CUresult cuMemHostAlloc(void**, size_t, unsigned);
CUresult cuMemFreeHost(void*);
CUresult cuMemHostRegister_v2(void*, size_t, unsigned);
CUresult cuMemHostUnregister(void*);
CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void*, size_t);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr, const void*, size_t, CUstream);
CUresult cuMemcpyDtoH_v2(void*, CUdeviceptr, size_t);
CUresult cuMemcpyDtoHAsync_v2(void*, CUdeviceptr, size_t, CUstream);
CUresult cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, CUstream);
CUresult cuMemGetHandleForAddressRange(void*, CUdeviceptr, size_t, int, unsigned long long);
CUresult cuStreamCreate(CUstream*, unsigned);
CUresult cuStreamDestroy_v2(CUstream);
CUresult cuStreamSynchronize(CUstream);
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned);
CUresult cuLaunchHostFunc(CUstream, void (*)(void*), void*);
CUresult cuEventCreate(CUevent*, unsigned);
CUresult cuEventDestroy_v2(CUevent);
CUresult cuEventRecord(CUevent, CUstream);
CUresult cuEventSynchronize(CUevent);
CUresult cuEventQuery(CUevent);
CUresult cuEventElapsedTime_v2(float*, CUevent, CUevent);
CUresult cuModuleLoadData(CUmodule*, const void*);
CUresult cuModuleGetFunction(CUfunction*, CUmodule, const char*);
CUresult cuFuncSetAttribute(CUfunction, int, int);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        CUstream, void**, void**);
int emulated_cuda_peek(CUdeviceptr, void*, size_t);
size_t emulated_cuda_pending();
int nvrtcCreateProgram(void**, const char*, const char*, int, const char* const*,
                       const char* const*);
int nvrtcCompileProgram(void*, int, const char* const*);
int nvrtcGetProgramLogSize(void*, size_t*);
int nvrtcGetProgramLog(void*, char*);
int nvrtcGetCUBINSize(void*, size_t*);
int nvrtcGetCUBIN(void*, char*);
}

const size_t BYTES = 4096;

#define OK(call) HOLDS((call) == CUDA_SUCCESS)

inline void start() {
    OK(cuInit(0));
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
}

inline CUdeviceptr device(size_t bytes = BYTES) {
    CUdeviceptr memory = 0;
    OK(cuMemAlloc_v2(&memory, bytes));
    return memory;
}

inline unsigned char* pinned(size_t bytes = BYTES) {
    void* memory;
    OK(cuMemHostAlloc(&memory, bytes, 0));
    return static_cast<unsigned char*>(memory);
}

inline CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream made;
    OK(cuStreamCreate(&made, flags));
    return made;
}

inline CUevent event() {
    CUevent made;
    OK(cuEventCreate(&made, 0));
    return made;
}

// The first byte as it is now.
inline int first(CUdeviceptr memory) {
    unsigned char byte;
    HOLDS(emulated_cuda_peek(memory, &byte, 1) == 0);
    return byte;
}

// Compiles the test's kernels and finds one of them.
CUfunction kernel(const char* name);
void launch(CUfunction kernel, unsigned blocks, unsigned threads, size_t shared_bytes, CUstream on,
            std::vector<void*> arguments);

// Each file's scenarios.
extern const Scenarios KERNELS, MISUSE, SHARING;
