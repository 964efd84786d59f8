// Modules: machine code of this processor in the place of a GPU's.
#pragma once

namespace emulated {

// What a module begins with, made by the emulated NVRTC. The code of a shared object follows.
struct ImageHead {
    char magic[8];
    char architecture[16];
    unsigned long long bytes;
};
inline const char IMAGE_MAGIC[8] = {'E', 'M', 'U', 'C', 'U', 'B', 'N', '2'};

void forget_modules();

}  // namespace emulated
