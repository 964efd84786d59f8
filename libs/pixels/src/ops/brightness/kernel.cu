// CUDA twin of brightness/plain.rs: a blend with black.

__device__ Pixel brighten(Pixel pixel, f32 factor) {
    pixel.red = blend(0, pixel.red, factor);
    pixel.green = blend(0, pixel.green, factor);
    pixel.blue = blend(0, pixel.blue, factor);
    return pixel;
}
