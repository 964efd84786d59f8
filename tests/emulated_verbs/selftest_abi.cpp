// abi.h beside the system's own header, where there is one: the compiler compares them.
#if __has_include(<infiniband/verbs.h>)
#include <cstddef>
#include <cstdint>
namespace ours {
#include "abi.h"
}
#include <infiniband/verbs.h>

#define SIZE(type) static_assert(sizeof(ours::type) == sizeof(::type))
#define AT(type, field) static_assert(offsetof(ours::type, field) == offsetof(::type, field))
#define SAME(name) static_assert(long(ours::name) == long(::name))

SIZE(ibv_gid);
SIZE(ibv_context_ops);
AT(ibv_context_ops, poll_cq);
AT(ibv_context_ops, req_notify_cq);
AT(ibv_context_ops, post_send);
AT(ibv_context_ops, post_recv);
SIZE(ibv_context);
AT(ibv_context, ops);
AT(ibv_context, async_fd);
AT(ibv_context, num_comp_vectors);
AT(ibv_context, abi_compat);
SIZE(ibv_pd);
SIZE(ibv_mr);
AT(ibv_mr, length);
AT(ibv_mr, rkey);
SIZE(ibv_comp_channel);
AT(ibv_comp_channel, refcnt);
AT(ibv_cq, cq_context);
AT(ibv_cq, cqe);
AT(ibv_qp, recv_cq);
AT(ibv_qp, qp_num);
SIZE(ibv_device_attr);
AT(ibv_device_attr, max_qp_wr);
AT(ibv_device_attr, max_cqe);
AT(ibv_device_attr, max_pkeys);
AT(ibv_device_attr, phys_port_cnt);
// From rdma-core 49 on the header's is longer; ours ends where the library's function does.
static_assert(sizeof(ours::ibv_port_attr) <= sizeof(::ibv_port_attr));
AT(ibv_port_attr, flags);
SIZE(ibv_gid_entry);
AT(ibv_gid_entry, gid_type);
AT(ibv_gid_entry, ndev_ifindex);
SIZE(ibv_async_event);
AT(ibv_async_event, event_type);
AT(ibv_port_attr, max_msg_sz);
AT(ibv_port_attr, link_layer);
SIZE(ibv_qp_cap);
SIZE(ibv_qp_init_attr);
AT(ibv_qp_init_attr, qp_type);
SIZE(ibv_global_route);
AT(ibv_global_route, sgid_index);
SIZE(ibv_ah_attr);
AT(ibv_ah_attr, is_global);
SIZE(ibv_qp_attr);
AT(ibv_qp_attr, ah_attr);
AT(ibv_qp_attr, pkey_index);
AT(ibv_qp_attr, port_num);
AT(ibv_qp_attr, rnr_retry);
SIZE(ibv_sge);
AT(ibv_sge, lkey);
SIZE(ibv_send_wr);
AT(ibv_send_wr, imm_data);
AT(ibv_send_wr, wr.rdma.rkey);
SIZE(ibv_recv_wr);
SIZE(ibv_wc);
AT(ibv_wc, imm_data);
AT(ibv_wc, wc_flags);

SAME(IBV_PORT_ACTIVE);
SAME(IBV_MTU_4096);
SAME(IBV_LINK_LAYER_ETHERNET);
SAME(IBV_QPT_RC);
SAME(IBV_QPS_RESET);
SAME(IBV_QPS_RTS);
SAME(IBV_QPS_ERR);
SAME(IBV_QP_STATE);
SAME(IBV_QP_ACCESS_FLAGS);
SAME(IBV_QP_PKEY_INDEX);
SAME(IBV_QP_PORT);
SAME(IBV_QP_AV);
SAME(IBV_QP_PATH_MTU);
SAME(IBV_QP_TIMEOUT);
SAME(IBV_QP_RETRY_CNT);
SAME(IBV_QP_RNR_RETRY);
SAME(IBV_QP_RQ_PSN);
SAME(IBV_QP_MAX_QP_RD_ATOMIC);
SAME(IBV_QP_MIN_RNR_TIMER);
SAME(IBV_QP_SQ_PSN);
SAME(IBV_QP_MAX_DEST_RD_ATOMIC);
SAME(IBV_QP_DEST_QPN);
SAME(IBV_ACCESS_LOCAL_WRITE);
SAME(IBV_ACCESS_REMOTE_WRITE);
SAME(IBV_ACCESS_RELAXED_ORDERING);
SAME(IBV_GID_TYPE_ROCE_V1);
SAME(IBV_GID_TYPE_ROCE_V2);
SAME(IBV_EVENT_DEVICE_FATAL);
SAME(IBV_FORK_ENABLED);
SAME(IBV_LINK_LAYER_INFINIBAND);
SAME(IBV_WR_RDMA_WRITE_WITH_IMM);
SAME(IBV_WR_SEND);
SAME(IBV_SEND_SIGNALED);
SAME(IBV_SEND_SOLICITED);
SAME(IBV_WC_LOC_LEN_ERR);
SAME(IBV_WC_WR_FLUSH_ERR);
SAME(IBV_WC_REM_INV_REQ_ERR);
SAME(IBV_WC_REM_ACCESS_ERR);
SAME(IBV_WC_RETRY_EXC_ERR);
SAME(IBV_WC_SEND);
SAME(IBV_WC_RDMA_WRITE);
SAME(IBV_WC_RECV);
SAME(IBV_WC_RECV_RDMA_WITH_IMM);
SAME(IBV_WC_WITH_IMM);
#else
#warning "no infiniband/verbs.h: the layouts are not compared; install libibverbs-dev"
#endif
