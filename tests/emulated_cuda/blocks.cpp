#include "blocks.h"

#include "memory.h"
#include "state.h"

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <memory>
#include <sys/mman.h>
#include <ucontext.h>

namespace emulated {

namespace {

const size_t PAGE = 4096;
const size_t STACK_BYTES = 64 << 10;
const unsigned char UNWRITTEN = 0xa5;

// A thread of a block: a stack, and where on it to go on.
struct Fiber {
    unsigned char* stack = nullptr;
    ucontext_t first;
    jmp_buf here;
    bool started = false;
    // What it waits for, and where.
    enum { Turn, Warp, Block, Nothing } waits = Turn;
    int line = 0;
};

const size_t WARP = 32;

std::vector<std::unique_ptr<Fiber>> fibers;
// The one that runs, and where it came from.
Fiber* running = nullptr;
jmp_buf turns;

const Grid* grid_now = nullptr;
std::vector<void*> arguments_now;

// Back to whoever gives out the turns, until the next one.
void pause() {
    if (!_setjmp(running->here)) _longjmp(turns, 1);
}

// One round for each block.
void live() {
    for (;;) {
        grid_now->kernel->run(arguments_now.data());
        running->waits = Fiber::Nothing;
        pause();
    }
}

void wait(int line, bool warp_alone) {
    running->waits = warp_alone ? Fiber::Warp : Fiber::Block;
    running->line = line;
    pause();
}

Fiber& fiber(size_t number) {
    while (fibers.size() <= number) {
        auto made = std::make_unique<Fiber>();
        void* stack = mmap(nullptr, STACK_BYTES + PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        // Whoever runs out of stack meets a page that nobody may touch.
        if (stack == MAP_FAILED || mprotect(stack, PAGE, PROT_NONE)) fail("no stack for a thread");
        made->stack = static_cast<unsigned char*>(stack) + PAGE;
        fibers.push_back(std::move(made));
    }
    return *fibers[number];
}

// Lets a fiber run until it pauses. This frame is alive meanwhile, which is what a jump back needs.
__attribute__((noinline)) void take_turn(Fiber& next) {
    running = &next;
    if (_setjmp(turns)) return;
    if (next.started) _longjmp(next.here, 1);
    next.started = true;
    getcontext(&next.first);
    next.first.uc_stack.ss_sp = next.stack;
    next.first.uc_stack.ss_size = STACK_BYTES;
    makecontext(&next.first, live, 0);
    setcontext(&next.first);
    fail("a thread of a block does not start");
}

// Dynamic shared memory whose end is followed by a page that nobody may touch.
struct Shared {
    size_t mapped, bytes;
    unsigned char *pages, *first;

    explicit Shared(size_t bytes) : mapped((bytes + PAGE - 1) / PAGE * PAGE + PAGE), bytes(bytes) {
        void* at = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) fail("no memory for %zu bytes of shared memory", bytes);
        pages = static_cast<unsigned char*>(at);
        unsigned char* end = pages + mapped - PAGE;
        mprotect(end, PAGE, PROT_NONE);
        first = end - (bytes + 15) / 16 * 16;
    }
    Shared(const Shared&) = delete;
    ~Shared() { munmap(pages, mapped); }

    void spoil() { std::memset(pages, UNWRITTEN, mapped - PAGE); }
    void check(const Grid& grid) const {
        check(grid, pages, first);
        check(grid, first + bytes, pages + mapped - PAGE);
    }
    void check(const Grid& grid, const unsigned char* at, const unsigned char* end) const {
        for (; at < end; at++)
            if (*at != UNWRITTEN)
                fail("%s: wrote to byte %td of %zu bytes of shared memory", grid.name.c_str(),
                     at - first, bytes);
    }
};

EmulatedIndex unfold(size_t number, EmulatedIndex size) {
    return {unsigned(number % size.x), unsigned(number / size.x % size.y),
            unsigned(number / size.x / size.y)};
}

// Lets threads go on that all wait for the same: those of a warp, or else those of a block. Says
// whether there were any.
bool let_go(const Grid& grid, size_t first, size_t end, decltype(Fiber::waits) what) {
    const auto waits = [&](size_t number) { return fibers[number]->waits == what; };
    size_t waiting = 0;
    for (size_t number = first; number < end; number++) waiting += waits(number);
    if (!waiting) return false;
    if (waiting < end - first)
        fail("%s: %zu of %zu threads of a %s end or wait elsewhere while the others wait",
             grid.name.c_str(), end - first - waiting, end - first,
             what == Fiber::Warp ? "warp" : "block");
    for (size_t number = first; number < end; number++) {
        if (fibers[number]->line != fibers[first]->line)
            fail("%s: threads wait in line %d and in line %d", grid.name.c_str(),
                 fibers[first]->line, fibers[number]->line);
        fibers[number]->waits = Fiber::Turn;
    }
    return true;
}

void run_block(const Grid& grid, size_t threads) {
    EmulatedBlock& state = *grid.module.block;
    for (size_t number = 0; number < threads; number++) fibers[number]->waits = Fiber::Turn;
    for (bool backwards = false, more = true; more; backwards = !backwards) {
        for (size_t turn = 0; turn < threads; turn++) {
            const size_t number = backwards ? threads - 1 - turn : turn;
            if (fibers[number]->waits != Fiber::Turn) continue;
            state.thread = unfold(number, grid.threads);
            take_turn(*fibers[number]);
        }
        more = false;
        for (size_t first = 0; first < threads; first += WARP)
            more |= let_go(grid, first, std::min(first + WARP, threads), Fiber::Warp);
        if (!more) more = let_go(grid, 0, threads, Fiber::Block);
    }
}

void on_fault(int, siginfo_t* fault, void*) {
    const EmulatedBlock& state = *grid_now->module.block;
    fail("%s: block %u,%u,%u thread %u,%u,%u touched %p, which is not the device's",
         grid_now->name.c_str(), state.block.x, state.block.y, state.block.z, state.thread.x,
         state.thread.y, state.thread.z, fault->si_addr);
}

// Says what a kernel did where the system would only end the process.
struct Watched {
    struct sigaction fault, bus;
    Watched() {
        struct sigaction ours = {};
        ours.sa_sigaction = on_fault;
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigaction(SIGSEGV, &ours, &fault);
        sigaction(SIGBUS, &ours, &bus);
        open_device(true);
    }
    Watched(const Watched&) = delete;
    ~Watched() {
        open_device(false);
        sigaction(SIGSEGV, &fault, nullptr);
        sigaction(SIGBUS, &bus, nullptr);
    }
};

}  // namespace

void run_grid(Grid& grid) {
    const size_t threads = size_t(grid.threads.x) * grid.threads.y * grid.threads.z;
    const size_t blocks = size_t(grid.blocks.x) * grid.blocks.y * grid.blocks.z;
    for (size_t number = 0; number < threads; number++) fiber(number);
    grid_now = &grid;
    arguments_now.clear();
    size_t at = 0;
    for (size_t number = 0; number < grid.kernel->arguments; number++) {
        arguments_now.push_back(&grid.arguments[at]);
        at += (grid.kernel->argument_bytes[number] + 7) / 8 * 8;
    }
    EmulatedBlock& state = *grid.module.block;
    Shared shared(grid.shared_bytes);
    state.block_size = grid.threads;
    state.grid_size = grid.blocks;
    state.shared = shared.first;
    state.wait = wait;
    static unsigned long long said[THREADS_MAX + WARP];
    std::memset(said, UNWRITTEN, sizeof said);
    state.said = said;
    const Watched watched;
    for (size_t number = 0; number < blocks; number++) {
        state.block = unfold(number, grid.blocks);
        shared.spoil();
        std::fill(grid.module.shared_first, grid.module.shared_end, UNWRITTEN);
        run_block(grid, threads);
        shared.check(grid);
    }
}

}  // namespace emulated
