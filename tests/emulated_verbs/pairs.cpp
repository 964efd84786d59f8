// Queue pairs: what programs call.
#include "pairs.h"
#include "state.h"

#include <cstring>

using namespace emulated;

namespace {

// What a change of state has to come with, and what may come besides (the specification of InfiniBand,
// volume 1, table 92).
struct Step {
    unsigned from, to;
    int needed, allowed;
};
const Step STEPS[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
};

void check_values(const ibv_qp_attr& attr, int mask) {
    if (mask & IBV_QP_PORT && attr.port_num != 1) fail("port %u; there is 1 alone", attr.port_num);
    if (mask & IBV_QP_PKEY_INDEX && attr.pkey_index >= partitions().size())
        fail("partition %u", attr.pkey_index);
    const ibv_ah_attr& to = attr.ah_attr;
    if (mask & IBV_QP_AV && (!to.is_global || to.port_num != 1 || to.grh.sgid_index != GID_INDEX))
        fail("an Ethernet port is left by a global route from address %d of port 1", GID_INDEX);
    if (mask & IBV_QP_AV && std::memcmp(&to.grh.dgid, &GID, sizeof GID))
        fail("the peer's address is not that of this host's port");
    if (mask & IBV_QP_PATH_MTU && (attr.path_mtu < 1 || attr.path_mtu > IBV_MTU_4096))
        fail("an MTU of kind %u", attr.path_mtu);
    if ((mask & IBV_QP_RQ_PSN && attr.rq_psn >> 24) || (mask & IBV_QP_SQ_PSN && attr.sq_psn >> 24))
        fail("a packet's number of more than 24 bits");
    if (mask & IBV_QP_RNR_RETRY && attr.rnr_retry != 7)
        fail("rnr_retry of %u is not emulated, only 7: without end", attr.rnr_retry);
}

void take_over(ibv_qp_attr& own, const ibv_qp_attr& told, int mask) {
    if (mask & IBV_QP_ACCESS_FLAGS) own.qp_access_flags = told.qp_access_flags;
    if (mask & IBV_QP_PATH_MTU) own.path_mtu = told.path_mtu;
    if (mask & IBV_QP_DEST_QPN) own.dest_qp_num = told.dest_qp_num;
    if (mask & IBV_QP_RQ_PSN) own.rq_psn = told.rq_psn;
    if (mask & IBV_QP_SQ_PSN) own.sq_psn = told.sq_psn;
    if (mask & IBV_QP_TIMEOUT) own.timeout = told.timeout;
    if (mask & IBV_QP_RETRY_CNT) own.retry_cnt = told.retry_cnt;
}

// The memory of a request, which stays in use until it comes back.
void hold(Work& work, const Pair* pair, const ibv_sge* list, int count, int access) {
    if (count < 0 || count > 1) fail("%d pieces of memory; the device takes 1", count);
    if (!count) return;
    Region* region = region_of_local_key(list->lkey);
    if (!region) fail("%#x is no local key, or not any more", list->lkey);
    if (region->pd != pair->pd) fail("the local key is of another protection domain");
    if (access & ~region->access) fail("the region may not be written");
    const uint64_t start = reinterpret_cast<uint64_t>(region->addr), at = list->addr - start;
    if (at > region->length || list->length > region->length - at)
        fail("%u bytes from byte %ld on of a region of %zu", list->length, long(at), region->length);
    work.region = region;
    work.held = region->held + at;
    work.bytes = list->length;
    region->users++;
}

void give_back(std::deque<Work>& from, size_t count) {
    for (; count; --count) {
        if (from.front().region) from.front().region->users--;
        from.pop_front();
    }
}

}  // namespace

API ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
    return call("ibv_create_qp", [&]() -> ibv_qp* {
        Domain* domain = known<Domain>(pd);
        Queue *sends = known<Queue>(attr->send_cq), *receives = known<Queue>(attr->recv_cq);
        const ibv_qp_cap& cap = attr->cap;
        if (static_cast<Context*>(pd->context)->dead) return refuse<ibv_qp>(EIO);
        if (attr->qp_type != IBV_QPT_RC || attr->srq) fail("only reliable connections are emulated");
        if (cap.max_send_wr > QUEUE_ENTRIES_MAX || cap.max_recv_wr > QUEUE_ENTRIES_MAX ||
            cap.max_send_sge > 1 || cap.max_recv_sge > 1 || cap.max_inline_data)
            return refuse<ibv_qp>(EINVAL);
        Pair* made = make<Pair>();
        made->context = pd->context;
        made->qp_context = attr->qp_context;
        made->pd = pd;
        made->send_cq = sends;
        made->recv_cq = receives;
        made->cap = cap;
        made->signals_all = attr->sq_sig_all;
        if (!settle(made)) {
            forget(made);
            return nullptr;
        }
        domain->users++;
        sends->users++;
        receives->users++;
        return made;
    });
}

API int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
    return call("ibv_modify_qp", [&] {
        Pair* pair = known<Pair>(qp);
        if (!(mask & IBV_QP_STATE)) fail("attributes without a state are not emulated");
        const int with = mask & ~IBV_QP_STATE;
        if (attr->qp_state == IBV_QPS_ERR) {
            if (with) fail("the error state takes no attributes, not %#x", with);
            stop(pair);
            return 0;
        }
        const Step* step = nullptr;
        for (const Step& known : STEPS)
            if (known.from == pair->state && known.to == attr->qp_state) step = &known;
        if (!step) fail("a pair in state %u cannot go to %u", pair->state, attr->qp_state);
        if (const int missing = step->needed & ~with) fail("attributes %#x are missing", missing);
        if (const int extra = with & ~(step->needed | step->allowed))
            fail("attributes %#x do not belong to state %u", extra, attr->qp_state);
        check_values(*attr, mask);
        take_over(pair->attr, *attr, mask);
        pair->state = attr->qp_state;
        wake();
        return 0;
    });
}

API int ibv_destroy_qp(ibv_qp* qp) {
    return call("ibv_destroy_qp", [&] {
        Pair* pair = known<Pair>(qp);
        leave(pair);
        give_back(pair->sends, pair->sends.size());
        give_back(pair->receives, pair->receives.size());
        for (ibv_cq* cq : {pair->send_cq, pair->recv_cq}) {
            forget_completions(static_cast<Queue*>(cq), pair);
            static_cast<Queue*>(cq)->users--;
        }
        static_cast<Domain*>(pair->pd)->users--;
        forget(pair);
        return 0;
    });
}

namespace emulated {

void retire(Pair* pair, size_t sends, size_t receives) {
    give_back(pair->sends, sends);
    pair->sent -= sends;
    pair->ended -= sends;
    give_back(pair->receives, receives);
    pair->used -= receives;
}

static int post_send(Pair* pair, const ibv_send_wr* request) {
    if (pair->state != IBV_QPS_RTS && pair->state != IBV_QPS_ERR)
        fail("a pair in state %u cannot send", pair->state);
    if (request->opcode > IBV_WR_SEND) fail("opcode %u is not emulated", request->opcode);
    if (request->send_flags & ~(IBV_SEND_SIGNALED | IBV_SEND_SOLICITED))
        fail("flags %#x are not emulated", request->send_flags);
    // Room comes back when a completion is taken, not when it is there.
    if (pair->sends.size() == pair->cap.max_send_wr) return ENOMEM;
    Work work;
    hold(work, pair, request->sg_list, request->num_sge, 0);
    if (work.bytes > MESSAGE_MAX_BYTES) fail("a message of %u bytes", work.bytes);
    work.id = request->wr_id;
    work.opcode = request->opcode;
    work.signalled = pair->signals_all || request->send_flags & IBV_SEND_SIGNALED;
    work.solicited = request->send_flags & IBV_SEND_SOLICITED;
    work.immediate = request->imm_data;
    work.remote_address = request->wr.rdma.remote_addr;
    work.remote_key = request->wr.rdma.rkey;
    pair->sends.push_back(work);
    return 0;
}

static int post_receive(Pair* pair, const ibv_recv_wr* request) {
    if (pair->state == IBV_QPS_RESET) fail("a pair that was not initialised cannot receive");
    if (pair->receives.size() == pair->cap.max_recv_wr) return ENOMEM;
    Work work;
    hold(work, pair, request->sg_list, request->num_sge, IBV_ACCESS_LOCAL_WRITE);
    work.id = request->wr_id;
    pair->receives.push_back(work);
    return 0;
}

template <class Request, class Post>
static int post_all(const char* name, ibv_qp* qp, Request* list, Request** bad, Post post) {
    return call(name, [&] {
        Pair* pair = known<Pair>(qp);
        for (; list; list = list->next)
            if (const int refused = post(pair, list)) {
                *bad = list;
                return refused;
            }
        wake();
        return 0;
    });
}

int post_sends(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad) {
    return post_all("ibv_post_send", qp, list, bad, post_send);
}

int post_receives(ibv_qp* qp, ibv_recv_wr* list, ibv_recv_wr** bad) {
    return post_all("ibv_post_recv", qp, list, bad, post_receive);
}

}  // namespace emulated
