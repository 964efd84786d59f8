// CUDA twin of blend/plain.rs, byte for byte: product and sum are rounded one after the other,
// which a compiler that fuses them would not do.

__device__ u8 blend(u8 degenerate, u8 value, f32 factor) {
    const f32 difference = (f32)((i32)value - (i32)degenerate);
    const f32 blended = __fadd_rn((f32)degenerate, __fmul_rn(factor, difference));
    // Not a number is 0 here too: it is not above 0.
    const f32 lifted = blended > 0.0f ? blended : 0.0f;
    return (u8)(u32)(lifted < 255.0f ? lifted : 255.0f);
}
