// What all calls share: one lock, what was made and is alive, and how a misuse ends the process.
#pragma once
#include "../emulated/calls.h"
#include "abi.h"

#include <cerrno>
#include <deque>
#include <memory>
#include <type_traits>

namespace emulated {

// Limits lower than any card's, so that programs meet them.
const int QUEUE_ENTRIES_MAX = 128, COMPLETIONS_MAX = 1 << 16, COMPLETION_VECTORS = 3;
const uint32_t MESSAGE_MAX_BYTES = 256 << 10;
// Pairs of another host's or port's are not emulated: they are of port 1 and leave by this address.
const int GID_INDEX = 1;
// ::ffff:127.0.0.1, by which the peer is on this host.
const ibv_gid GID = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}};

// The device of every open context has a fatal error: EMULATED_VERBS_FATAL=NAME:NTH, in that call.
void break_devices();

// Keys of a port's partitions: EMULATED_VERBS_PKEYS=ffff,8001; usually the first alone.
const std::vector<uint16_t>& partitions();

// Begins a call of this name: 0, or the error that EMULATED_VERBS_FAIL wants from it.
int enter(const char* name);

// Runs a call alone. Functions that make something give null and set errno, others return it.
template <class Body>
auto call(const char* name, Body body) {
    std::lock_guard guard(everything);
    using Made = decltype(body());
    const int refused = enter(name);
    if constexpr (std::is_pointer_v<Made>) {
        if (!refused) return body();
        errno = refused;
        return Made(nullptr);
    } else {
        return refused ? Made(refused) : body();
    }
}

template <class Made>
Made* refuse(int error) {
    errno = error;
    return nullptr;
}

struct Context : ibv_context {
    static constexpr const char* WORD = "open device";
    int users = 0;
    // It had a fatal error, which is told by its descriptor.
    bool dead = false;
};
struct Domain : ibv_pd {
    static constexpr const char* WORD = "protection domain";
    int users = 0;
};
struct Region : ibv_mr {
    static constexpr const char* WORD = "memory region";
    int access = 0;
    // Requests in the device's hands.
    int users = 0;
    // Where its first byte is in this process.
    char* held = nullptr;
    // What was mapped for it of a descriptor.
    void* mapped = nullptr;
    size_t mapped_bytes = 0;
};
struct Pair;
struct Queue;
struct Channel : ibv_comp_channel {
    static constexpr const char* WORD = "completion channel";
    // One for each count of the descriptor.
    std::deque<Queue*> events;
};
// A completion, and what it gives back when it is taken.
struct Entry {
    ibv_wc wc;
    Pair* pair;
    size_t sends, receives;
};
struct Queue : ibv_cq {
    static constexpr const char* WORD = "completion queue";
    std::deque<Entry> entries;
    bool armed = false, solicited_alone = false;
    unsigned unacknowledged = 0;
    int users = 0;
};

// What is made stays in memory after its end, so that a stale handle is known.
void remember(const void* made, const char* word);
void forget(const void* made);
// Fails where `handle` is none of the kind that `word` names, or not any more.
void check_known(const void* handle, const char* word);

template <class Kind, class Abi>
Kind* known(Abi* handle) {
    check_known(handle, Kind::WORD);
    return static_cast<Kind*>(handle);
}

template <class Kind>
Kind* make() {
    Kind* made = new Kind();
    remember(made, Kind::WORD);
    return made;
}

// Fails where something that was made of it is alive.
void check_unused(int users, const char* by);

// The region of a key for this process's requests, or a peer's; null: there is none.
Region* region_of_local_key(uint32_t key);
Region* region_of_remote_key(uint32_t key);

// Adds a completion, and tells the channel if it is to be told.
void complete(Queue* queue, const Entry& entry, bool solicited);
// Takes what is left of a pair that is destroyed.
void forget_completions(Queue* queue, const Pair* pair);

int poll_queue(ibv_cq* queue, int room, ibv_wc* taken);
int request_notification(ibv_cq* queue, int solicited_alone);
int post_sends(ibv_qp* pair, ibv_send_wr* list, ibv_send_wr** bad);
int post_receives(ibv_qp* pair, ibv_recv_wr* list, ibv_recv_wr** bad);

}  // namespace emulated
