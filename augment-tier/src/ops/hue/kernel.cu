// CUDA twin of hue/plain.rs, byte for byte: binary32 and binary64 are mixed as they are there, and
// no product is fused with a sum.

__device__ Pixel shift_hue(Pixel pixel, u32 shift) {
    const u8 red = pixel.red, green = pixel.green, blue = pixel.blue;
    const u8 larger = red > green ? red : green, smaller = red < green ? red : green;
    const u8 max = larger > blue ? larger : blue, min = smaller < blue ? smaller : blue;
    u8 hue = 0, saturation = 0;
    if (min != max) {
        const f32 range = (f32)(max - min);
        const f32 rc = __fdiv_rn((f32)(max - red), range);
        const f32 gc = __fdiv_rn((f32)(max - green), range);
        const f32 bc = __fdiv_rn((f32)(max - blue), range);
        f32 sixths;
        if (red == max) {
            sixths = __fsub_rn(bc, gc);
        } else if (green == max) {
            sixths = (f32)__dsub_rn(__dadd_rn(2.0, (f64)rc), (f64)bc);
        } else {
            sixths = (f32)__dsub_rn(__dadd_rn(4.0, (f64)gc), (f64)rc);
        }
        const f64 turns = __dadd_rn(__ddiv_rn((f64)sixths, 6.0), 1.0);
        // Between 5/6 and 2, where what is left of a division by 1 is an exact difference.
        const f32 rest = (f32)(turns >= 1.0 ? __dsub_rn(turns, 1.0) : turns);
        hue = (u8)(u32)__dmul_rn((f64)rest, 255.0);
        saturation = (u8)(u32)__dmul_rn((f64)__fdiv_rn(range, (f32)max), 255.0);
    }
    hue = (u8)(hue + shift);
    if (saturation == 0) return Pixel{max, max, max};

    const f64 sixths = __ddiv_rn(__dmul_rn((f64)hue, 6.0), 255.0);
    const u32 sector = (u32)sixths;
    const f64 rest = (f64)(f32)__dsub_rn(sixths, (f64)sector);
    const f32 share = (f32)__ddiv_rn((f64)saturation, 255.0);
    const f64 value = (f64)max;
    const u8 p = (u8)(u32)round(__dmul_rn(value, __dsub_rn(1.0, (f64)share)));
    const u8 q = (u8)(u32)round(__dmul_rn(value, __dsub_rn(1.0, (f64)__fmul_rn(share, (f32)rest))));
    const f64 darker = __dsub_rn(1.0, __dmul_rn((f64)share, __dsub_rn(1.0, rest)));
    const u8 t = (u8)(u32)round(__dmul_rn(value, darker));
    switch (sector % 6) {
        case 0: return Pixel{max, t, p};
        case 1: return Pixel{q, max, p};
        case 2: return Pixel{p, max, t};
        case 3: return Pixel{p, q, max};
        case 4: return Pixel{t, p, max};
        default: return Pixel{max, p, q};
    }
}
