// The emulated verbs as programs see them: what arrives, in which order, and who hears of it.
//
// selftest SCENARIO: ends with 0 where it holds.
#include "selftest.h"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <unistd.h>

uint64_t address(const void* of) { return reinterpret_cast<uint64_t>(of); }

End::End(int access, int entries) {
    ibv_device** list = ibv_get_device_list(nullptr);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    pd = ibv_alloc_pd(context);
    channel = ibv_create_comp_channel(context);
    cq = ibv_create_cq(context, entries, this, channel, 0);
    memory = static_cast<char*>(
        mmap(nullptr, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mr = ibv_reg_mr(pd, memory, BYTES, access);
    HOLDS(mr);
    ibv_qp_init_attr attr = {nullptr, cq, cq, nullptr, {128, 128, 1, 1, 0}, IBV_QPT_RC, 0};
    qp = ibv_create_qp(pd, &attr);
    HOLDS(qp);
}

int End::to_init(int access) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = access;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int End::to_rtr(uint32_t peer, uint32_t first_packet) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer;
    attr.rq_psn = first_packet;
    attr.ah_attr.is_global = attr.ah_attr.port_num = attr.ah_attr.grh.sgid_index = 1;
    attr.ah_attr.grh.dgid = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}};
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int End::to_rts(uint32_t first_packet) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 10;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.sq_psn = first_packet;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int End::stop() {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_ERR;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

void connect(End& one, End& other) {
    OK(one.to_init());
    OK(other.to_init());
    OK(one.to_rtr(other.qp->qp_num));
    OK(other.to_rtr(one.qp->qp_num));
    OK(one.to_rts());
    OK(other.to_rts());
}

int End::receive(uint64_t id, size_t at, uint32_t bytes) {
    ibv_sge piece = {address(memory + at), bytes, mr->lkey};
    ibv_recv_wr request = {id, nullptr, &piece, 1}, *bad;
    return context->ops.post_recv(qp, &request, &bad);
}

int End::post(ibv_send_wr request, ibv_sge piece, int pieces) {
    ibv_send_wr* bad;
    request.sg_list = &piece;
    request.num_sge = pieces;
    return context->ops.post_send(qp, &request, &bad);
}

int End::send(uint64_t id, uint32_t bytes, unsigned flags) {
    ibv_send_wr request = {};
    request.wr_id = id;
    request.opcode = IBV_WR_SEND;
    request.send_flags = flags;
    return post(request, {address(memory), bytes, mr->lkey});
}

int End::write(uint64_t id, uint64_t to, uint32_t key, uint32_t bytes, unsigned opcode, unsigned flags) {
    ibv_send_wr request = {};
    request.wr_id = id;
    request.opcode = opcode;
    request.send_flags = flags;
    request.imm_data = uint32_t(id);
    request.wr.rdma.remote_addr = to;
    request.wr.rdma.rkey = key;
    return post(request, {address(memory), bytes, mr->lkey}, bytes > 0);
}

int End::poll(ibv_wc* wc) { return context->ops.poll_cq(cq, 1, wc); }

ibv_wc End::next() {
    ibv_wc wc;
    OK(context->ops.req_notify_cq(cq, 0));
    while (!poll(&wc)) {
        ibv_cq* told;
        void* with;
        OK(ibv_get_cq_event(channel, &told, &with));
        HOLDS(told == cq && with == this);
        ibv_ack_cq_events(told, 1);
        OK(context->ops.req_notify_cq(cq, 0));
    }
    return wc;
}

void End::expect(uint64_t id, unsigned status) {
    const ibv_wc wc = next();
    if (wc.wr_id == id && wc.status == status) return;
    std::fprintf(stderr, "selftest: %lu: %s, not %lu: %s\n", wc.wr_id, ibv_wc_status_str(wc.status), id,
                 ibv_wc_status_str(status));
    std::exit(1);
}

bool End::has_event() {
    pollfd counted = {channel->fd, POLLIN, 0};
    return ::poll(&counted, 1, 0) == 1;
}

namespace {

void writes_arrive_in_order_and_the_last_is_told_of() {
    End worker, receiver;
    connect(worker, receiver);
    OK(receiver.receive(1));
    std::memset(worker.memory, 5, 200000);
    const uint64_t to = address(receiver.memory + 4096);
    OK(worker.write(2, to, receiver.mr->rkey, 200000, IBV_WR_RDMA_WRITE, 0));
    worker.memory[200000] = 6;
    OK(worker.write(3, to + 200000, receiver.mr->rkey, 0, IBV_WR_RDMA_WRITE, 0));
    OK(worker.write(77, to + 100, receiver.mr->rkey, 16, IBV_WR_RDMA_WRITE_WITH_IMM));
    const ibv_wc told = receiver.next();
    HOLDS(told.wr_id == 1 && told.status == 0 && told.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
    HOLDS(told.imm_data == 77 && told.byte_len == 16 && told.wc_flags == IBV_WC_WITH_IMM);
    for (size_t i = 0; i < 200000; ++i) HOLDS(receiver.memory[4096 + i] == 5);
    HOLDS(receiver.memory[4095] == 0 && receiver.memory[4096 + 200000] == 0);
    // The one that was to be told of stands for those before it.
    worker.expect(77, IBV_WC_SUCCESS);
    ibv_wc none;
    HOLDS(!worker.poll(&none) && !receiver.poll(&none));
}

void a_message_waits_for_a_buffer() {
    End one, other;
    connect(one, other);
    std::strcpy(one.memory, "message");
    OK(one.send(1, 8));
    OK(other.send(2, 0));
    OK(one.receive(3, 4096));
    one.expect(3, IBV_WC_SUCCESS);
    other.expect(2, IBV_WC_SUCCESS);
    ibv_wc wc;
    HOLDS(!one.poll(&wc));
    OK(other.receive(4, 512));
    wc = other.next();
    HOLDS(wc.wr_id == 4 && wc.opcode == IBV_WC_RECV && wc.byte_len == 8);
    HOLDS(!std::strcmp(other.memory + 512, "message"));
    one.expect(1, IBV_WC_SUCCESS);
}

void memory_is_read_when_it_is_sent() {
    End one, other;
    OK(one.to_init());
    OK(other.to_init());
    OK(other.receive(1));
    OK(one.to_rtr(other.qp->qp_num));
    OK(one.to_rts());
    // The peer takes nothing yet: more than the sockets between hold is on its way.
    for (int i = 0; i < 8; ++i) OK(one.write(2, address(other.memory), other.mr->rkey, 200000));
    one.memory[0] = 1;
    OK(one.send(3, 1));
    one.memory[0] = 2;
    OK(other.to_rtr(one.qp->qp_num));
    other.expect(1, IBV_WC_SUCCESS);
    HOLDS(other.memory[0] == 2);
}

void room_comes_back_with_a_completion_that_is_taken() {
    End one, other;
    connect(one, other);
    for (int i = 1; i < 128; ++i) OK(one.write(i, address(other.memory), other.mr->rkey, 1, 0, 0));
    OK(one.write(128, address(other.memory), other.mr->rkey, 1));
    HOLDS(one.write(129, address(other.memory), other.mr->rkey, 1) == ENOMEM);
    one.expect(128, IBV_WC_SUCCESS);
    for (int i = 1; i <= 128; ++i) OK(one.write(i, address(other.memory), other.mr->rkey, 1, 0, 0));
    HOLDS(one.write(129, address(other.memory), other.mr->rkey, 1) == ENOMEM);
    for (int i = 0; i < 128; ++i) OK(one.receive(i));
    HOLDS(one.receive(128) == ENOMEM);
}

void an_event_comes_once_for_each_request() {
    End one, other;
    connect(one, other);
    for (int i = 0; i < 5; ++i) OK(other.receive(i));
    OK(one.send(1, 1));
    one.expect(1, IBV_WC_SUCCESS);
    HOLDS(!other.has_event());
    OK(other.context->ops.req_notify_cq(other.cq, 0));
    HOLDS(!other.has_event());
    for (int i = 0; i < 2; ++i) {
        OK(one.send(1, 1));
        one.expect(1, IBV_WC_SUCCESS);
    }
    ibv_cq* told;
    void* with;
    OK(ibv_get_cq_event(other.channel, &told, &with));
    ibv_ack_cq_events(told, 1);
    HOLDS(!other.has_event());
    // Of solicited messages alone.
    OK(other.context->ops.req_notify_cq(other.cq, 1));
    OK(one.send(1, 1));
    one.expect(1, IBV_WC_SUCCESS);
    HOLDS(!other.has_event());
    OK(one.send(1, 1, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED));
    one.expect(1, IBV_WC_SUCCESS);
    HOLDS(other.has_event());
    // A queue takes its events with it.
    OK(ibv_destroy_qp(other.qp));
    OK(ibv_destroy_cq(other.cq));
    HOLDS(!other.has_event());
}

void memory_of_a_descriptor_is_written_by_its_addresses() {
    End worker, receiver;
    connect(worker, receiver);
    const int descriptor = memfd_create("device", 0);
    OK(ftruncate(descriptor, 4 * 4096));
    const uint64_t iova = 0x7000'0000'1100;
    HOLDS(!ibv_reg_dmabuf_mr(receiver.pd, 0x1101, 8192, iova, descriptor, BOTH) && errno == EINVAL);
    HOLDS(!ibv_reg_dmabuf_mr(receiver.pd, 0x3100, 8192, iova, descriptor, BOTH) && errno == EINVAL);
    ibv_mr* mr = ibv_reg_dmabuf_mr(receiver.pd, 0x1100, 8192, iova, descriptor, BOTH);
    HOLDS(mr && address(mr->addr) == iova && mr->length == 8192);
    std::strcpy(worker.memory, "device");
    OK(worker.write(1, iova + 5000, mr->rkey, 7));
    worker.expect(1, IBV_WC_SUCCESS);
    char found[7];
    HOLDS(pread(descriptor, found, 7, 0x1100 + 5000) == 7 && !std::strcmp(found, "device"));
    OK(worker.write(2, iova + 8190, mr->rkey, 3));
    worker.expect(2, IBV_WC_REM_ACCESS_ERR);
    OK(ibv_dereg_mr(mr));
}

void what_is_not_there_is_not_registered() {
    End end;
    const auto map = [](int protection) {
        return mmap(nullptr, 8192, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    };
    void* read_only = map(PROT_READ);
    HOLDS(ibv_reg_mr(end.pd, read_only, 8192, 0));
    HOLDS(!ibv_reg_mr(end.pd, read_only, 8192, BOTH) && errno == EFAULT);
    HOLDS(!ibv_reg_mr(end.pd, map(PROT_NONE), 8192, 0) && errno == EFAULT);
    void* gone = map(PROT_READ | PROT_WRITE);
    munmap(static_cast<char*>(gone) + 4096, 4096);
    HOLDS(!ibv_reg_mr(end.pd, gone, 8192, BOTH) && (errno == EFAULT || errno == ENOMEM));
    HOLDS(!ibv_reg_mr(end.pd, end.memory, 1, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
}

void the_call_that_is_named_fails() {
    End one;
    HOLDS(!ibv_reg_mr(one.pd, one.memory, 1, BOTH) && errno == ENOMEM);
    HOLDS(ibv_reg_mr(one.pd, one.memory, 1, BOTH));
    HOLDS(one.to_init() == EPERM);
}

// EMULATED_VERBS_DEVICES="first=1/::1|4/::,::2;second=" in the environment.
void the_machine_is_the_one_that_is_described() {
    int count;
    ibv_device** list = ibv_get_device_list(&count);
    HOLDS(count == 2 && !list[2] && !std::strcmp(ibv_get_device_name(list[0]), "first") &&
          !std::strcmp(ibv_get_device_name(list[1]), "second"));
    ibv_context *first = ibv_open_device(list[0]), *second = ibv_open_device(list[1]);
    ibv_device_attr device;
    OK(ibv_query_device(first, &device));
    HOLDS(device.phys_port_cnt == 2);
    OK(ibv_query_device(second, &device));
    HOLDS(device.phys_port_cnt == 0);
    ibv_port_attr port;
    OK(ibv_query_port(first, 1, &port));
    HOLDS(port.state == 1 && port.gid_tbl_len == 1);
    OK(ibv_query_port(first, 2, &port));
    HOLDS(port.state == IBV_PORT_ACTIVE && port.gid_tbl_len == 2);
    ibv_gid gid;
    OK(ibv_query_gid(first, 2, 0, &gid));
    HOLDS(gid.global.subnet_prefix == 0 && gid.global.interface_id == 0);
    OK(ibv_query_gid(first, 2, 1, &gid));
    HOLDS(gid.raw[15] == 2);
    HOLDS(ibv_query_gid(first, 2, 2, &gid) && ibv_query_port(first, 3, &port) &&
          ibv_query_port(second, 1, &port));
}

const Scenarios DATA = {
    SCENARIO(writes_arrive_in_order_and_the_last_is_told_of),
    SCENARIO(a_message_waits_for_a_buffer),
    SCENARIO(memory_is_read_when_it_is_sent),
    SCENARIO(room_comes_back_with_a_completion_that_is_taken),
    SCENARIO(an_event_comes_once_for_each_request),
    SCENARIO(memory_of_a_descriptor_is_written_by_its_addresses),
    SCENARIO(what_is_not_there_is_not_registered),
    SCENARIO(the_call_that_is_named_fails),
    SCENARIO(the_machine_is_the_one_that_is_described),
};

}  // namespace

int main(int count, char** words) { return run_scenario(count, words, {&DATA, &FAULTS, &MISUSE}); }
