// CUDA twin of grayscale/plain.rs.

__device__ Pixel grayscale(Pixel pixel) {
    const u8 gray = luma(pixel);
    return Pixel{gray, gray, gray};
}
