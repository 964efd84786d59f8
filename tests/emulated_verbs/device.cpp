// The device, its port, and memory that it reaches.
#include "state.h"

#include <cstring>
#include <random>
#include <sys/mman.h>
#include <unistd.h>
#include <unordered_map>

struct ibv_device {
    const char* name;
};

using namespace emulated;

static ibv_device device = {"emulated0"};
// By key, of both kinds: they differ, so that one does not pass for the other.
static auto& regions = *new std::unordered_map<uint32_t, Region*>;

API ibv_device** ibv_get_device_list(int* count) {
    return call("ibv_get_device_list", [&] {
        if (count) *count = 1;
        return new ibv_device* [2] { &device, nullptr };
    });
}

API void ibv_free_device_list(ibv_device** list) { delete[] list; }

API const char* ibv_get_device_name(ibv_device* of) { return of->name; }

API ibv_context* ibv_open_device(ibv_device* of) {
    return call("ibv_open_device", [&]() -> ibv_context* {
        if (of != &device) fail("%p is no device", static_cast<void*>(of));
        Context* made = make<Context>();
        made->device = of;
        made->cmd_fd = made->async_fd = -1;
        made->ops.poll_cq = poll_queue;
        made->ops.req_notify_cq = request_notification;
        made->ops.post_send = post_sends;
        made->ops.post_recv = post_receives;
        return made;
    });
}

API int ibv_close_device(ibv_context* context) {
    return call("ibv_close_device", [&] {
        check_unused(known<Context>(context)->users, "domains, channels and queues");
        forget(context);
        return 0;
    });
}

API int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
    return call("ibv_query_device", [&] {
        known<Context>(context);
        *attr = {};
        std::strcpy(attr->fw_ver, "emulated");
        attr->max_mr_size = UINT64_MAX;
        attr->page_size_cap = sysconf(_SC_PAGESIZE);
        attr->max_qp = attr->max_cq = 1 << 16;
        attr->max_qp_wr = QUEUE_ENTRIES_MAX;
        attr->max_sge = 1;
        attr->max_cqe = COMPLETIONS_MAX;
        attr->max_pkeys = attr->phys_port_cnt = 1;
        return 0;
    });
}

API int ibv_query_port(ibv_context* context, uint8_t port, ibv_port_attr* attr) {
    return call("ibv_query_port", [&] {
        known<Context>(context);
        if (port != 1) return EINVAL;
        *attr = {};
        attr->state = IBV_PORT_ACTIVE;
        attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
        attr->gid_tbl_len = GIDS;
        attr->max_msg_sz = MESSAGE_MAX_BYTES;
        attr->pkey_tbl_len = 1;
        attr->link_layer = IBV_LINK_LAYER_ETHERNET;
        return 0;
    });
}

API int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
    return call("ibv_query_gid", [&] {
        known<Context>(context);
        if (port != 1 || index < 0 || index >= GIDS) return EINVAL;
        *gid = index == GID_INDEX ? GID : ibv_gid{};
        return 0;
    });
}

API ibv_pd* ibv_alloc_pd(ibv_context* context) {
    return call("ibv_alloc_pd", [&]() -> ibv_pd* {
        known<Context>(context)->users++;
        Domain* made = make<Domain>();
        made->context = context;
        return made;
    });
}

API int ibv_dealloc_pd(ibv_pd* pd) {
    return call("ibv_dealloc_pd", [&] {
        check_unused(known<Domain>(pd)->users, "regions and queue pairs");
        static_cast<Context*>(pd->context)->users--;
        forget(pd);
        return 0;
    });
}

static uint32_t new_key() {
    static std::random_device chance;
    for (;;) {
        const uint32_t key = chance();
        // Never again: a key that was ended stays unknown.
        if (key && regions.try_emplace(key, nullptr).second) return key;
    }
}

static Region* new_region(ibv_pd* pd, void* address, size_t bytes, int access) {
    Region* made = make<Region>();
    known<Domain>(pd)->users++;
    made->context = pd->context;
    made->pd = pd;
    made->addr = address;
    made->held = static_cast<char*>(address);
    made->length = bytes;
    made->access = access;
    regions[made->lkey = new_key()] = made;
    regions[made->rkey = new_key()] = made;
    return made;
}

static bool is_access(int access) {
    if (access & ~(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE))
        fail("access of kind %#x is not emulated", access);
    return !(access & IBV_ACCESS_REMOTE_WRITE) || access & IBV_ACCESS_LOCAL_WRITE;
}

// Numbers of MADV_POPULATE_READ and MADV_POPULATE_WRITE, which came with Linux 5.14.
enum : int { POPULATE_READ = 22, POPULATE_WRITE = 23 };

// Whether all pages are there, and may be written if they are to be. They come to be, as by pinning.
static bool is_reachable(void* address, size_t bytes, int access) {
    const uintptr_t page = sysconf(_SC_PAGESIZE);
    const auto populate = [&](uintptr_t first, uintptr_t end, int advice) {
        return madvise(reinterpret_cast<void*>(first), end - first, advice) == 0;
    };
    // Where the kernel cannot say so of the page of a variable, it can say nothing.
    static char known[1 << 17];
    const uintptr_t within = (reinterpret_cast<uintptr_t>(known) + page - 1) & ~(page - 1);
    if (!populate(within, within + 1, POPULATE_WRITE)) return true;
    const uintptr_t first = reinterpret_cast<uintptr_t>(address) & ~(page - 1);
    const uintptr_t end = reinterpret_cast<uintptr_t>(address) + bytes;
    return populate(first, end, access & IBV_ACCESS_LOCAL_WRITE ? POPULATE_WRITE : POPULATE_READ);
}

API ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t bytes, int access) {
    return call("ibv_reg_mr", [&]() -> ibv_mr* {
        known<Domain>(pd);
        if (!bytes || !is_access(access)) return refuse<ibv_mr>(EINVAL);
        if (!is_reachable(address, bytes, access)) return refuse<ibv_mr>(EFAULT);
        return new_region(pd, address, bytes, access);
    });
}

// What the descriptor names is reached through a mapping of our own, for addresses from `iova` on.
API ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t iova, int descriptor,
                              int access) {
    return call("ibv_reg_dmabuf_mr", [&]() -> ibv_mr* {
        known<Domain>(pd);
        const uint64_t within = offset & (sysconf(_SC_PAGESIZE) - 1);
        if (!bytes || !is_access(access) || within != (iova & (sysconf(_SC_PAGESIZE) - 1)))
            return refuse<ibv_mr>(EINVAL);
        const off_t end = lseek(descriptor, 0, SEEK_END);
        if (end < 0 || offset + bytes > uint64_t(end)) return refuse<ibv_mr>(EINVAL);
        void* mapped = mmap(nullptr, within + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
                            offset - within);
        if (mapped == MAP_FAILED) return nullptr;
        Region* made = new_region(pd, reinterpret_cast<void*>(iova), bytes, access);
        made->mapped = mapped;
        made->mapped_bytes = within + bytes;
        made->held = static_cast<char*>(mapped) + within;
        return made;
    });
}

API int ibv_dereg_mr(ibv_mr* mr) {
    return call("ibv_dereg_mr", [&] {
        Region* region = known<Region>(mr);
        check_unused(region->users, "unfinished requests");
        regions[region->lkey] = regions[region->rkey] = nullptr;
        if (region->mapped) munmap(region->mapped, region->mapped_bytes);
        static_cast<Domain*>(region->pd)->users--;
        forget(region);
        return 0;
    });
}

Region* emulated::region_of_local_key(uint32_t key) {
    const auto found = regions.find(key);
    return found != regions.end() && found->second && found->second->lkey == key ? found->second
                                                                                  : nullptr;
}

Region* emulated::region_of_remote_key(uint32_t key) {
    const auto found = regions.find(key);
    return found != regions.end() && found->second && found->second->rkey == key ? found->second
                                                                                  : nullptr;
}
