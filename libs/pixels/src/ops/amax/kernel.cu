// CUDA twin of amax/mod.rs: the least and the greatest level of each channel, of which the host makes
// magnitudes by its own arithmetic. Whole numbers: the order of threads changes nothing.

struct Range {
    u32 least, greatest;
};

__device__ Range widened(Range range, u8 level) {
    if (level < range.least) range.least = level;
    if (level > range.greatest) range.greatest = level;
    return range;
}

// Least and greatest levels of all threads of the block, to `to`, which has two bytes. The number
// of threads is a power of two.
__device__ void write_range(u8* to, Range own, u64* partial) {
    // The complement of the least: then both are the larger of two.
    u32* least = (u32*)partial;
    u32* greatest = least + blockDim.x;
    least[threadIdx.x] = 255 - own.least;
    greatest[threadIdx.x] = own.greatest;
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            const u32 other = threadIdx.x + half;
            if (least[other] > least[threadIdx.x]) least[threadIdx.x] = least[other];
            if (greatest[other] > greatest[threadIdx.x]) greatest[threadIdx.x] = greatest[other];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        to[0] = (u8)(255 - least[0]);
        to[1] = (u8)greatest[0];
    }
    // Nobody writes the next range before this one has been read.
    __syncthreads();
}
