// CUDA twin of hue/plain.rs, byte for byte, in whole numbers: the steps that hue/avx2.rs explains. A division that a
// GPU has no instruction for is guessed, and its rest tells.

// Bit n is set where a quotient of exactly n gives the hue n - 1 (hue/tables.rs).
__constant__ u32 HUE_ONE_LESS[8] = {
    0xfffffffeu, 0u, 0x11000000u, 0x00000111u, 0x222aaaaau, 0x23232222u, 0x00022222u, 0u,
};

// n without the rest of its division by d, which is not 0; both are below 2^16, and `quotient` says how often d is in it.
__device__ u32 hue_divided(u32 n, u32 d, u32& quotient) {
    u32 guess = (u32)__fdividef((f32)n, (f32)d);
    // No more than one from the truth.
    if (guess * d > n) guess--;
    if (n - guess * d >= d) guess++;
    quotient = guess;
    return guess * d;
}

// The hue of a pixel whose range of levels is not 0. `away`: the middle channel less the smallest.
__device__ u32 hue_of(Pixel pixel, u32 max, u32 range, u32 away) {
    u32 quotient;
    const bool is_exact = hue_divided(85 * away, 2 * range, quotient) == 85 * away;
    const bool is_red = pixel.red == max, is_green = !is_red && pixel.green == max;
    const bool is_down = is_red     ? pixel.green < pixel.blue
                         : is_green ? pixel.blue < pixel.red
                                    : pixel.red < pixel.green;
    const u32 start = is_red ? (is_down ? 255 : 0) : is_green ? 85 : 170;
    // Down is rounded up.
    const u32 hue = is_down ? start - quotient - !is_exact : start + quotient;
    return is_exact ? hue - (HUE_ONE_LESS[hue % 256 / 32] >> (hue % 32) & 1) : hue;
}

__device__ Pixel shift_hue(Pixel pixel, u32 shift) {
    const u32 red = pixel.red, green = pixel.green, blue = pixel.blue;
    const u32 low = red < green ? red : green, high = red < green ? green : red;
    const u32 min = low < blue ? low : blue, max = high > blue ? high : blue;
    if (min == max) return pixel;
    const u32 range = max - min, away = red + green + blue - max - 2 * min;
    const u32 hue = (hue_of(pixel, max, range, away) + shift) % 256;

    // Where the hue lies in its third; 85 of the last is as good as 0.
    u32 third = hue < 85 ? hue : hue - 85;
    if (third >= 85) third -= 85;
    const u32 w = 6 * third < 255 ? 255 - 6 * third : 6 * third - 255;
    u32 saturation;
    // Value times saturation.
    const u32 coloured = hue_divided(255 * range, max, saturation);
    const u8 p = (u8)(max - (coloured + 127) / 255);
    const u8 between = (u8)(max - (coloured * w + 32512) / 65025);
    const u8 value = (u8)max;
    return Pixel{hue >= 213 || hue < 43 ? value : hue >= 85 && hue < 170 ? p : between,
                 hue >= 43 && hue < 128 ? value : hue >= 170 ? p : between,
                 hue >= 128 && hue < 213 ? value : hue < 85 ? p : between};
}
