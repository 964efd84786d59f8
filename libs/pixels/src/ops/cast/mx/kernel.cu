// CUDA twin of cast/mx/plain.rs: blocks of 32 columns of a row, one scale each. Scales and elements
// are looked up in the host's own tables: for each channel and level `scale << 16 | number`, which rise
// together; behind them, for each number, the elements of all levels under that scale, `u8[256]`.

#define MX_BLOCK 32u
// Threads that share a block, and the columns of each.
#define MX_LANES 4u
#define MX_COLUMNS (MX_BLOCK / MX_LANES)

__device__ u32 larger(u32 a, u32 b) { return a > b ? a : b; }

// Elements to the view's row, scales behind them. `table` is in shared memory.
__device__ void write_blocks(u8* arena, const View& view, const u8* from, const u32* table) {
    const u64 plane = (u64)view.width * view.height;
    const u32 blocks = (view.out_width + MX_BLOCK - 1) / MX_BLOCK;
    const u32 count = 3 * view.out_height * blocks;
    const u8* elements = arena + view.table + 4 * 3 * 256;
    u8* out = arena + view.out;
    u8* scales = out + 3 * (u64)view.out_width * view.out_height;
    const u32 lane = threadIdx.x % MX_LANES;
    // All threads stay together to the end: they ask each other.
    for (u32 first = 0; first < count; first += blockDim.x / MX_LANES) {
        const u32 wanted = first + threadIdx.x / MX_LANES;
        const bool there = wanted < count;
        const u32 block = there ? wanted : 0;
        const u32 row = block / blocks;
        const u32 channel = row / view.out_height, y = view.cut_top + row % view.out_height;
        const u8* levels = from + channel * plane + (u64)y * view.width + view.cut_left;
        const u32 left = block % blocks * MX_BLOCK + lane * MX_COLUMNS;
        u32 right = left + MX_COLUMNS;
        if (right > view.out_width) right = view.out_width;
        if (!there) right = left;
        u32 largest = 0;
        for (u32 x = left; x < right; x++) largest = larger(largest, table[256 * channel + levels[x]]);
        for (u32 distance = 1; distance < MX_LANES; distance *= 2)
            largest = larger(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
        const u8* under_scale = elements + 256 * (u64)(largest & 0xffffu);
        for (u32 x = left; x < right; x++)
            out[(u64)row * view.out_width + x] = under_scale[levels[x]];
        if (there && lane == 0) scales[block] = (u8)(largest >> 16);
    }
}
