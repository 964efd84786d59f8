// Dequantisation and inverse DCT: libjpeg's accurate one. Eight threads have a block of 8 x 8 coefficients: each a
// column at first, then a row.

// Blocks of coefficients for each block of threads, and words from one to the next in shared memory: rows are nine
// words apart and blocks 72, so that no two threads of a warp meet in a bank.
#define DCT_BLOCKS 32u
#define DCT_ROW 9u
#define DCT_BLOCK 72u

// Sum of the magnitudes in two columns up to which all builds of libjpeg-turbo give the same samples.
#define MAGNITUDES_MAX 5905u

struct Line {
    i32 x[8];
};

// The inverse DCT of eight numbers, times the root of 8 and 2^13.
__device__ Line transformed(const Line& line) {
    const i32* x = line.x;
    const i32 sum = (x[0] + x[4]) * 8192, difference = (x[0] - x[4]) * 8192;
    const i32 wide = 10703 * x[2] + 4433 * x[6], narrow = 4433 * x[2] - 10704 * x[6];
    const i32 even0 = sum + wide, even1 = difference + narrow;
    const i32 even2 = difference - narrow, even3 = sum - wide;
    const i32 odd0 = 11363 * x[1] + 9633 * x[3] + 6437 * x[5] + 2260 * x[7];
    const i32 odd1 = 9633 * x[1] - 2259 * x[3] - 11362 * x[5] - 6436 * x[7];
    const i32 odd2 = 6437 * x[1] - 11362 * x[3] + 2261 * x[5] + 9633 * x[7];
    const i32 odd3 = 2260 * x[1] - 6436 * x[3] + 9633 * x[5] - 11363 * x[7];
    return Line{{even0 + odd0, even1 + odd1, even2 + odd2, even3 + odd3, even3 - odd3, even2 - odd2,
                 even1 - odd1, even0 - odd0}};
}

// Divided by 2 to the power of `bits`; a half is rounded up.
__device__ i32 rounded(i32 value, u32 bits) { return (value + (1 << (bits - 1))) >> bits; }

// A column's values in the middle of the transform; whether they are in range.
__device__ bool transform_column(i32* values) {
    Line line;
    u32 magnitudes = 0;
#pragma unroll
    for (u32 row = 0; row < 8; row++) {
        line.x[row] = values[row * DCT_ROW];
        magnitudes += (u32)(line.x[row] < 0 ? -line.x[row] : line.x[row]);
    }
    magnitudes += __shfl_xor_sync(0xffffffffu, magnitudes, 4);
    const bool in_range = magnitudes <= MAGNITUDES_MAX;
    if (!in_range) line = Line{{0, 0, 0, 0, 0, 0, 0, 0}};
    line = transformed(line);
#pragma unroll
    for (u32 row = 0; row < 8; row++) values[row * DCT_ROW] = rounded(line.x[row], 11);
    return in_range;
}

// Eight samples, the first in the lowest byte; whether they are in range.
__device__ bool transform_row(const i32* values, u64& samples) {
    Line line;
#pragma unroll
    for (u32 column = 0; column < 8; column++) line.x[column] = values[column];
    line = transformed(line);
    bool in_range = true;
    samples = 0;
#pragma unroll
    for (u32 column = 0; column < 8; column++) {
        const i32 value = rounded(line.x[column], 18);
        in_range = in_range && value >= -512 && value <= 511;
        const i32 level = value + 128;
        samples |= (u64)(level < 0 ? 0 : level > 255 ? 255 : level) << (8 * column);
    }
    return in_range;
}

// One block of threads for each DCT_BLOCKS blocks of an image, in the order of the file. Shared memory: DCT_BLOCK
// words for each eight threads.
extern "C" __global__ void __launch_bounds__(256) make_samples(u8* arena, u64 jpegs, u64 jpegs_len) {
    SHARED_BYTES(shared);
    const Jpeg& jpeg = jpeg_of_block(arena, jpegs, jpegs_len, OF_SAMPLES);
    const u32 lane = threadIdx.x % 8;
    i32* values = (i32*)shared + threadIdx.x / 8 * DCT_BLOCK;
    const u32 first = (blockIdx.x - jpeg.first_block[OF_SAMPLES]) * DCT_BLOCKS;
    for (u32 at = threadIdx.x / 8; at < DCT_BLOCKS; at += blockDim.x / 8) {
        // Threads without a block have none's: all meet at each step.
        const bool has_block = first + at < jpeg.mcus * jpeg.mcu_blocks;
        const u32 block = has_block ? first + at : 0;
        const u32 mcu = block / jpeg.mcu_blocks, number = block % jpeg.mcu_blocks;
        const Component& component = jpeg.components[component_of(jpeg, number)];
        const u64* coefficients = (const u64*)(arena + jpeg.coefficients) + (u64)block * 16 + lane * 2;
        const u64* steps = (const u64*)(arena + component.steps) + lane * 2;
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            const u64 coefficient = coefficients[half], step = steps[half];
#pragma unroll
            for (u32 n = 0; n < 4; n++)
                values[lane * DCT_ROW + half * 4 + n] =
                    (i32)(i16)(u16)(coefficient >> (16 * n)) * (i32)(u16)(step >> (16 * n));
        }
        __syncwarp();
        bool in_range = transform_column(values + lane);
        __syncwarp();
        u64 samples;
        in_range = transform_row(values + lane * DCT_ROW, samples) && in_range;
        if (!has_block) continue;
        const u32 within = number - component.first;
        const u32 x = mcu % jpeg.mcus_across * component.h + within % component.h;
        const u32 y = mcu / jpeg.mcus_across * component.v + within / component.h;
        const u64 place = component.plane + (u64)(y * 8 + lane) * component.stride + x * 8;
        *(u64*)(arena + place) = samples;
        if (!in_range) atomicOr((u32*)(arena + jpeg.status), OUT_OF_RANGE);
    }
}
