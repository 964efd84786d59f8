// What a pair sends: one message after the other, each until the peer has answered it.
#include "wire.h"

#include <algorithm>
#include <cstring>

namespace emulated {

namespace {

// Ends the oldest send that has not.
void end_send(Pair* pair, unsigned status) {
    const Work& work = pair->sends[pair->ended++];
    pair->sent = std::max(pair->sent, pair->ended);
    if (!status && !work.signalled) {
        pair->silent++;
        return;
    }
    // Of one that failed only these are defined.
    ibv_wc wc;
    std::memset(&wc, 0xee, sizeof wc);
    wc.wr_id = work.id;
    wc.status = status;
    wc.qp_num = pair->qp_num;
    if (!status) wc.opcode = work.opcode == IBV_WR_SEND ? IBV_WC_SEND : IBV_WC_RDMA_WRITE;
    complete(static_cast<Queue*>(pair->send_cq), {wc, pair, pair->silent + 1, 0}, false);
    pair->silent = 0;
}

// Connects to the peer and says who we are.
void connect_out(Pair* pair) {
    pair->out = new_socket();
    const Address peer(pair->attr.dest_qp_num);
    if (connect(pair->out, peer, peer.bytes) == 0) {
        const Greeting greeting = {pair->qp_num, pair->attr.sq_psn};
        if (send(pair->out, &greeting, sizeof greeting, MSG_NOSIGNAL) == sizeof greeting) return;
    } else if (is_later()) {
        return shut(pair->out);
    }
    shut(pair->out);
    pair->cut = true;
}

// Whether the network loses it: EMULATED_VERBS_PATH_BYTES=N takes no packets of more bytes, and says
// nothing of it. What comes after it is not taken by the peer either, as a packet is missing.
bool is_lost(const Pair* pair, const Work& work) {
    static const char* const text = setting("EMULATED_VERBS_PATH_BYTES");
    static const uint32_t path_bytes = text ? std::atoi(text) : UINT32_MAX;
    return std::min(work.bytes, 128u << pair->attr.path_mtu) > path_bytes;
}

// Some of the next message. Its memory is read now, and no earlier.
bool transmit(Pair* pair) {
    if (pair->out < 0 || pair->sent == pair->sends.size()) return false;
    const Work& work = pair->sends[pair->sent];
    if (is_lost(pair, work)) pair->cut = true;
    if (pair->cut) return false;
    Header header = {work.opcode, work.immediate,           work.remote_key,
                     work.bytes,  uint32_t(work.solicited), work.remote_address};
    iovec parts[2] = {};
    const size_t of_header = std::min(pair->offset, sizeof header);
    const size_t of_body = pair->offset - of_header;
    parts[0] = {reinterpret_cast<char*>(&header) + of_header, sizeof header - of_header};
    parts[1] = {work.held + of_body, std::min<size_t>(work.bytes - of_body, TURN_BYTES)};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t count = sendmsg(pair->out, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0) {
        check_memory();
        // Where the peer has closed, its answers are heard first.
        return false;
    }
    pair->offset += count;
    if (pair->offset == sizeof header + work.bytes) {
        pair->sent++;
        pair->offset = 0;
    }
    return true;
}

bool hear_answers(Pair* pair) {
    char answers[64];
    if (pair->out < 0) return false;
    const ssize_t count = recv(pair->out, answers, sizeof answers, MSG_DONTWAIT);
    if (count < 0 && is_later()) return false;
    if (count <= 0) {
        shut(pair->out);
        pair->cut = true;
        return true;
    }
    for (ssize_t i = 0; i < count && pair->state == IBV_QPS_RTS; ++i) {
        end_send(pair, answers[i]);
        if (answers[i]) stop(pair);
    }
    return true;
}

// How long a card sends again before it gives up; none: without end.
std::chrono::nanoseconds patience(const Pair* pair) {
    return std::chrono::nanoseconds((4096l << pair->attr.timeout) * (pair->attr.retry_cnt + 1));
}

}  // namespace

std::chrono::nanoseconds wait_for_lost(Pair* pair, Clock::time_point now) {
    if (pair->ended == pair->sends.size() || !pair->attr.timeout) return FOREVER;
    // The peer's socket had no room for a connection.
    if (!pair->cut) return pair->out < 0 ? std::chrono::milliseconds(10) : FOREVER;
    if (!pair->waiting) pair->waiting_since = now;
    pair->waiting = true;
    const auto left = pair->waiting_since + patience(pair) - now;
    if (left.count() > 0) return left;
    end_send(pair, IBV_WC_RETRY_EXC_ERR);
    stop(pair);
    return FOREVER;
}

bool send_some(Pair* pair) {
    if (pair->out < 0 && !pair->cut && !pair->sends.empty()) connect_out(pair);
    const bool heard = hear_answers(pair);
    return (pair->state == IBV_QPS_RTS && transmit(pair)) || heard;
}

void flush_sends(Pair* pair) {
    while (pair->ended < pair->sends.size()) end_send(pair, IBV_WC_WR_FLUSH_ERR);
}

}  // namespace emulated
