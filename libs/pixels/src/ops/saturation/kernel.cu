// CUDA twin of saturation/plain.rs: a blend with the luma of each pixel.

__device__ Pixel saturate_colours(Pixel pixel, f32 factor) {
    const u8 gray = luma(pixel);
    pixel.red = blend(gray, pixel.red, factor);
    pixel.green = blend(gray, pixel.green, factor);
    pixel.blue = blend(gray, pixel.blue, factor);
    return pixel;
}
