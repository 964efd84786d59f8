// What comes to a pair: into the memory that its receives name, or that its peer does and may write.
#include "wire.h"

#include <algorithm>
#include <cstring>

namespace emulated {

bool is_waiting_for_receive(const Pair* pair) {
    if (!pair->heard || pair->used < pair->receives.size()) return false;
    const bool whole = pair->arrived == pair->header.bytes;
    return pair->header.opcode == IBV_WR_SEND ||
           (pair->header.opcode == IBV_WR_RDMA_WRITE_WITH_IMM && whole);
}

void send_answers(Pair* pair) {
    std::string& due = pair->answers;
    if (pair->in < 0 || due.empty()) return;
    const ssize_t count = send(pair->in, due.data(), due.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    // A peer that is gone needs none.
    due.erase(0, count < 0 && !is_later() ? due.size() : std::max<ssize_t>(count, 0));
}

namespace {

// Ends the oldest receive that was not used.
void end_receive(Pair* pair, unsigned status) {
    const Work& work = pair->receives[pair->used++];
    ibv_wc wc;
    std::memset(&wc, 0xee, sizeof wc);
    wc.wr_id = work.id;
    wc.status = status;
    wc.qp_num = pair->qp_num;
    if (!status) {
        const bool is_write = pair->header.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
        wc.opcode = is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
        wc.byte_len = pair->header.bytes;
        wc.wc_flags = is_write ? unsigned(IBV_WC_WITH_IMM) : 0;
        if (is_write) wc.imm_data = pair->header.immediate;
    }
    const bool solicited = !status && pair->header.solicited;
    complete(static_cast<Queue*>(pair->recv_cq), {wc, pair, 0, 1}, solicited);
}

void answer(Pair* pair, unsigned status) {
    pair->answers.push_back(char(status));
    send_answers(pair);
}

void refuse_message(Pair* pair, unsigned status) {
    answer(pair, status);
    stop(pair);
}

// Where a peer's write goes; null: it may not. Looked up anew for every piece of it.
char* target(const Pair* pair, const Header& header) {
    const Region* region = region_of_remote_key(header.remote_key);
    if (!region || region->pd != pair->pd) return nullptr;
    if (!(region->access & pair->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE)) return nullptr;
    const uint64_t at = header.remote_address - reinterpret_cast<uint64_t>(region->addr);
    if (at > region->length || header.bytes > region->length - at) return nullptr;
    return region->held + at;
}

// Takes so many bytes of `whole`, or what of them is there. False: there is nothing.
bool take(Pair* pair, char* to, size_t whole) {
    const size_t wanted = std::min(whole - pair->arrived, TURN_BYTES);
    const ssize_t count = recv(pair->in, to + pair->arrived, wanted, MSG_DONTWAIT);
    if (count > 0) pair->arrived += count;
    if (count > 0 || (count < 0 && is_later())) return count > 0;
    check_memory();
    shut(pair->in);
    return false;
}

bool take_greeting(Pair* pair) {
    const bool moved = take(pair, reinterpret_cast<char*>(&pair->greeting), sizeof(Greeting));
    if (pair->arrived < sizeof(Greeting)) return moved;
    pair->arrived = 0;
    const Greeting& from = pair->greeting;
    // What is not from the peer, or not from its first packet on, is dropped.
    pair->greeted = from.from == pair->attr.dest_qp_num && from.first_packet == pair->attr.rq_psn;
    if (!pair->greeted) shut(pair->in);
    return true;
}

// EMULATED_VERBS_LATE_MS=N: a card may answer a write before it is in its place, N ms later. Only what
// comes over the same pair comes after it.
long late_ms() {
    static const char* const text = setting("EMULATED_VERBS_LATE_MS");
    static const long ms = text ? std::atol(text) : 0;
    return ms;
}

// A write, which is answered when all of it has come, and put in its place later.
bool take_late(Pair* pair) {
    const Header& header = pair->header;
    if (pair->is_late) {
        if (Clock::now() < pair->late_until) return false;
        char* to = target(pair, header);
        if (to) std::memcpy(to, pair->late.data(), header.bytes);
        if (header.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) end_receive(pair, IBV_WC_SUCCESS);
        pair->is_late = pair->heard = false;
        pair->arrived = 0;
        return true;
    }
    if (!target(pair, header)) {
        refuse_message(pair, IBV_WC_REM_ACCESS_ERR);
        return true;
    }
    pair->late.resize(header.bytes);
    if (pair->arrived < header.bytes && !take(pair, pair->late.data(), header.bytes)) return false;
    if (pair->arrived < header.bytes || is_waiting_for_receive(pair)) return true;
    answer(pair, IBV_WC_SUCCESS);
    pair->is_late = true;
    pair->late_until = Clock::now() + std::chrono::milliseconds(late_ms());
    return true;
}

bool take_message(Pair* pair) {
    Header& header = pair->header;
    const bool is_send = header.opcode == IBV_WR_SEND;
    if (pair->arrived < header.bytes) {
        const Work* receive = is_send ? &pair->receives[pair->used] : nullptr;
        if (receive && header.bytes > receive->bytes) {
            end_receive(pair, IBV_WC_LOC_LEN_ERR);
            refuse_message(pair, IBV_WC_REM_INV_REQ_ERR);
            return true;
        }
        char* to = receive ? receive->held : target(pair, header);
        if (!to) {
            refuse_message(pair, IBV_WC_REM_ACCESS_ERR);
            return true;
        }
        if (!take(pair, to, header.bytes)) return false;
    }
    if (pair->arrived < header.bytes || is_waiting_for_receive(pair)) return true;
    if (header.opcode != IBV_WR_RDMA_WRITE) end_receive(pair, IBV_WC_SUCCESS);
    answer(pair, IBV_WC_SUCCESS);
    pair->heard = false;
    pair->arrived = 0;
    return true;
}

}  // namespace

bool receive_some(Pair* pair) {
    if (pair->in < 0 && !pair->greeted) {
        pair->in = accept4(pair->listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        pair->arrived = 0;
    }
    if (pair->is_late) return take_late(pair);
    if (pair->in < 0 || is_waiting_for_receive(pair)) return false;
    if (!pair->greeted) return take_greeting(pair);
    if (!pair->heard) {
        const bool moved = take(pair, reinterpret_cast<char*>(&pair->header), sizeof(Header));
        pair->heard = pair->arrived == sizeof(Header);
        if (pair->heard) pair->arrived = 0;
        return moved;
    }
    return late_ms() && pair->header.opcode != IBV_WR_SEND ? take_late(pair) : take_message(pair);
}

std::chrono::nanoseconds wait_for_late(const Pair* pair, Clock::time_point now) {
    if (!pair->is_late || pair->state == IBV_QPS_ERR) return FOREVER;
    return std::max(pair->late_until - now, Clock::duration::zero());
}

void flush_receives(Pair* pair) {
    while (pair->used < pair->receives.size()) end_receive(pair, IBV_WC_WR_FLUSH_ERR);
}

}  // namespace emulated
