// CUDA twin of vertical_flip/plain.rs. `to` is other memory than `from`.

__device__ void flip_down(const u8* from, u8* to, u32 width, u32 height) {
    const u32 plane = height * width;
    for (u32 i = threadIdx.x; i < plane; i += blockDim.x) {
        const u32 x = i % width, mirrored = plane - width - (i - x) + x;
        for (u64 channel = 0; channel < 3; channel++) to[channel * plane + i] = from[channel * plane + mirrored];
    }
}
