// CUDA twin of plain.rs, byte for byte: both passes in 22-bit fixed point with the host's own
// weights, rounded to u8 in between. A block makes one tile of a view; the rows that it needs
// stay in shared memory between the passes, `u8[source_rows, columns, 3]`.

#define WEIGHT_BITS 22

__device__ u8 clipped_level(i32 sum) {
    i32 level = sum >> WEIGHT_BITS;
    return (u8)(level < 0 ? 0 : level > 255 ? 255 : level);
}

__device__ void resize_across(const u8* arena, const View& view, const Tile& tile, u8* between) {
    const Span* spans = (const Span*)(arena + view.across);
    const i32* weights = (const i32*)(arena + view.weights);
    const u64 green = view.source_channel, blue = 2 * view.source_channel;
    const u32 pixels = tile.source_rows * tile.columns;
    for (u32 i = threadIdx.x; i < pixels; i += blockDim.x) {
        const u32 row = i / tile.columns, x = tile.left + i % tile.columns;
        const u8* line = arena + view.source + (tile.first_row + row) * view.source_row;
        u8* to = between + 3 * i;
        if (view.flags & KEEPS_WIDTH) {
            const u8* at = line + (u64)x * view.source_pixel;
            to[0] = at[0];
            to[1] = at[green];
            to[2] = at[blue];
            continue;
        }
        const Span span = spans[x];
        const u8* at = line + (u64)span.first * view.source_pixel;
        i32 red_sum = 1 << (WEIGHT_BITS - 1), green_sum = red_sum, blue_sum = red_sum;
        for (u32 tap = 0; tap < span.count; tap++) {
            const i32 weight = weights[span.weight + tap];
            red_sum += weight * at[0];
            green_sum += weight * at[green];
            blue_sum += weight * at[blue];
            at += view.source_pixel;
        }
        to[0] = clipped_level(red_sum);
        to[1] = clipped_level(green_sum);
        to[2] = clipped_level(blue_sum);
    }
}

__device__ void resize_down(u8* arena, const View& view, const Tile& tile, const u8* between) {
    const Span* spans = (const Span*)(arena + view.down);
    const i32* weights = (const i32*)(arena + view.weights);
    const u64 plane = (u64)view.width * view.height;
    const u32 pixels = tile.rows * tile.columns, row_bytes = 3 * tile.columns;
    for (u32 i = threadIdx.x; i < pixels; i += blockDim.x) {
        const u32 row = i / tile.columns, column = i % tile.columns;
        const u32 y = tile.top + row;
        u8 levels[3];
        if (view.flags & KEEPS_HEIGHT) {
            const u8* at = between + row * row_bytes + 3 * column;
            levels[0] = at[0];
            levels[1] = at[1];
            levels[2] = at[2];
        } else {
            const Span span = spans[y];
            const u8* at = between + (span.first - tile.first_row) * row_bytes + 3 * column;
            i32 red_sum = 1 << (WEIGHT_BITS - 1), green_sum = red_sum, blue_sum = red_sum;
            for (u32 tap = 0; tap < span.count; tap++) {
                const i32 weight = weights[span.weight + tap];
                red_sum += weight * at[0];
                green_sum += weight * at[1];
                blue_sum += weight * at[2];
                at += row_bytes;
            }
            levels[0] = clipped_level(red_sum);
            levels[1] = clipped_level(green_sum);
            levels[2] = clipped_level(blue_sum);
        }
        const u32 x = tile.left + column;
        const u32 to_x = view.flags & MIRRORED ? view.width - 1 - x : x;
        u8* to = arena + view.planes + (u64)y * view.width + to_x;
        to[0] = levels[0];
        to[plane] = levels[1];
        to[2 * plane] = levels[2];
    }
}
