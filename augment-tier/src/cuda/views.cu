// The kernels. One launch of each works on all views of all samples of a part.

// Pixels that a thread has at a time where planes permit: one load of each plane, and work on one pixel while
// another one's is under way.
#define AT_ONCE 4u

// Operations that look at one pixel alone, from number `first` to before `end`.
template <u32 N>
__device__ void change(Pixel (&pixels)[N], const Op* ops, u32 first, u32 end, u8 mean) {
    for (u32 number = first; number < end; number++) {
        const u32 kind = ops[number].kind, level = ops[number].level;
        const f32 factor = ops[number].values[0];
#pragma unroll
        for (u32 n = 0; n < N; n++) {
            switch (kind) {
                case OP_BRIGHTNESS: pixels[n] = brighten(pixels[n], factor); break;
                case OP_CONTRAST: pixels[n] = spread_about(pixels[n], mean, factor); break;
                case OP_SATURATION: pixels[n] = saturate_colours(pixels[n], factor); break;
                case OP_HUE: pixels[n] = shift_hue(pixels[n], level); break;
                case OP_GRAYSCALE: pixels[n] = grayscale(pixels[n]); break;
                default: pixels[n] = solarize(pixels[n], level); break;
            }
        }
    }
}

// One past the last of the operations from `first` on that need no other pixel. A contrast is one
// of them where the mean is known, which holds at `first` alone.
__device__ u32 end_of_run(const Op* ops, u32 first, u32 ops_len, bool mean_is_known) {
    u32 end = first;
    if (mean_is_known && end < ops_len && ops[end].kind == OP_CONTRAST) end++;
    while (end < ops_len && ops[end].kind != OP_CONTRAST && ops[end].kind != OP_BLUR &&
           ops[end].kind != OP_FLIP)
        end++;
    return end;
}

__device__ u32 four_levels(const u8* at) { return *(const u32*)at; }

__device__ u8 level_of(u32 four, u32 n) { return (u8)(four >> (8 * n)); }

// Pixels from number `at` on. Four lie at a multiple of four.
template <u32 N>
__device__ void load(Pixel (&pixels)[N], const u8* planes, u32 plane, u32 at) {
    const u8* red = planes + at;
    if (N == AT_ONCE) {
        const u32 reds = four_levels(red), greens = four_levels(red + plane);
        const u32 blues = four_levels(red + 2 * (u64)plane);
#pragma unroll
        for (u32 n = 0; n < N; n++) pixels[n] = Pixel{level_of(reds, n), level_of(greens, n), level_of(blues, n)};
    } else {
        pixels[0] = Pixel{red[0], red[plane], red[2 * (u64)plane]};
    }
}

template <u32 N>
__device__ void store(const Pixel (&pixels)[N], u8* planes, u32 plane, u32 at) {
    u32 reds = 0, greens = 0, blues = 0;
#pragma unroll
    for (u32 n = 0; n < N; n++) {
        reds |= (u32)pixels[n].red << (8 * n);
        greens |= (u32)pixels[n].green << (8 * n);
        blues |= (u32)pixels[n].blue << (8 * n);
    }
    u8* red = planes + at;
    if (N == AT_ONCE) {
        *(u32*)red = reds;
        *(u32*)(red + plane) = greens;
        *(u32*)(red + 2 * (u64)plane) = blues;
    } else {
        red[0] = (u8)reds;
        red[plane] = (u8)greens;
        red[2 * (u64)plane] = (u8)blues;
    }
}

template <u32 N>
__device__ u64 change_some(const u8* from, u8* to, u32 plane, const Op* ops, u32 first, u32 end, u8 mean) {
    u64 lumas = 0;
    for (u32 i = N * threadIdx.x; i < plane; i += N * blockDim.x) {
        Pixel pixels[N];
        load(pixels, from, plane, i);
        change(pixels, ops, first, end, mean);
        store(pixels, to, plane, i);
#pragma unroll
        for (u32 n = 0; n < N; n++) lumas += luma(pixels[n]);
    }
    return lumas;
}

// Changes all pixels on their way from `from` to `to`, which may be the same, and gives the sum of
// the lumas of those that this thread has changed.
__device__ u64 change_all(const u8* from, u8* to, u32 plane, const Op* ops, u32 first, u32 end, u8 mean) {
    return plane % AT_ONCE == 0 ? change_some<AT_ONCE>(from, to, plane, ops, first, end, mean)
                                : change_some<1>(from, to, plane, ops, first, end, mean);
}

// The elements of N levels of a channel.
template <u32 N>
__device__ void write_elements(u8* out, u32 at, u32 element_bytes, const u32* table, const u8 (&levels)[N]) {
    if (N != AT_ONCE) {
        write_element(out, at, element_bytes, table[levels[0]]);
        return;
    }
    u64 low = 0, high = 0;
#pragma unroll
    for (u32 n = 0; n < N; n++) {
        const u64 bits = table[levels[n]];
        if (element_bytes == 4) {
            (n < 2 ? low : high) |= bits << (32 * (n % 2));
        } else {
            low |= bits << (8 * element_bytes * n);
        }
    }
    if (element_bytes == 1) {
        ((u32*)out)[at / AT_ONCE] = (u32)low;
    } else if (element_bytes == 2) {
        ((u64*)out)[at / AT_ONCE] = low;
    } else {
        ((u64*)out)[at / 2] = low;
        ((u64*)out)[at / 2 + 1] = high;
    }
}

// N of the row's pixels at a time; more than one where the row is the whole view.
template <u32 N>
__device__ void write_some(u8* out, const View& view, const u8* from, const u32* table, const Op* ops, u32 first,
                           u8 mean, Range (&ranges)[3]) {
    const u32 plane = view.width * view.height, out_plane = view.out_width * view.out_height;
    const bool is_whole = plane == out_plane;
    const bool ranged = view.flags & RANGES;
    const u64 channel = (u64)out_plane * view.element_bytes;
    for (u32 i = N * threadIdx.x; i < out_plane; i += N * blockDim.x) {
        u32 at = i;
        if (N == 1 && !is_whole) {
            const u32 y = i / view.out_width;
            at = (view.cut_top + y) * view.width + view.cut_left + i - y * view.out_width;
        }
        Pixel pixels[N];
        load(pixels, from, plane, at);
        change(pixels, ops, first, view.ops_len, mean);
        u8 reds[N], greens[N], blues[N];
#pragma unroll
        for (u32 n = 0; n < N; n++) {
            reds[n] = pixels[n].red;
            greens[n] = pixels[n].green;
            blues[n] = pixels[n].blue;
            if (!ranged) continue;
            ranges[0] = widened(ranges[0], pixels[n].red);
            ranges[1] = widened(ranges[1], pixels[n].green);
            ranges[2] = widened(ranges[2], pixels[n].blue);
        }
        write_elements(out, i, view.element_bytes, table, reds);
        write_elements(out + channel, i, view.element_bytes, table + 256, greens);
        write_elements(out + 2 * channel, i, view.element_bytes, table + 512, blues);
    }
}

// The last operations, and the elements.
__device__ void write_out(u8* arena, const View& view, const u8* from, const u32* table,
                          const Op* ops, u32 first, u8 mean, u64* partial) {
    const u64 plane = (u64)view.width * view.height;
    const u64 out_plane = (u64)view.out_width * view.out_height;
    u8* out = arena + view.out;
    Range ranges[3] = {{255, 0}, {255, 0}, {255, 0}};
    // Where all four elements of a channel can be written at once.
    const u64 unit = view.element_bytes == 1 ? 4 : 8;
    const bool are_aligned = (view.out | out_plane * view.element_bytes) % unit == 0;
    if (plane == out_plane && plane % AT_ONCE == 0 && are_aligned) {
        write_some<AT_ONCE>(out, view, from, table, ops, first, mean, ranges);
    } else {
        write_some<1>(out, view, from, table, ops, first, mean, ranges);
    }
    if (!(view.flags & RANGES)) return;
    u8* to = out + 3 * out_plane * view.element_bytes;
    for (u32 channel = 0; channel < 3; channel++) write_range(to + 2 * channel, ranges[channel], partial);
}

// Crop and resize: a block for each tile. Shared memory: what the first pass makes of the largest
// tile.
extern "C" __global__ void resize_tiles(u8* arena, u64 views, u64 tiles) {
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
    const View view = ((const View*)(arena + views))[((const u32*)(arena + order))[blockIdx.x]];
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
        const bool wants_mean = ops[end].kind == OP_CONTRAST;
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
        if (ops[end].kind == OP_BLUR) {
            blur(from, to, view.width, view.height, ops[end].values);
        } else {
            flip(from, to, view.width, view.height);
        }
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
