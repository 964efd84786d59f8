// What host and kernels agree on about JPEGs. `decode/record.rs` writes these structures. Which way a
// component is upsampled, what the segments are and what a coefficient may be: see libs/jpeg, whose plain
// versions these kernels equal, byte for byte.

typedef short i16;

// One component of an image.
struct Component {
    u64 plane;       // u8[rows of blocks * 8, stride]: its samples
    u64 steps;       // u16[64]: quantisation, row by row
    u32 stride;
    u32 width;       // samples of a row, without those that only fill blocks
    u32 height;
    u32 h, v;        // blocks of an MCU across and down
    u32 first;       // its first block in an MCU
    u32 dc, ac;      // where its Huffman tables begin, in units
    u32 method;      // how it is upsampled
    u32 h_times, v_times;
    u32 padding;
};
static_assert(sizeof(Component) == 64, "decode/record.rs writes 64 bytes");

#define UPSAMPLE_FULL 0u
#define UPSAMPLE_H2V1 1u
#define UPSAMPLE_H1V2 2u
#define UPSAMPLE_H2V2 3u
#define UPSAMPLE_REPLICATE 4u

// One image.
struct Jpeg {
    u64 coded;         // u32[words_len], big-endian: the coded pixels without stuffing, and zeros
    u64 tables;        // u32[table_words]: Huffman tables
    u64 segments;      // Segment[..], which hold all MCUs in order; find_entries may write them
    u64 coefficients;  // i16[mcus * mcu_blocks, 64]: row by row, not dequantised
    u64 status;        // u32: what has been found amiss, 0 where nothing has
    u64 pixels;        // u8[height, width, 3]
    u32 words_len;
    u32 bits;          // of `coded`
    u32 table_words;
    u32 width, height;
    u32 mcus_across, mcus;
    u32 mcu_blocks;
    u32 components_len;
    u32 colour;
    u32 first_block[2];  // number of the first block of threads of make_samples, and of make_pixels
    Component components[3];
};
static_assert(sizeof(Jpeg) == 288, "decode/record.rs writes 288 bytes");

#define COLOUR_GRAY 0u
#define COLOUR_YCC 1u
#define COLOUR_RGB 2u

#define OF_SAMPLES 0u
#define OF_PIXELS 1u

// What a status is made of.
#define DAMAGED 1u
#define OUT_OF_RANGE 2u
#define WRONG_ENTRY 4u
#define NOT_IN_STEP 8u

// Bits of a scan that can be decoded without the rest.
struct Segment {
    u32 bit;           // the first one
    u32 mcu, mcus;
    u32 end;           // what must be so behind the last MCU
    u32 end_bit;
    i32 predictors[3];
    i32 end_predictors[3];
    u32 padding;
};
static_assert(sizeof(Segment) == 48, "decode/record.rs writes 48 bytes");

#define END_PADDED 0u  // less than a byte is left before `end_bit`
#define END_AT 1u      // the next segment begins at `end_bit`, with `end_predictors`

// What a thread takes on at most, for which all others of the part wait. `decode/record.rs` has the same numbers.
#define SEGMENT_BITS_MAX (1u << 18)
#define SEGMENT_BLOCKS_MAX (1u << 14)

// Segments of one image that a block of threads decodes.
struct Group {
    u32 jpeg;
    u32 first, count;  // a count of 0 until find_entries has found them
    u32 padding;
};
static_assert(sizeof(Group) == 16, "decode/record.rs writes 16 bytes");

// Threads of a block that decodes bits: a warp.
#define LANES 32u

// A Huffman table: u16[1 << FIRST_BITS], and then blocks of u16[1 << SECOND_BITS] for longer codes. A number is a symbol,
// and from bit 8 on the bits of its code; 0 where no code begins so. Below 256 it is that of the block, counted in
// blocks from the begin of the table, that the next bits are looked up in.
#define FIRST_BITS 9u
#define SECOND_BITS 7u
// Numbers of u16 that the begin of a table is counted in.
#define TABLE_UNIT 128u

// The image that a block of threads works on, where each image has some of them.
__device__ const Jpeg& jpeg_of_block(const u8* arena, u64 jpegs, u64 jpegs_len, u32 of) {
    const Jpeg* all = (const Jpeg*)(arena + jpegs);
    u32 from = 0, to = (u32)jpegs_len;
    while (to - from > 1) {
        const u32 middle = (from + to) / 2;
        if (all[middle].first_block[of] <= blockIdx.x) {
            from = middle;
        } else {
            to = middle;
        }
    }
    return all[from];
}

// The component of a block of an MCU.
__device__ u32 component_of(const Jpeg& jpeg, u32 block) {
    u32 component = 0;
    while (component + 1 < jpeg.components_len && block >= jpeg.components[component + 1].first) component++;
    return component;
}
