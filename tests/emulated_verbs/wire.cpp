// What moves data: one thread for all pairs of the process, over sockets that their numbers name.
//
// Memory is read and written here alone, under the lock, some of it at a time: so nothing is touched on
// behalf of a pair once the call that stops or destroys it has returned. A peer that lives is waited for
// without end, however slow its process is; one whose socket is closed, for as long as a card would try.
#include "wire.h"

#include <algorithm>
#include <csignal>
#include <poll.h>
#include <random>
#include <set>
#include <sys/eventfd.h>
#include <thread>
#include <vector>

namespace emulated {

namespace {

auto& pairs = *new std::set<Pair*>;
int bell = -1;

// Does what can be done without waiting. Whether anything could.
bool advance(Pair* pair) {
    if (pair->state == IBV_QPS_ERR) {
        flush_sends(pair);
        flush_receives(pair);
        return false;
    }
    if (pair->state != IBV_QPS_RTR && pair->state != IBV_QPS_RTS) return false;
    send_answers(pair);
    const bool received = receive_some(pair);
    return (pair->state == IBV_QPS_RTS && send_some(pair)) || received;
}

void watch(const Pair* pair, std::vector<pollfd>& watched) {
    if (pair->state != IBV_QPS_RTR && pair->state != IBV_QPS_RTS) return;
    const bool in_waits = pair->in >= 0 && !pair->is_late && !is_waiting_for_receive(pair);
    const short in = (in_waits ? POLLIN : 0) | (pair->answers.empty() ? 0 : POLLOUT);
    if (pair->in >= 0 && in) watched.push_back({pair->in, in, 0});
    if (pair->in < 0 && !pair->greeted) watched.push_back({pair->listener, POLLIN, 0});
    const bool sends = pair->sent < pair->sends.size() && !pair->cut;
    const short out = sends ? POLLIN | POLLOUT : POLLIN;
    if (pair->out >= 0) watched.push_back({pair->out, out, 0});
}

// Everything once; how long there is nothing to do then, if nothing comes.
std::chrono::nanoseconds turn(std::vector<pollfd>& watched) {
    std::lock_guard guard(everything);
    enter("transfer");
    const auto now = Clock::now();
    auto rest = FOREVER;
    for (Pair* pair : pairs) {
        if (advance(pair)) rest = std::chrono::nanoseconds::zero();
        if (pair->state == IBV_QPS_RTS) rest = std::min(rest, wait_for_lost(pair, now));
        rest = std::min(rest, wait_for_late(pair, now));
        watch(pair, watched);
    }
    return rest;
}

[[noreturn]] void run() {
    for (;;) {
        std::vector<pollfd> watched = {{bell, POLLIN, 0}};
        const auto rest = turn(watched);
        const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(rest);
        const int timeout_ms = rest == FOREVER ? -1 : int(ms.count() + (rest.count() > 0));
        poll(watched.data(), watched.size(), timeout_ms);
        uint64_t rung;
        if (watched[0].revents && read(bell, &rung, sizeof rung) < 0) std::abort();
    }
}

void start() {
    bell = eventfd(0, EFD_CLOEXEC);
    // Signals are for the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread(run).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

bool settle(Pair* pair) {
    static std::random_device chance;
    pair->listener = new_socket();
    if (pair->listener < 0) return false;
    int bound;
    do {
        // 0 and 1 are not for programs.
        pair->qp_num = 2 + chance() % ((1 << 24) - 2);
        const Address own(pair->qp_num);
        bound = bind(pair->listener, own, own.bytes);
    } while (bound < 0 && errno == EADDRINUSE);
    if (bound < 0 || listen(pair->listener, 8) < 0) {
        shut(pair->listener);
        return false;
    }
    if (bell < 0) start();
    pairs.insert(pair);
    return true;
}

void stop(Pair* pair) {
    pair->state = IBV_QPS_ERR;
    shut(pair->listener);
    shut(pair->in);
    shut(pair->out);
    wake();
}

void leave(Pair* pair) {
    stop(pair);
    pairs.erase(pair);
}

void wake() {
    const uint64_t one = 1;
    if (write(bell, &one, sizeof one) < 0) fail("the thread's descriptor was closed");
}

}  // namespace emulated
