// Elements of levels, for tensors that travel as bytes and are normalised where they arrive.
//
// No header is included: NVRTC has none.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#ifndef SHARED_BYTES
#define SHARED_BYTES(name) extern __shared__ __align__(16) u8 name[]
#endif

// Elements of two bytes, four at a time.
__device__ void write_halves(u8* to, u64 at, const u32* table, u32 levels) {
    const u64 first = table[levels & 0xff], second = table[levels >> 8 & 0xff];
    const u64 third = table[levels >> 16 & 0xff], fourth = table[levels >> 24];
    ((u64*)to)[at] = first | second << 16 | third << 32 | fourth << 48;
}

// Elements of four bytes, four at a time.
__device__ void write_words(u8* to, u64 at, const u32* table, u32 levels) {
    const u64 first = table[levels & 0xff], second = table[levels >> 8 & 0xff];
    const u64 third = table[levels >> 16 & 0xff], fourth = table[levels >> 24];
    ((u64*)to)[2 * at] = first | second << 32;
    ((u64*)to)[2 * at + 1] = third | fourth << 32;
}

// Levels u8[planes] of `plane` bytes each, one channel after another, into elements of
// `element_bytes` (2 or 4) by `table`, u32[3, 256]: normalise and cast in one. A row of blocks for each
// plane. Shared memory: the 1024 bytes of a channel's table. `levels` and `elements` begin at multiples
// of 256.
extern "C" __global__ void expand_levels(const u8* levels, u8* elements, const u32* table, u64 plane,
                                         u64 element_bytes) {
    SHARED_BYTES(shared);
    u32* own = (u32*)shared;
    const u64 first = blockIdx.x * plane;
    for (u32 i = threadIdx.x; i < 256; i += blockDim.x)
        own[i] = table[blockIdx.x % 3 * 256 + i];
    __syncthreads();
    const u64 begin = blockIdx.y * blockDim.x + threadIdx.x, step = gridDim.y * blockDim.x;
    if (plane % 4 == 0) {
        // Every plane begins at a multiple of four levels.
        const u32* from = (const u32*)(levels + first);
        u8* to = elements + first * element_bytes;
        for (u64 i = begin; i < plane / 4; i += step) {
            if (element_bytes == 2) write_halves(to, i, own, from[i]);
            else write_words(to, i, own, from[i]);
        }
        return;
    }
    for (u64 i = first + begin; i < first + plane; i += step) {
        if (element_bytes == 2) ((unsigned short*)elements)[i] = (unsigned short)own[levels[i]];
        else ((u32*)elements)[i] = own[levels[i]];
    }
}
