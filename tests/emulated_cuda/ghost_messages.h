// What a process tells its ghost, over a socket of a stream.
#pragma once
#include <cstdint>

namespace emulated {

// Its socket in the ghost.
const int GHOST_SOCKET = 3;

enum class GhostWord : uint64_t {
    // Memory of this number: its descriptor comes with the message.
    Memory,
    // A write of this number is queued: to memory `memory`, `bytes` bytes from `offset` on, which follow.
    Queued,
    // It is done, or will not be.
    Done,
    // The context was given back: nothing is left to be done.
    End,
};

struct GhostMessage {
    GhostWord word;
    uint64_t number, memory, offset, bytes;
};

}  // namespace emulated
