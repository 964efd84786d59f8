// What a compiled kernel and the emulated driver know of each other.
#pragma once
#include <cstddef>

struct EmulatedIndex {
    unsigned x, y, z;
};

// What the kernels of a module read, and the thread that runs calls. The driver writes it.
struct EmulatedBlock {
    EmulatedIndex thread, block, block_size, grid_size;
    // Dynamic shared memory.
    unsigned char* shared;
    // Comes back when all threads of the block, or of the warp, have come to this line.
    void (*wait)(int line, bool warp_alone);
    // What each thread of the block tells the others of its warp.
    unsigned long long* said;
};

struct EmulatedKernel {
    void (*run)(void** arguments);
    const size_t* argument_bytes;
    size_t arguments;
    // As in __launch_bounds__; 0 where it has none.
    unsigned threads_max;
};
