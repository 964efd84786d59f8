// The late GPU of a killed process.
//
// With EMULATED_CUDA_GHOST_MS a process that has a context has a ghost: a process beside it that knows of
// each write to imported memory that is queued and not done. When the first process is gone, whatever
// ended it, the ghost waits so many milliseconds and then does those writes.
//
// Bytes are those that the source had when the copy was queued. So a copy that is queued before its
// source is final writes what was there before.
#pragma once
#include "memory.h"

namespace emulated {

// Called when the context is made, and when it is given back.
void begin_ghost();
void end_ghost();
// Tells the ghost of memory; the number that names it from here on, 0 where there is no ghost.
uint64_t tell_ghost_of(int pages);
// Tells it of a write that is queued; the number of the write, 0 where it does not concern the ghost.
uint64_t queued(const DeviceRange& target, const void* bytes, size_t count);
// The write runs here. With EMULATED_CUDA_STANDS_STILL_AT=N the N-th that was queued never does: this
// process's GPU stands still from here on, and so does whoever asks it for anything.
void runs_here(uint64_t write);

}  // namespace emulated
