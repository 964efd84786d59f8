// The part of rdma-core's <infiniband/verbs.h> that is emulated: layouts, numbers and names as ABI 1.1 has
// them. selftest_abi.cpp compares them with the system's own header where there is one.
#pragma once
#include <cstddef>
#include <cstdint>

struct ibv_device;
struct ibv_cq;
struct ibv_qp;
struct ibv_wc;
struct ibv_send_wr;
struct ibv_recv_wr;

enum : unsigned {
    IBV_PORT_ACTIVE = 4,
    IBV_MTU_4096 = 5,
    IBV_LINK_LAYER_INFINIBAND = 1,
    IBV_LINK_LAYER_ETHERNET = 2,
    IBV_QPT_RC = 2,
    IBV_QPF_GRH_REQUIRED = 1,
    IBV_GID_TYPE_ROCE_V1 = 1,
    IBV_GID_TYPE_ROCE_V2 = 2,
    IBV_EVENT_DEVICE_FATAL = 8,
};
enum : int { IBV_FORK_DISABLED, IBV_FORK_ENABLED, IBV_FORK_UNNEEDED };
enum : unsigned { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR = 6 };
enum : int {
    IBV_QP_STATE = 1,
    IBV_QP_ACCESS_FLAGS = 1 << 3,
    IBV_QP_PKEY_INDEX = 1 << 4,
    IBV_QP_PORT = 1 << 5,
    IBV_QP_AV = 1 << 7,
    IBV_QP_PATH_MTU = 1 << 8,
    IBV_QP_TIMEOUT = 1 << 9,
    IBV_QP_RETRY_CNT = 1 << 10,
    IBV_QP_RNR_RETRY = 1 << 11,
    IBV_QP_RQ_PSN = 1 << 12,
    IBV_QP_MAX_QP_RD_ATOMIC = 1 << 13,
    IBV_QP_MIN_RNR_TIMER = 1 << 15,
    IBV_QP_SQ_PSN = 1 << 16,
    IBV_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
    IBV_QP_DEST_QPN = 1 << 20,
};
enum : int {
    IBV_ACCESS_LOCAL_WRITE = 1,
    IBV_ACCESS_REMOTE_WRITE = 2,
    IBV_ACCESS_RELAXED_ORDERING = 1 << 20,
};
enum : unsigned { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND };
enum : unsigned { IBV_SEND_SIGNALED = 1 << 1, IBV_SEND_SOLICITED = 1 << 2 };
enum : unsigned {
    IBV_WC_SUCCESS = 0,
    IBV_WC_LOC_LEN_ERR = 1,
    IBV_WC_WR_FLUSH_ERR = 5,
    IBV_WC_REM_INV_REQ_ERR = 9,
    IBV_WC_REM_ACCESS_ERR = 10,
    IBV_WC_RETRY_EXC_ERR = 12,
};
enum : unsigned {
    IBV_WC_SEND = 0,
    IBV_WC_RDMA_WRITE = 1,
    IBV_WC_RECV = 1 << 7,
    IBV_WC_RECV_RDMA_WITH_IMM = (1 << 7) + 1,
};
enum : unsigned { IBV_WC_WITH_IMM = 2 };

union ibv_gid {
    uint8_t raw[16];
    struct {
        uint64_t subnet_prefix, interface_id;
    } global;
};

// What the header's inline functions go through.
struct ibv_context_ops {
    void* before_poll_cq[11];
    int (*poll_cq)(ibv_cq*, int, ibv_wc*);
    int (*req_notify_cq)(ibv_cq*, int);
    void* before_post_send[12];
    int (*post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
    int (*post_recv)(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**);
    void* after_post_recv[5];
};
struct ibv_context {
    ibv_device* device;
    ibv_context_ops ops;
    int cmd_fd, async_fd, num_comp_vectors;
    uint64_t mutex[5];
    // Null: there are no extended functions.
    void* abi_compat;
};
struct ibv_pd {
    ibv_context* context;
    uint32_t handle;
};
struct ibv_mr {
    ibv_context* context;
    ibv_pd* pd;
    void* addr;
    size_t length;
    uint32_t handle, lkey, rkey;
};
struct ibv_comp_channel {
    ibv_context* context;
    int fd, refcnt;
};
// These two, their beginning.
struct ibv_cq {
    ibv_context* context;
    ibv_comp_channel* channel;
    void* cq_context;
    uint32_t handle;
    int cqe;
};
struct ibv_qp {
    ibv_context* context;
    void* qp_context;
    ibv_pd* pd;
    ibv_cq *send_cq, *recv_cq;
    void* srq;
    uint32_t handle, qp_num;
};

struct ibv_device_attr {
    char fw_ver[64];
    uint64_t node_guid, sys_image_guid, max_mr_size, page_size_cap;
    uint32_t vendor_id, vendor_part_id, hw_ver;
    int max_qp, max_qp_wr;
    unsigned device_cap_flags;
    int max_sge, max_sge_rd, max_cq, max_cqe, limits[22];
    uint16_t max_pkeys;
    uint8_t local_ca_ack_delay, phys_port_cnt;
};
struct ibv_port_attr {
    unsigned state, max_mtu, active_mtu;
    int gid_tbl_len;
    uint32_t port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr;
    uint16_t pkey_tbl_len, lid, sm_lid;
    uint8_t lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width, active_speed, phys_state;
    uint8_t link_layer, flags;
    uint16_t port_cap_flags2;
};
struct ibv_gid_entry {
    ibv_gid gid;
    uint32_t gid_index, port_num, gid_type, ndev_ifindex;
};
struct ibv_async_event {
    union {
        void* pointer;
        int port_num;
    } element;
    unsigned event_type;
};
struct ibv_qp_cap {
    uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
};
struct ibv_qp_init_attr {
    void* qp_context;
    ibv_cq *send_cq, *recv_cq;
    void* srq;
    ibv_qp_cap cap;
    unsigned qp_type;
    int sq_sig_all;
};
struct ibv_global_route {
    ibv_gid dgid;
    uint32_t flow_label;
    uint8_t sgid_index, hop_limit, traffic_class;
};
struct ibv_ah_attr {
    ibv_global_route grh;
    uint16_t dlid;
    uint8_t sl, src_path_bits, static_rate, is_global, port_num;
};
struct ibv_qp_attr {
    unsigned qp_state, cur_qp_state, path_mtu, path_mig_state;
    uint32_t qkey, rq_psn, sq_psn, dest_qp_num;
    unsigned qp_access_flags;
    ibv_qp_cap cap;
    ibv_ah_attr ah_attr, alt_ah_attr;
    uint16_t pkey_index, alt_pkey_index;
    uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num;
    uint8_t timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout;
    uint32_t rate_limit;
};

struct ibv_sge {
    uint64_t addr;
    uint32_t length, lkey;
};
struct ibv_send_wr {
    uint64_t wr_id;
    ibv_send_wr* next;
    ibv_sge* sg_list;
    int num_sge;
    unsigned opcode, send_flags;
    // In network order.
    uint32_t imm_data;
    union {
        struct {
            uint64_t remote_addr;
            uint32_t rkey;
        } rdma;
        uint64_t room[11];
    } wr;
};
struct ibv_recv_wr {
    uint64_t wr_id;
    ibv_recv_wr* next;
    ibv_sge* sg_list;
    int num_sge;
};
struct ibv_wc {
    uint64_t wr_id;
    unsigned status, opcode;
    uint32_t vendor_err, byte_len, imm_data, qp_num, src_qp;
    unsigned wc_flags;
    uint16_t pkey_index, slid;
    uint8_t sl, dlid_path_bits;
};
