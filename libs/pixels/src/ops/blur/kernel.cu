// CUDA twin of blur/plain.rs, byte for byte. A thread goes down a column with the sums of nine rows:
// two passes of nine products, and the sum of the definition where they leave a doubt.

#define BLUR_RADIUS 4
// Rows that a thread makes at a time; eight more are summed across for them.
#define BLUR_ROWS 32
// CLEAR and UNSEEN of kernel.rs.
#define BLUR_CLEAR 4.9945068e-1f
#define BLUR_UNSEEN 1e-24f

__device__ i32 reflect(i32 at, i32 len) {
    const i32 last = len - 1;
    if (last == 0) return 0;
    while (at < 0 || at > last) at = at < 0 ? -at : 2 * last - at;
    return at;
}

// The sum across about column x.
__device__ f32 blur_across(const u8* row, i32 x, i32 width, const f32* weights) {
    f32 sum = __fmul_rn(weights[0], (f32)row[x]);
    if (x >= BLUR_RADIUS && x + BLUR_RADIUS < width) {
#pragma unroll
        for (i32 distance = 1; distance <= BLUR_RADIUS; distance++) {
            const f32 both = __fadd_rn((f32)row[x - distance], (f32)row[x + distance]);
            sum = __fmaf_rn(weights[distance], both, sum);
        }
        return sum;
    }
    for (i32 distance = 1; distance <= BLUR_RADIUS; distance++) {
        const f32 before = (f32)row[reflect(x - distance, width)];
        const f32 after = (f32)row[reflect(x + distance, width)];
        sum = __fmaf_rn(weights[distance], __fadd_rn(before, after), sum);
    }
    return sum;
}

// A weight of the window, as kernel.rs has it.
__device__ f32 blur_weight(f32 down, f32 across) {
    const f32 weight = __fmul_rn(down, across);
    return weight < BLUR_UNSEEN ? 0.0f : weight;
}

// The sum of the definition about column x of row y.
__device__ f32 blur_again(const u8* plane, i32 x, i32 y, i32 width, i32 height, const f32* weights) {
    f32 sum = 0.0f;
    for (i32 down = -BLUR_RADIUS; down <= BLUR_RADIUS; down++) {
        const u8* row = plane + (u64)reflect(y + down, height) * width;
        for (i32 across = -BLUR_RADIUS; across <= BLUR_RADIUS; across++) {
            const f32 weight = blur_weight(weights[abs(down)], weights[abs(across)]);
            sum = __fmaf_rn(weight, (f32)row[reflect(x + across, width)], sum);
        }
    }
    return sum;
}

// `to` is other memory than `from`.
__device__ void blur(const u8* from, u8* to, u32 width, u32 height, const f32* op_weights) {
    f32 weights[BLUR_RADIUS + 1];
#pragma unroll
    for (u32 n = 0; n <= BLUR_RADIUS; n++) weights[n] = op_weights[n];
    const u32 segments = (height + BLUR_ROWS - 1) / BLUR_ROWS;
    const u32 columns = 3 * segments * width;
    for (u32 i = threadIdx.x; i < columns; i += blockDim.x) {
        const u32 number = i / width, x = i - number * width;
        const u64 plane = (u64)(number / segments) * width * height;
        const i32 first = (i32)(number % segments) * BLUR_ROWS;
        const i32 end = first + BLUR_ROWS < (i32)height ? first + BLUR_ROWS : (i32)height;
        f32 sums[2 * BLUR_RADIUS + 1];
#pragma unroll
        for (i32 k = 0; k <= 2 * BLUR_RADIUS; k++) {
            const u64 row = reflect(first + k - BLUR_RADIUS, height);
            sums[k] = blur_across(from + plane + row * width, x, width, weights);
        }
        for (i32 y = first; y < end; y++) {
            f32 sum = __fmul_rn(weights[0], sums[BLUR_RADIUS]);
#pragma unroll
            for (i32 distance = 1; distance <= BLUR_RADIUS; distance++) {
                const f32 both = __fadd_rn(sums[BLUR_RADIUS - distance], sums[BLUR_RADIUS + distance]);
                sum = __fmaf_rn(weights[distance], both, sum);
            }
            if (fabsf(sum - rintf(sum)) > BLUR_CLEAR) sum = blur_again(from + plane, x, y, width, height, op_weights);
            const f32 level = rintf(sum);
            to[plane + (u64)y * width + x] = (u8)(u32)(level < 255.0f ? level : 255.0f);
            if (y + 1 == end) break;
#pragma unroll
            for (i32 k = 0; k < 2 * BLUR_RADIUS; k++) sums[k] = sums[k + 1];
            const u64 row = reflect(y + 1 + BLUR_RADIUS, height);
            sums[2 * BLUR_RADIUS] = blur_across(from + plane + row * width, x, width, weights);
        }
    }
}
