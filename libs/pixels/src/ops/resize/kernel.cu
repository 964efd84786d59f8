// CUDA twin of plain.rs, byte for byte: both passes in 22-bit fixed point with the host's own
// weights, rounded to u8 in between. A block makes one tile of a view; what the first pass makes
// stays in shared memory: `u8[source_len, columns, 3]`, or `u8[rows, source_len, 3]` where the
// vertical pass is first.

#define WEIGHT_BITS 22

__device__ u8 clipped_level(i32 sum) {
    i32 level = sum >> WEIGHT_BITS;
    return (u8)(level < 0 ? 0 : level > 255 ? 255 : level);
}

// One axis: where its taps lie, or that its positions are made of themselves.
struct Along {
    const Span* spans;
    const i32* weights;
    bool is_kept;
};

__device__ Along along(const u8* arena, const View& view, u64 spans, u32 keeps) {
    return Along{(const Span*)(arena + spans), (const i32*)(arena + view.weights),
                 (view.flags & keeps) != 0};
}

// The pixel at a position of an axis. At `source` lies the source's position `first`; positions are
// `step` bytes apart, channels `channel` bytes.
__device__ Pixel resized(const Along& axis, u32 position, const u8* source, u32 first, u64 step,
                         u64 channel) {
    if (axis.is_kept) {
        const u8* at = source + (position - first) * step;
        return Pixel{at[0], at[channel], at[2 * channel]};
    }
    const Span span = axis.spans[position];
    const u8* at = source + (span.first - first) * step;
    i32 red = 1 << (WEIGHT_BITS - 1), green = red, blue = red;
    for (u32 tap = 0; tap < span.count; tap++) {
        const i32 weight = axis.weights[span.weight + tap];
        red += weight * at[0];
        green += weight * at[channel];
        blue += weight * at[2 * channel];
        at += step;
    }
    return Pixel{clipped_level(red), clipped_level(green), clipped_level(blue)};
}

// From the image to `between`.
__device__ void resize_first(const u8* arena, const View& view, const Tile& tile, u8* between) {
    const bool vertical = view.flags & VERTICAL_FIRST;
    const Along axis = vertical ? along(arena, view, view.down, KEEPS_HEIGHT)
                                : along(arena, view, view.across, KEEPS_WIDTH);
    const u64 step = vertical ? view.source_row : view.source_pixel;
    const u32 rows = vertical ? tile.rows : tile.source_len;
    const u32 columns = vertical ? tile.source_len : tile.columns;
    for (u32 i = threadIdx.x; i < rows * columns; i += blockDim.x) {
        const u32 row = i / columns, column = i % columns;
        const u64 line = vertical ? (u64)(tile.source_first + column) * view.source_pixel
                                  : (u64)(tile.source_first + row) * view.source_row;
        const u32 position = vertical ? tile.top + row : tile.left + column;
        const u8* source = arena + view.source + line;
        const Pixel pixel = resized(axis, position, source, 0, step, view.source_channel);
        between[3 * i] = pixel.red;
        between[3 * i + 1] = pixel.green;
        between[3 * i + 2] = pixel.blue;
    }
}

// From `between` to the view's planes.
__device__ void resize_second(u8* arena, const View& view, const Tile& tile, const u8* between) {
    const bool vertical = view.flags & VERTICAL_FIRST;
    const Along axis = vertical ? along(arena, view, view.across, KEEPS_WIDTH)
                                : along(arena, view, view.down, KEEPS_HEIGHT);
    const u64 step = vertical ? 3 : 3 * tile.columns;
    const u64 plane = (u64)view.width * view.height;
    const u32 pixels = tile.rows * tile.columns;
    for (u32 i = threadIdx.x; i < pixels; i += blockDim.x) {
        const u32 row = i / tile.columns, column = i % tile.columns;
        const u32 y = tile.top + row, x = tile.left + column;
        const u8* source = between + 3 * (vertical ? row * tile.source_len : column);
        const Pixel pixel = resized(axis, vertical ? x : y, source, tile.source_first, step, 1);
        const u32 to_x = view.flags & MIRRORED ? view.width - 1 - x : x;
        u8* to = arena + view.planes + (u64)y * view.width + to_x;
        to[0] = pixel.red;
        to[plane] = pixel.green;
        to[2 * plane] = pixel.blue;
    }
}
