// A device that is not there: an arena of memory and kernels, driven over standard input.
//
//   M bytes              takes the arena
//   U offset bytes ..    copies bytes to the arena
//   L kernel grid threads shared_bytes first second
//   D offset bytes       writes bytes of the arena to standard output
//
// A command is one letter; numbers are u64 of the processor's byte order. It ends with its input.
#include "cuda_words.h"

#include KERNEL_SOURCE

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace emulation {
thread_local Index thread;
Index block, block_size, grid_size;
unsigned char* shared = nullptr;
std::barrier<>* threads_of_block = nullptr;
std::deque<Warp> warps;
}  // namespace emulation

namespace {

using Kernel = void (*)(u8*, u64, u64);
const Kernel KERNELS[] = {find_entries, decode_bits,  make_samples, make_pixels,
                          resize_tiles, finish_views, sum_rows};

// What nobody has written is neither zero nor the same as in the block before.
const unsigned char UNWRITTEN = 0xa5;

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "emulation: %s\n", what);
    std::exit(1);
}

void take(void* to, size_t bytes) {
    if (std::fread(to, 1, bytes, stdin) != bytes) fail("the input ends within a command");
}

u64 number() {
    uint64_t value;
    take(&value, sizeof value);
    return value;
}

void launch(Kernel kernel, u8* arena, unsigned grid, unsigned threads, size_t shared_bytes,
            u64 first, u64 second) {
    std::barrier<> threads_of_block(threads);
    // Exactly as much as was asked for, so that a step beyond it is seen.
    std::vector<std::unique_ptr<unsigned char[]>> shared(grid);
    emulation::threads_of_block = &threads_of_block;
    emulation::warps.clear();
    for (unsigned first = 0; first < threads; first += 32)
        emulation::warps.emplace_back(threads < 32 ? threads : 32);
    emulation::block_size.x = threads;
    emulation::grid_size.x = grid;
    for (unsigned block = 0; block < grid; block++) {
        shared[block].reset(new unsigned char[shared_bytes]);
        std::memset(shared[block].get(), UNWRITTEN, shared_bytes);
        emulation::block.x = block;
        emulation::shared = shared[block].get();
        std::vector<std::thread> running;
        for (unsigned thread = 0; thread < threads; thread++) {
            running.emplace_back([=] {
                emulation::thread.x = thread;
                kernel(arena, first, second);
            });
        }
        for (auto& thread : running) thread.join();
        shared[block].reset();
    }
}

}  // namespace

int main() {
    std::unique_ptr<u8[]> arena;
    u64 arena_bytes = 0;
    auto within = [&](u64 offset, u64 bytes) {
        if (offset > arena_bytes || bytes > arena_bytes - offset) fail("beyond the arena");
        return arena.get() + offset;
    };
    for (int command; (command = std::getchar()) != EOF;) {
        if (command == 'M') {
            arena_bytes = number();
            arena.reset(new u8[arena_bytes]);
            std::memset(arena.get(), UNWRITTEN, arena_bytes);
        } else if (command == 'U') {
            const u64 offset = number(), bytes = number();
            take(within(offset, bytes), bytes);
        } else if (command == 'L') {
            const u64 kernel = number();
            if (kernel >= sizeof KERNELS / sizeof *KERNELS) fail("no such kernel");
            const unsigned grid = number(), threads = number();
            const u64 shared_bytes = number(), first = number(), second = number();
            launch(KERNELS[kernel], arena.get(), grid, threads, shared_bytes, first, second);
        } else if (command == 'D') {
            const u64 offset = number(), bytes = number();
            std::fwrite(within(offset, bytes), 1, bytes, stdout);
            std::fflush(stdout);
        } else {
            fail("no such command");
        }
    }
}
