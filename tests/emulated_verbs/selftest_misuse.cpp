// What breaks the contract of verbs: each of these is ended by the library, which says what was wrong.
#include "selftest.h"

#include <sys/mman.h>
#include <unistd.h>

namespace {

// A write of a byte to nowhere, as it should not be.
void write(End& from, uint64_t at, uint32_t bytes, uint32_t key, int pieces = 1) {
    ibv_send_wr request = {};
    request.opcode = IBV_WR_RDMA_WRITE;
    from.post(request, {at, bytes, key}, pieces);
}

void sent_before_it_can() {
    End end;
    OK(end.to_init());
    OK(end.to_rtr(end.qp->qp_num));
    end.send(1, 1);
}
void received_before_it_can() { End().receive(1); }
void a_remote_key_for_a_local_one() {
    End one, other;
    connect(one, other);
    write(one, address(one.memory), 1, one.mr->rkey);
}
void a_key_of_another_domain() {
    End one, other;
    connect(one, other);
    write(one, address(other.memory), 1, other.mr->lkey);
}
void a_key_after_its_end() {
    End one, other;
    connect(one, other);
    const uint32_t key = one.mr->lkey;
    OK(ibv_dereg_mr(one.mr));
    write(one, address(one.memory), 1, key);
}
void beyond_a_region() {
    End one, other;
    connect(one, other);
    write(one, address(one.memory) + 1, BYTES, one.mr->lkey);
}
void two_pieces() {
    End one, other;
    connect(one, other);
    write(one, address(one.memory), 1, one.mr->lkey, 2);
}
void received_where_nobody_may_write() {
    End end(0);
    OK(end.to_init());
    end.receive(1);
}
void ended_in_use() {
    End end;
    OK(end.to_init());
    OK(end.receive(1));
    ibv_dereg_mr(end.mr);
}
// A completion that nobody has taken still holds its memory.
void ended_before_its_completion_was_taken() {
    End one, other;
    connect(one, other);
    OK(other.receive(1));
    OK(one.send(2, 1));
    one.expect(2, IBV_WC_SUCCESS);
    ibv_dereg_mr(other.mr);
}
void ended_twice() {
    End end;
    OK(ibv_dereg_mr(end.mr));
    ibv_dereg_mr(end.mr);
}
void unmapped_while_registered() {
    End one, other;
    connect(one, other);
    munmap(one.memory, BYTES);
    write(one, address(one.memory), 1, one.mr->lkey);
    one.next();
}
void a_queue_with_pairs() { ibv_destroy_cq(End().cq); }
void a_queue_with_events() {
    End one, other;
    connect(one, other);
    OK(one.context->ops.req_notify_cq(one.cq, 0));
    OK(one.write(1, address(other.memory), other.mr->rkey, 1));
    ibv_cq* told;
    void* with;
    OK(ibv_get_cq_event(one.channel, &told, &with));
    OK(ibv_destroy_qp(one.qp));
    ibv_destroy_cq(one.cq);
}
void a_channel_with_a_queue() { ibv_destroy_comp_channel(End().channel); }
void a_domain_with_regions() { ibv_dealloc_pd(End().pd); }
void a_device_with_a_domain() { ibv_close_device(End().context); }
void a_pair_after_its_end() {
    End end;
    OK(ibv_destroy_qp(end.qp));
    end.to_init();
}
void a_queue_that_overflows() {
    End one(BOTH, 2), other;
    connect(one, other);
    for (int i = 0; i < 3; ++i) OK(one.write(i, address(other.memory), other.mr->rkey, 1));
    pause();
}
void attributes_that_are_missing() {
    End end;
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    ibv_modify_qp(end.qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX);
}
void attributes_that_do_not_belong() {
    End end;
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    const int mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
    ibv_modify_qp(end.qp, &attr, mask | IBV_QP_SQ_PSN);
}
void a_state_too_early() {
    End end;
    OK(end.to_init());
    end.to_rts();
}
void a_route_within_a_subnet() {
    End end;
    OK(end.to_init());
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.ah_attr.port_num = 1;
    ibv_modify_qp(end.qp, &attr,
                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

}  // namespace

const Scenarios MISUSE = {
    SCENARIO(sent_before_it_can),
    SCENARIO(received_before_it_can),
    SCENARIO(a_remote_key_for_a_local_one),
    SCENARIO(a_key_of_another_domain),
    SCENARIO(a_key_after_its_end),
    SCENARIO(beyond_a_region),
    SCENARIO(two_pieces),
    SCENARIO(received_where_nobody_may_write),
    SCENARIO(ended_in_use),
    SCENARIO(ended_before_its_completion_was_taken),
    SCENARIO(ended_twice),
    SCENARIO(unmapped_while_registered),
    SCENARIO(a_queue_with_pairs),
    SCENARIO(a_queue_with_events),
    SCENARIO(a_channel_with_a_queue),
    SCENARIO(a_domain_with_regions),
    SCENARIO(a_device_with_a_domain),
    SCENARIO(a_pair_after_its_end),
    SCENARIO(a_queue_that_overflows),
    SCENARIO(attributes_that_are_missing),
    SCENARIO(attributes_that_do_not_belong),
    SCENARIO(a_state_too_early),
    SCENARIO(a_route_within_a_subnet),
};
