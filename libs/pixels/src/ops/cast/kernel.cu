// CUDA twin of cast/plain.rs: each level of each channel is looked up in the host's own table,
// `u32[3, 256]`, which holds the element's bits in its lower bytes.

__device__ void write_element(u8* out, u64 at, u32 element_bytes, u32 bits) {
    if (element_bytes == 1) {
        out[at] = (u8)bits;
    } else if (element_bytes == 2) {
        ((u16*)out)[at] = (u16)bits;
    } else {
        ((u32*)out)[at] = bits;
    }
}
