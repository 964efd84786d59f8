// Blocks of a kernel, one after the other, their threads in turns on one thread of the system.
//
// Threads run until they wait for the others or end. They take their turns forwards before a first
// barrier, backwards before the second one, and so on, so that what works in one order alone is seen.
#pragma once
#include "kernel_abi.h"

#include <string>
#include <vector>

namespace emulated {

// A module's own variables.
struct ModuleState {
    EmulatedBlock* block;
    // Where its __shared__ variables lie.
    unsigned char *shared_first, *shared_end;
};

struct Grid {
    std::string name;
    const EmulatedKernel* kernel;
    ModuleState module;
    EmulatedIndex blocks, threads;
    size_t shared_bytes;
    // One after the other, each beginning at a multiple of 8.
    std::vector<unsigned char> arguments;
};

void run_grid(Grid& grid);

}  // namespace emulated
