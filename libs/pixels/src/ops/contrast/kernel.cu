// CUDA twin of contrast/plain.rs: a blend with the rounded mean of the luma. Lumas are whole
// numbers, so that the order in which threads add them changes nothing.

__device__ Pixel spread_about(Pixel pixel, u8 mean, f32 factor) {
    pixel.red = blend(mean, pixel.red, factor);
    pixel.green = blend(mean, pixel.green, factor);
    pixel.blue = blend(mean, pixel.blue, factor);
    return pixel;
}

__device__ u8 rounded_mean(u64 sum, u64 count) {
    return (u8)(u32)__dadd_rn(__ddiv_rn((f64)sum, (f64)count), 0.5);
}

// The sum of what all threads of the block give, to all of them. The number of threads is a power
// of two.
__device__ u64 block_sum(u64 own, u64* partial) {
    partial[threadIdx.x] = own;
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    const u64 sum = partial[0];
    // Nobody writes the next sum before everybody has read this one.
    __syncthreads();
    return sum;
}
