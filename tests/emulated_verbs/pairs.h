// Queue pairs, and what moves their data.
#pragma once
#include "state.h"

#include <chrono>
#include <string>

namespace emulated {

using Clock = std::chrono::steady_clock;

// A request in the device's hands, until its completion or a later one is taken.
struct Work {
    uint64_t id = 0;
    char* held = nullptr;
    uint32_t bytes = 0;
    Region* region = nullptr;
    unsigned opcode = 0, immediate = 0, remote_key = 0;
    uint64_t remote_address = 0;
    bool signalled = false, solicited = false;
};

// Begins a connection: who sends, and the number of the first packet.
struct Greeting {
    uint32_t from, first_packet;
};
// Stands before the bytes of each message.
struct Header {
    uint32_t opcode, immediate, remote_key, bytes, solicited;
    uint64_t remote_address;
};

struct Pair : ibv_qp {
    static constexpr const char* WORD = "queue pair";
    unsigned state = IBV_QPS_RESET;
    ibv_qp_cap cap = {};
    bool signals_all = false;
    // As it was told to be.
    ibv_qp_attr attr = {};
    // The peer connects to `listener`, writes to `in` and is answered there, a byte (the status) for
    // each message; `out` leads to the peer's.
    int listener = -1, in = -1, out = -1;

    // All that have not come back; of those, what was wholly sent, and what has ended.
    std::deque<Work> sends;
    size_t sent = 0, ended = 0;
    // Bytes of the next message that are sent; sends that ended without a completion.
    size_t offset = 0, silent = 0;
    // The peer's socket is closed, or the network loses what goes there; since when something has waited for it.
    bool cut = false, waiting = false;
    Clock::time_point waiting_since;

    std::deque<Work> receives;
    size_t used = 0;
    bool greeted = false, heard = false;
    Greeting greeting = {};
    Header header = {};
    // Bytes of the greeting, and then of the message.
    size_t arrived = 0;
    std::string answers;
    // A write that was answered and is not in its place yet, and when it will be.
    std::string late;
    bool is_late = false;
    Clock::time_point late_until;
};

// A number that no pair on this host has, with the socket where its peer finds it.
bool settle(Pair* pair);
// Puts the pair in the error state: nothing comes in from here on, and what it has comes back later.
void stop(Pair* pair);
// Takes the pair away from the thread.
void leave(Pair* pair);
// Gives so many requests back to whoever posted them.
void retire(Pair* pair, size_t sends, size_t receives);
// The thread has something new to look at.
void wake();

}  // namespace emulated
