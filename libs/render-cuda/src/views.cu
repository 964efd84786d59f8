// The kernels. One launch of each works on all views of all samples of a part.

// Operations that look at one pixel alone, from number `first` to before `end`.
__device__ Pixel change(Pixel pixel, const Op* ops, u32 first, u32 end, u8 mean) {
    for (u32 number = first; number < end; number++) pixel = change_one(pixel, ops[number], mean);
    return pixel;
}

// One past the last of the operations from `first` on that need no other pixel. One that needs the mean is one
// of them where the mean is known, which holds at `first` alone.
__device__ u32 end_of_run(const Op* ops, u32 first, u32 ops_len, bool mean_is_known) {
    u32 end = first;
    if (mean_is_known && end < ops_len && needs_mean(ops[end].kind)) end++;
    while (end < ops_len && !needs_mean(ops[end].kind) && !is_of_view(ops[end].kind)) end++;
    return end;
}

__device__ Pixel pixel_at(const u8* planes, u32 plane, u32 at) {
    const u8* red = planes + at;
    return Pixel{red[0], red[plane], red[2 * (u64)plane]};
}

// Changes all pixels on their way from `from` to `to`, which may be the same, and gives the sum of
// the lumas of those that this thread has changed.
__device__ u64 change_all(const u8* from, u8* to, u32 plane, const Op* ops, u32 first, u32 end,
                          u8 mean) {
    u64 lumas = 0;
    for (u32 i = threadIdx.x; i < plane; i += blockDim.x) {
        const Pixel pixel = change(pixel_at(from, plane, i), ops, first, end, mean);
        u8* red = to + i;
        red[0] = pixel.red;
        red[plane] = pixel.green;
        red[2 * (u64)plane] = pixel.blue;
        lumas += luma(pixel);
    }
    return lumas;
}

// The last operations, and the elements.
__device__ void write_out(u8* arena, const View& view, const u8* from, const u32* table,
                          const Op* ops, u32 first, u8 mean, u64* partial) {
    // Not looked up again for each pixel, whatever is written.
    const u32 plane = view.width * view.height, element_bytes = view.element_bytes, end = view.ops_len;
    const u32 out_plane = view.out_width * view.out_height;
    u8* out = arena + view.out;
    const u64 channel_bytes = (u64)out_plane * element_bytes;
    const bool is_cut = plane != out_plane;
    const bool ranged = view.flags & RANGES;
    Range red = {255, 0}, green = red, blue = red;
    for (u32 i = threadIdx.x; i < out_plane; i += blockDim.x) {
        u32 at = i;
        if (is_cut) {
            const u32 y = i / view.out_width;
            at = (view.cut_top + y) * view.width + view.cut_left + i - y * view.out_width;
        }
        const Pixel pixel = change(pixel_at(from, plane, at), ops, first, end, mean);
        write_element(out, i, element_bytes, table[pixel.red]);
        write_element(out + channel_bytes, i, element_bytes, table[256 + pixel.green]);
        write_element(out + 2 * channel_bytes, i, element_bytes, table[512 + pixel.blue]);
        if (!ranged) continue;
        red = widened(red, pixel.red);
        green = widened(green, pixel.green);
        blue = widened(blue, pixel.blue);
    }
    if (!ranged) return;
    u8* ranges = out + 3 * channel_bytes;
    write_range(ranges, red, partial);
    write_range(ranges + 2, green, partial);
    write_range(ranges + 4, blue, partial);
}

// Blocks of resize_tiles that a multiprocessor has room for, which leaves 40 registers to a thread. Older ones take fewer
// threads.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define RESIZE_BLOCKS_MIN 6
#else
#define RESIZE_BLOCKS_MIN 1
#endif

// Crop and resize: a block for each tile. Shared memory: what the first pass makes of the largest
// tile.
extern "C" __global__ void __launch_bounds__(256, RESIZE_BLOCKS_MIN) resize_tiles(u8* arena, u64 views, u64 tiles) {
    SHARED_BYTES(between);
    const Tile tile = ((const Tile*)(arena + tiles))[blockIdx.x];
    const View view = ((const View*)(arena + views))[tile.view];
    resize_first(arena, view, tile, between);
    __syncthreads();
    resize_second(arena, view, tile, between);
}

// All operations, normalise, cast: a block for each view; `order` holds the views' numbers.
// Shared memory: a u64 for each thread, the table of 3072 bytes, and the view's planes if they are
// to be changed there.
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS_MAX)
finish_views(u8* arena, u64 views, u64 order) {
    SHARED_BYTES(shared);
    // What it says is read where it is wanted: all of it at once would take half of the registers.
    const View& view = ((const View*)(arena + views))[((const u32*)(arena + order))[blockIdx.x]];
    const Op* ops = (const Op*)(arena + view.ops);
    u64* partial = (u64*)shared;
    u32* table = (u32*)(shared + 8 * blockDim.x);
    for (u32 i = threadIdx.x; i < 3 * 256; i += blockDim.x)
        table[i] = ((const u32*)(arena + view.table))[i];
    __syncthreads();

    // The view goes back and forth between the resize's memory and its home.
    u8* planes = arena + view.planes;
    u8* home = view.flags & IN_SHARED ? (u8*)(table + 3 * 256) : arena + view.spare;
    const u32 plane = view.width * view.height;
    u8* from = planes;
    u32 first = 0;
    u8 mean = 0;
    bool mean_is_known = false;
    for (;;) {
        const u32 end = end_of_run(ops, first, view.ops_len, mean_is_known);
        if (end == view.ops_len) break;
        const bool wants_mean = needs_mean(ops[end].kind);
        if (wants_mean || end > first) {
            const u64 lumas = change_all(from, home, plane, ops, first, end, mean);
            from = home;
            __syncthreads();
            if (wants_mean) mean = rounded_mean(block_sum(lumas, partial), plane);
        }
        mean_is_known = wants_mean;
        first = end;
        if (wants_mean) continue;
        u8* to = from == home ? planes : home;
        change_view(from, to, view.width, view.height, ops[end]);
        from = to;
        first = end + 1;
        __syncthreads();
    }
    if (!(view.flags & BLOCKS)) {
        write_out(arena, view, from, table, ops, first, mean, partial);
        return;
    }
    // A thread needs the levels of its neighbours.
    if (first < view.ops_len) {
        change_all(from, from, plane, ops, first, view.ops_len, mean);
        __syncthreads();
    }
    write_blocks(arena, view, from, table);
}
