// What host and kernels agree on. `record.rs` writes these structures; the sizes are checked on
// both sides. All places are offsets in bytes from the start of the arena, the one allocation of
// device memory that a stream has.
//
// No header is included: NVRTC has none. The words of CUDA itself are the compiler's; the tests
// define them for a C++ compiler (tests/emulation) and run the very same text on the processor.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef float f32;
typedef double f64;

#ifndef SHARED_BYTES
#define SHARED_BYTES(name) extern __shared__ __align__(16) u8 name[]
#endif

// Most threads of a block of any kernel here.
#define BLOCK_THREADS_MAX 1024

// One view on its way from an image to a row of a tensor.
struct View {
    u64 source;          // first byte of the pixel at the axes' bases
    u64 source_row;      // bytes from one row to the next
    u64 source_channel;  // bytes from one channel of a pixel to the next
    u64 planes;          // u8[3, height, width]: what the resize writes
    u64 spare;           // as much again, where the view is too large for shared memory
    u64 out;             // elements [3, out_height, out_width]; behind them see the flags
    u64 across;          // Span[width]
    u64 down;            // Span[height]
    u64 weights;         // i32[..], which the spans point into
    u64 ops;             // Op[ops_len]
    u64 table;           // u32[3, 256]: what each level of each channel becomes; see BLOCKS
    u32 source_pixel;    // bytes from one pixel of a row to the next
    u32 width;
    u32 height;
    u32 flags;
    u32 ops_len;
    u32 cut_left;        // where the row's pixels begin in the view
    u32 cut_top;
    u32 out_width;
    u32 out_height;
    u32 element_bytes;   // 1, 2 or 4
};
static_assert(sizeof(View) == 128, "record.rs writes 128 bytes");

// Flags of a view.
#define KEEPS_WIDTH 1u   // no resize across; the source begins at the first wanted column
#define KEEPS_HEIGHT 2u  // no resize down
#define MIRRORED 4u      // written from right to left
#define IN_SHARED 8u     // changed in shared memory, else in `spare`
#define RANGES 16u       // behind the elements least and greatest level of each channel, u8[3, 2]
#define BLOCKS 32u       // behind the elements the scales of blocks, u8[3, out_height, blocks]
#define VERTICAL_FIRST 64u  // the resize makes its vertical pass first

// A tile of a view that one block resizes, with what it needs of the source along the axis of the
// second pass: rows, or columns where the vertical pass is first.
struct Tile {
    u32 view;
    u32 top, rows;
    u32 left, columns;
    u32 source_first, source_len;
    u32 padding;
};
static_assert(sizeof(Tile) == 32, "record.rs writes 32 bytes");

// The taps of one output position.
struct Span {
    u32 first;   // source position, counted from the axis' base
    u32 weight;  // number of the first weight
    u32 count;
};
static_assert(sizeof(Span) == 12, "record.rs writes 12 bytes");

struct Op {
    u32 kind;
    u32 level;      // shift of a hue, threshold of a solarisation
    f32 values[6];  // factor of a blend; weights of a blur by distance
};
static_assert(sizeof(Op) == 32, "record.rs writes 32 bytes");

struct Pixel {
    u8 red, green, blue;
};
