// CUDA twin of flip/plain.rs, for a flip that does not come first; one that does costs nothing in
// the resize. `to` is other memory than `from`.

__device__ void flip(const u8* from, u8* to, u32 width, u32 height) {
    const u64 levels = 3ull * height * width;
    for (u64 i = threadIdx.x; i < levels; i += blockDim.x) {
        const u64 x = i % width;
        to[i] = from[i - x + width - 1 - x];
    }
}
