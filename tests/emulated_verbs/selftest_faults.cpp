// What verbs do when something goes wrong: which completions come on which side, and what is written.
#include "selftest.h"

#include <csignal>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

namespace {

// The write is refused, and of the pairs nothing is left.
void is_refused(End& worker, End& receiver, uint64_t to, uint32_t key, uint32_t bytes) {
    OK(receiver.receive(1));
    OK(worker.receive(2));
    OK(worker.write(3, to, key, bytes));
    worker.expect(3, IBV_WC_REM_ACCESS_ERR);
    worker.expect(2, IBV_WC_WR_FLUSH_ERR);
    receiver.expect(1, IBV_WC_WR_FLUSH_ERR);
    // What is posted from here on comes back as well.
    OK(receiver.receive(5));
    receiver.expect(5, IBV_WC_WR_FLUSH_ERR);
    OK(worker.write(6, address(receiver.memory), receiver.mr->rkey, 1, IBV_WR_RDMA_WRITE, 0));
    worker.expect(6, IBV_WC_WR_FLUSH_ERR);
    for (size_t i = 0; i < BYTES; ++i) HOLDS(receiver.memory[i] == 0);
}

void a_wrong_key_breaks_both() {
    End worker, receiver;
    connect(worker, receiver);
    std::memset(worker.memory, 1, 4096);
    is_refused(worker, receiver, address(receiver.memory), receiver.mr->lkey, 4096);
}
void a_key_that_was_ended_breaks_both() {
    End worker, receiver;
    connect(worker, receiver);
    std::memset(worker.memory, 1, 4096);
    ibv_mr* other = ibv_reg_mr(receiver.pd, receiver.memory, BYTES, BOTH);
    const uint32_t key = other->rkey;
    OK(ibv_dereg_mr(other));
    is_refused(worker, receiver, address(receiver.memory), key, 4096);
}
void a_write_beyond_the_region_breaks_both() {
    End worker, receiver;
    connect(worker, receiver);
    std::memset(worker.memory, 1, 4096);
    is_refused(worker, receiver, address(receiver.memory) + BYTES - 4095, receiver.mr->rkey, 4096);
}
void a_write_before_the_region_breaks_both() {
    End worker, receiver;
    connect(worker, receiver);
    std::memset(worker.memory, 1, 4096);
    is_refused(worker, receiver, address(receiver.memory) - 1, receiver.mr->rkey, 4096);
}
void a_region_that_peers_may_not_write_is_not_written() {
    End worker, receiver(IBV_ACCESS_LOCAL_WRITE);
    connect(worker, receiver);
    std::memset(worker.memory, 1, 4096);
    is_refused(worker, receiver, address(receiver.memory), receiver.mr->rkey, 4096);
}
void a_pair_that_peers_may_not_write_through_is_not_written_through() {
    End worker, receiver;
    OK(worker.to_init());
    OK(receiver.to_init(IBV_ACCESS_LOCAL_WRITE));
    for (End* end : {&worker, &receiver}) {
        OK(end->to_rtr((end == &worker ? receiver : worker).qp->qp_num));
        OK(end->to_rts());
    }
    std::memset(worker.memory, 1, 4096);
    is_refused(worker, receiver, address(receiver.memory), receiver.mr->rkey, 4096);
}

void a_message_that_is_too_long_breaks_both() {
    End one, other;
    connect(one, other);
    OK(other.receive(1, 0, 16));
    OK(one.send(2, 17));
    other.expect(1, IBV_WC_LOC_LEN_ERR);
    one.expect(2, IBV_WC_REM_INV_REQ_ERR);
}

void a_stopped_pair_gives_everything_back() {
    End one, other;
    connect(one, other);
    OK(one.write(1, address(other.memory), other.mr->rkey, 1, IBV_WR_RDMA_WRITE, 0));
    OK(one.write(2, address(other.memory), other.mr->rkey, 1));
    one.expect(2, IBV_WC_SUCCESS);
    // Nobody has a buffer for it.
    OK(one.send(3, 1, 0));
    OK(one.send(4, 1));
    OK(one.receive(5));
    OK(one.stop());
    one.expect(3, IBV_WC_WR_FLUSH_ERR);
    one.expect(4, IBV_WC_WR_FLUSH_ERR);
    one.expect(5, IBV_WC_WR_FLUSH_ERR);
    OK(ibv_dereg_mr(one.mr));
}

void nothing_is_written_after_the_end() {
    for (bool destroyed : {false, true}) {
        End worker, receiver;
        connect(worker, receiver);
        const uint64_t to = address(receiver.memory);
        for (int round = 0; round < 100; ++round) OK(worker.write(0, to, receiver.mr->rkey, 250000));
        std::memset(worker.memory, 1, BYTES);
        worker.expect(0, IBV_WC_SUCCESS);
        OK(destroyed ? ibv_destroy_qp(receiver.qp) : receiver.stop());
        std::memset(receiver.memory, 9, BYTES);
        OK(worker.write(0, to, receiver.mr->rkey, 250000));
        ibv_wc wc;
        do wc = worker.next();
        while (wc.status == IBV_WC_SUCCESS);
        HOLDS(wc.status == IBV_WC_RETRY_EXC_ERR);
        for (size_t i = 0; i < BYTES; ++i) HOLDS(receiver.memory[i] == 9);
    }
}

void a_peer_that_is_killed_is_missed_by_who_sends() {
    int numbers[2], answers[2];
    OK(pipe(numbers));
    OK(pipe(answers));
    const pid_t child = fork();
    if (child == 0) {
        End other;
        uint32_t peer;
        HOLDS(write(numbers[1], &other.qp->qp_num, 4) == 4 && read(answers[0], &peer, 4) == 4);
        OK(other.to_init());
        OK(other.receive(1));
        OK(other.to_rtr(peer));
        OK(other.to_rts());
        other.expect(1, IBV_WC_SUCCESS);
        HOLDS(write(numbers[1], &peer, 4) == 4);
        pause();
    }
    End one;
    uint32_t peer;
    HOLDS(write(answers[1], &one.qp->qp_num, 4) == 4 && read(numbers[0], &peer, 4) == 4);
    OK(one.to_init());
    OK(one.receive(2));
    OK(one.to_rtr(peer));
    OK(one.to_rts());
    OK(one.send(3, 1));
    one.expect(3, IBV_WC_SUCCESS);
    HOLDS(read(numbers[0], &peer, 4) == 4);
    OK(kill(child, SIGKILL));
    HOLDS(waitpid(child, nullptr, 0) == child);
    ibv_wc none;
    HOLDS(!one.poll(&none));
    OK(one.send(4, 1));
    one.expect(4, IBV_WC_RETRY_EXC_ERR);
    one.expect(2, IBV_WC_WR_FLUSH_ERR);
}

void packets_of_another_beginning_are_dropped() {
    End one, other;
    OK(one.to_init());
    OK(other.to_init());
    OK(other.receive(1));
    OK(other.to_rtr(one.qp->qp_num, 8));
    OK(one.to_rtr(other.qp->qp_num));
    OK(one.to_rts(7));
    OK(one.send(2, 1));
    one.expect(2, IBV_WC_RETRY_EXC_ERR);
    ibv_wc none;
    HOLDS(!other.poll(&none));
}

}  // namespace

const Scenarios FAULTS = {
    SCENARIO(a_wrong_key_breaks_both),
    SCENARIO(a_key_that_was_ended_breaks_both),
    SCENARIO(a_write_beyond_the_region_breaks_both),
    SCENARIO(a_write_before_the_region_breaks_both),
    SCENARIO(a_region_that_peers_may_not_write_is_not_written),
    SCENARIO(a_pair_that_peers_may_not_write_through_is_not_written_through),
    SCENARIO(a_message_that_is_too_long_breaks_both),
    SCENARIO(a_stopped_pair_gives_everything_back),
    SCENARIO(nothing_is_written_after_the_end),
    SCENARIO(a_peer_that_is_killed_is_missed_by_who_sends),
    SCENARIO(packets_of_another_beginning_are_dropped),
};
