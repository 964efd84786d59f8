// Devices, their ports, and memory that they reach.
#include "state.h"

#include <arpa/inet.h>
#include <cstring>
#include <random>
#include <sstream>
#include <sys/mman.h>
#include <unistd.h>
#include <unordered_map>
#include <vector>

namespace {

struct Port {
    unsigned state;
    std::vector<ibv_gid> gids;
};

}  // namespace

struct ibv_device {
    std::string name;
    std::vector<Port> ports;
};

using namespace emulated;

static std::vector<std::string> split(const std::string& text, char at) {
    std::vector<std::string> parts;
    std::istringstream rest(text);
    for (std::string part; std::getline(rest, part, at);) parts.push_back(part);
    return parts;
}

// EMULATED_VERBS_DEVICES=NAME=STATE/GID,..|STATE/GID,..;..: devices, each with its ports, each with the
// number of its state and its addresses. Empty: none. Only port 1 of a machine that is not described
// has pairs.
static std::vector<ibv_device>& devices() {
    static auto& known = *new std::vector<ibv_device>([] {
        const char* text = std::getenv("EMULATED_VERBS_DEVICES");
        if (!text) return std::vector<ibv_device>{{"emulated0", {{IBV_PORT_ACTIVE, {{}, GID}}}}};
        std::vector<ibv_device> found;
        for (const std::string& described : split(text, ';')) {
            const size_t named = described.find('=');
            if (named == std::string::npos) fail("EMULATED_VERBS_DEVICES: no NAME= in %s", text);
            ibv_device device{described.substr(0, named), {}};
            for (const std::string& port : split(described.substr(named + 1), '|')) {
                const size_t slash = port.find('/');
                Port made{unsigned(std::atoi(port.c_str())), {}};
                if (slash != std::string::npos)
                    for (const std::string& gid : split(port.substr(slash + 1), ',')) {
                        made.gids.emplace_back();
                        if (inet_pton(AF_INET6, gid.c_str(), &made.gids.back()) != 1)
                            fail("EMULATED_VERBS_DEVICES: %s is no address", gid.c_str());
                    }
                device.ports.push_back(made);
            }
            found.push_back(device);
        }
        return found;
    }());
    return known;
}

static const Port* port_of(ibv_context* context, uint8_t number) {
    const auto& ports = known<Context>(context)->device->ports;
    return number >= 1 && number <= ports.size() ? &ports[number - 1] : nullptr;
}

// By key, of both kinds: they differ, so that one does not pass for the other.
static auto& regions = *new std::unordered_map<uint32_t, Region*>;

API ibv_device** ibv_get_device_list(int* count) {
    return call("ibv_get_device_list", [&] {
        const size_t all = devices().size();
        ibv_device** list = new ibv_device*[all + 1]();
        for (size_t i = 0; i < all; ++i) list[i] = &devices()[i];
        if (count) *count = int(all);
        return list;
    });
}

API void ibv_free_device_list(ibv_device** list) { delete[] list; }

API const char* ibv_get_device_name(ibv_device* of) { return of->name.c_str(); }

API ibv_context* ibv_open_device(ibv_device* of) {
    return call("ibv_open_device", [&]() -> ibv_context* {
        if (of < devices().data() || of >= devices().data() + devices().size())
            fail("%p is no device", static_cast<void*>(of));
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
        const Context* opened = known<Context>(context);
        *attr = {};
        std::strcpy(attr->fw_ver, "emulated");
        attr->max_mr_size = UINT64_MAX;
        attr->page_size_cap = sysconf(_SC_PAGESIZE);
        attr->max_qp = attr->max_cq = 1 << 16;
        attr->max_qp_wr = QUEUE_ENTRIES_MAX;
        attr->max_sge = 1;
        attr->max_cqe = COMPLETIONS_MAX;
        attr->max_pkeys = 1;
        attr->phys_port_cnt = opened->device->ports.size();
        return 0;
    });
}

API int ibv_query_port(ibv_context* context, uint8_t port, ibv_port_attr* attr) {
    return call("ibv_query_port", [&] {
        const Port* of = port_of(context, port);
        if (!of) return EINVAL;
        *attr = {};
        attr->state = of->state;
        attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
        attr->gid_tbl_len = of->gids.size();
        attr->max_msg_sz = MESSAGE_MAX_BYTES;
        attr->pkey_tbl_len = 1;
        attr->link_layer = IBV_LINK_LAYER_ETHERNET;
        return 0;
    });
}

API int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
    return call("ibv_query_gid", [&] {
        const Port* of = port_of(context, port);
        if (!of || index < 0 || size_t(index) >= of->gids.size()) return EINVAL;
        *gid = of->gids[index];
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
