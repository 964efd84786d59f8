// CUDA twin of luma/mod.rs: ITU-R 601-2 in 16-bit fixed point, rounded.

__device__ u8 luma(Pixel pixel) {
    const u32 sum = 19595u * pixel.red + 38470u * pixel.green + 7471u * pixel.blue;
    return (u8)((sum + 0x8000u) >> 16);
}
