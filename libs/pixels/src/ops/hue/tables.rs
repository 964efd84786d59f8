//! Numbers that the faster twins share.

/// Bit n is set where a quotient of exactly n gives the hue n - 1: what Pillow's roundings come
/// to.
pub(super) const ONE_LESS: [u32; 8] =
    [0xffff_fffe, 0, 0x1100_0000, 0x0111, 0x222a_aaaa, 0x2323_2222, 0x0002_2222, 0];
