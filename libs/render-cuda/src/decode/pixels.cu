// Upsampling, libjpeg's smooth one where it has one, and colour conversion: a pixel a thread.

// Pixels of an image for each block of threads.
#define BLOCK_PIXELS 1024u

// The column or row of half as many beside that of `at`.
__device__ u32 beside(u32 at, u32 len) {
    const u32 near = at / 2;
    if (at % 2 == 0) return near > 0 ? near - 1 : 0;
    return near + 1 < len ? near + 1 : len - 1;
}

// The sample of a component at a pixel of the image.
__device__ i32 sample_at(const u8* arena, const Component& component, u32 x, u32 y) {
    const u8* plane = arena + component.plane;
    const u32 stride = component.stride;
    switch (component.method) {
        case UPSAMPLE_FULL: return plane[(u64)y * stride + x];
        case UPSAMPLE_H2V1: {
            const u8* row = plane + (u64)y * stride;
            return (3 * row[x / 2] + row[beside(x, component.width)] + (x % 2 == 0 ? 1 : 2)) >> 2;
        }
        case UPSAMPLE_H1V2: {
            const i32 near = plane[(u64)(y / 2) * stride + x];
            const i32 far = plane[(u64)beside(y, component.height) * stride + x];
            return (3 * near + far + (y % 2 == 0 ? 1 : 2)) >> 2;
        }
        case UPSAMPLE_H2V2: {
            const u8* near = plane + (u64)(y / 2) * stride;
            const u8* far = plane + (u64)beside(y, component.height) * stride;
            const u32 column = x / 2, other = beside(x, component.width);
            const i32 sum = 3 * near[column] + far[column], sum_beside = 3 * near[other] + far[other];
            return (3 * sum + sum_beside + (x % 2 == 0 ? 8 : 7)) >> 4;
        }
        default: return plane[(u64)(y / component.v_times) * stride + x / component.h_times];
    }
}

__device__ u8 clamped(i32 value) { return (u8)(value < 0 ? 0 : value > 255 ? 255 : value); }

__device__ Pixel of_ycc(i32 y, i32 cb, i32 cr) {
    cb -= 128;
    cr -= 128;
    const i32 half = 1 << 15;
    return Pixel{clamped(y + ((91881 * cr + half) >> 16)),
                 clamped(y + ((-22554 * cb - 46802 * cr + half) >> 16)),
                 clamped(y + ((116130 * cb + half) >> 16))};
}

// One block of threads for each BLOCK_PIXELS pixels of an image, row by row.
extern "C" __global__ void __launch_bounds__(256) make_pixels(u8* arena, u64 jpegs, u64 jpegs_len) {
    const Jpeg& jpeg = jpeg_of_block(arena, jpegs, jpegs_len, OF_PIXELS);
    const u32 first = (blockIdx.x - jpeg.first_block[OF_PIXELS]) * BLOCK_PIXELS;
    const u32 pixels = jpeg.width * jpeg.height;
    const u32 end = pixels - first < BLOCK_PIXELS ? pixels : first + BLOCK_PIXELS;
    for (u32 at = first + threadIdx.x; at < end; at += blockDim.x) {
        const u32 x = at % jpeg.width, y = at / jpeg.width;
        const i32 one = sample_at(arena, jpeg.components[0], x, y);
        Pixel pixel = {(u8)one, (u8)one, (u8)one};
        if (jpeg.colour != COLOUR_GRAY) {
            const i32 two = sample_at(arena, jpeg.components[1], x, y);
            const i32 three = sample_at(arena, jpeg.components[2], x, y);
            pixel = jpeg.colour == COLOUR_YCC ? of_ycc(one, two, three) : Pixel{(u8)one, (u8)two, (u8)three};
        }
        u8* to = arena + jpeg.pixels + 3 * (u64)at;
        to[0] = pixel.red;
        to[1] = pixel.green;
        to[2] = pixel.blue;
    }
}
