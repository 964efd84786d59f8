// CUDA twin of solarize/plain.rs.

__device__ u8 solarize_level(u8 level, u32 threshold) {
    return level >= threshold ? (u8)(255 - level) : level;
}

__device__ Pixel solarize(Pixel pixel, u32 threshold) {
    return Pixel{solarize_level(pixel.red, threshold), solarize_level(pixel.green, threshold),
                 solarize_level(pixel.blue, threshold)};
}
