// What sending, receiving and the thread share. All of it under the lock.
#pragma once
#include "pairs.h"

#include <cerrno>
#include <cstdio>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace emulated {

// Moved of one pair in one direction before others have their turn.
const size_t TURN_BYTES = 256 << 10;
const auto FOREVER = std::chrono::nanoseconds::max();

struct Address {
    sockaddr_un name = {};
    socklen_t bytes;
    explicit Address(uint32_t number) {
        name.sun_family = AF_UNIX;
        // Behind a zero: a name that is no file, and gone with its socket.
        const int length =
            std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "emulated-verbs/%06x", number);
        bytes = offsetof(sockaddr_un, sun_path) + 1 + length;
    }
    operator const sockaddr*() const { return reinterpret_cast<const sockaddr*>(&name); }
};

inline int new_socket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

inline void shut(int& descriptor) {
    if (descriptor >= 0) close(descriptor);
    descriptor = -1;
}

inline bool is_later() { return errno == EAGAIN || errno == EINTR; }

inline void check_memory() {
    if (errno == EFAULT) fail("registered memory was unmapped, or protected");
}

// Both: whether anything could be done without waiting.
bool send_some(Pair* pair);
bool receive_some(Pair* pair);
void send_answers(Pair* pair);
// Gives up what nobody will answer. How long it is to be waited yet.
std::chrono::nanoseconds wait_for_lost(Pair* pair, Clock::time_point now);
// How long until a write that was answered is put in its place; without end: there is none.
std::chrono::nanoseconds wait_for_late(const Pair* pair, Clock::time_point now);
// A message has come whose receive was not posted yet: the peer waits.
bool is_waiting_for_receive(const Pair* pair);
// End everything as flushed.
void flush_sends(Pair* pair);
void flush_receives(Pair* pair);

}  // namespace emulated
