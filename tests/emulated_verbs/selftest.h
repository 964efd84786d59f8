// What the scenarios of the emulated verbs' own test share.
#pragma once
#include "../emulated/scenarios.h"
#include "abi.h"

#include <sys/mman.h>

extern "C" {
ibv_device** ibv_get_device_list(int*);
void ibv_free_device_list(ibv_device**);
const char* ibv_get_device_name(ibv_device*);
ibv_context* ibv_open_device(ibv_device*);
int ibv_close_device(ibv_context*);
int ibv_query_device(ibv_context*, ibv_device_attr*);
int ibv_query_port(ibv_context*, uint8_t, ibv_port_attr*);
int ibv_query_gid(ibv_context*, uint8_t, int, ibv_gid*);
ibv_pd* ibv_alloc_pd(ibv_context*);
int ibv_dealloc_pd(ibv_pd*);
ibv_mr* ibv_reg_mr(ibv_pd*, void*, size_t, int);
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, uint64_t, size_t, uint64_t, int, int);
int ibv_dereg_mr(ibv_mr*);
ibv_comp_channel* ibv_create_comp_channel(ibv_context*);
int ibv_destroy_comp_channel(ibv_comp_channel*);
ibv_cq* ibv_create_cq(ibv_context*, int, void*, ibv_comp_channel*, int);
int ibv_destroy_cq(ibv_cq*);
int ibv_get_cq_event(ibv_comp_channel*, ibv_cq**, void**);
void ibv_ack_cq_events(ibv_cq*, unsigned);
ibv_qp* ibv_create_qp(ibv_pd*, ibv_qp_init_attr*);
int ibv_modify_qp(ibv_qp*, ibv_qp_attr*, int);
int ibv_destroy_qp(ibv_qp*);
const char* ibv_wc_status_str(unsigned);
}

const size_t BYTES = 1 << 20;
const int BOTH = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

#define OK(call) HOLDS((call) == 0)

// One end: a device, a domain, a queue with its channel, registered memory, and a pair.
struct End {
    ibv_context* context;
    ibv_pd* pd;
    ibv_comp_channel* channel;
    ibv_cq* cq;
    char* memory;
    ibv_mr* mr;
    ibv_qp* qp;

    explicit End(int access = BOTH, int entries = 1024);

    int to_init(int access = BOTH);
    // What comes from the peer begins with this packet.
    int to_rtr(uint32_t peer, uint32_t first_packet = 7);
    int to_rts(uint32_t first_packet = 7);
    int stop();

    int receive(uint64_t id, size_t at = 0, uint32_t bytes = 256);
    int send(uint64_t id, uint32_t bytes, unsigned flags = IBV_SEND_SIGNALED);
    int write(uint64_t id, uint64_t address, uint32_t key, uint32_t bytes,
              unsigned opcode = IBV_WR_RDMA_WRITE, unsigned flags = IBV_SEND_SIGNALED);
    // As they are, with a local key of their own.
    int post(ibv_send_wr request, ibv_sge piece, int pieces = 1);
    // How many completions there are, at most one, and that one.
    int poll(ibv_wc* wc);
    // The next completion, which is waited for.
    ibv_wc next();
    // The next one is this one, and ended so.
    void expect(uint64_t id, unsigned status);
    // Whether the channel has an event.
    bool has_event();
};

// Both can send.
void connect(End& one, End& other);
uint64_t address(const void* of);

// Each file's scenarios.
extern const Scenarios FAULTS, MISUSE;
