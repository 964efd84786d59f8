// Devices, their ports, and memory that they reach.
#include "state.h"

#include <arpa/inet.h>
#include <cstring>
#include <random>
#include <sstream>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unordered_map>
#include <vector>

namespace {

struct Address {
    ibv_gid gid;
    bool is_roce_v1 = false;
    uint32_t interface = 0;
};
struct Port {
    unsigned state;
    std::vector<Address> gids;
    bool infiniband = false, needs_grh = false;
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

// One of a port's addresses: `::1` and, behind it, `!` for RoCE v1 and `@7` for the interface of index 7.
static Address address(const std::string& text) {
    Address made = {};
    const size_t end = text.find_first_of("!@"), at = text.find('@');
    made.is_roce_v1 = text.find('!') != std::string::npos;
    if (at != std::string::npos) made.interface = std::atoi(text.c_str() + at + 1);
    if (inet_pton(AF_INET6, text.substr(0, end).c_str(), &made.gid) != 1)
        fail("EMULATED_VERBS_DEVICES: %s is no address", text.c_str());
    return made;
}

// EMULATED_VERBS_DEVICES=NAME=STATE/GID,..|STATE/GID,..;..: devices, each with its ports, each with the
// number of its state, `i` where it is InfiniBand, `g` where it needs a global route, and its addresses.
// Empty: none. Pairs are of port 1, and leave by address 1, which is ::ffff:127.0.0.1.
static std::vector<ibv_device>& devices() {
    static auto& known = *new std::vector<ibv_device>([] {
        const char* text = std::getenv("EMULATED_VERBS_DEVICES");
        if (!text) return std::vector<ibv_device>{{"emulated0", {{IBV_PORT_ACTIVE, {{}, {GID}}}}}};
        std::vector<ibv_device> found;
        for (const std::string& described : split(text, ';')) {
            const size_t named = described.find('=');
            if (named == std::string::npos) fail("EMULATED_VERBS_DEVICES: no NAME= in %s", text);
            ibv_device device{described.substr(0, named), {}};
            for (const std::string& port : split(described.substr(named + 1), '|')) {
                const size_t slash = port.find('/');
                const std::string kind = port.substr(0, slash);
                Port made{unsigned(std::atoi(port.c_str())), {}};
                made.infiniband = kind.find('i') != std::string::npos;
                made.needs_grh = kind.find('g') != std::string::npos;
                if (slash != std::string::npos)
                    for (const std::string& gid : split(port.substr(slash + 1), ','))
                        made.gids.push_back(address(gid));
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

const std::vector<uint16_t>& emulated::partitions() {
    static auto& keys = *new std::vector<uint16_t>([] {
        std::vector<uint16_t> found;
        const char* text = setting("EMULATED_VERBS_PKEYS");
        for (const std::string& key : split(text ? text : "ffff", ','))
            found.push_back(std::stoul(key, nullptr, 16));
        return found;
    }());
    return keys;
}

static auto& contexts = *new std::vector<Context*>;

void emulated::break_devices() {
    for (Context* context : contexts) {
        context->dead = true;
        const uint64_t one = 1;
        if (write(context->async_fd, &one, sizeof one) < 0) fail("a descriptor of events was closed");
    }
}

// EMULATED_VERBS_FORK=unsafe: a kernel that moves registered pages away when the process forks.
static bool fork_is_safe = !setting("EMULATED_VERBS_FORK");

API int ibv_is_fork_initialized() {
    static const bool needed = setting("EMULATED_VERBS_FORK");
    return !needed ? IBV_FORK_UNNEEDED : fork_is_safe ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
}

API int ibv_fork_init() {
    return call("ibv_fork_init", [] {
        fork_is_safe = true;
        return 0;
    });
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
        if (!fork_is_safe) fail("a process that forks would lose its registered pages");
        Context* made = make<Context>();
        made->device = of;
        made->cmd_fd = -1;
        made->num_comp_vectors = COMPLETION_VECTORS;
        made->async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
        contexts.push_back(made);
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
        std::erase(contexts, context);
        close(context->async_fd);
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
        attr->pkey_tbl_len = partitions().size();
        attr->link_layer = of->infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
        attr->flags = of->needs_grh ? uint8_t(IBV_QPF_GRH_REQUIRED) : 0;
        return 0;
    });
}

API int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
    return call("ibv_query_gid", [&] {
        const Port* of = port_of(context, port);
        if (!of || index < 0 || size_t(index) >= of->gids.size()) return EINVAL;
        *gid = of->gids[index].gid;
        return 0;
    });
}

API int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                          uint32_t flags, size_t bytes) {
    return call("_ibv_query_gid_ex", [&] {
        const Port* of = port_of(context, port);
        if (!of || flags || bytes != sizeof *entry || index >= of->gids.size()) return EINVAL;
        const Address& found = of->gids[index];
        const ibv_gid empty = {};
        if (!std::memcmp(&found.gid, &empty, sizeof empty)) return ENODATA;
        const unsigned type = found.is_roce_v1 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
        *entry = {found.gid, index, port, of->infiniband ? 0 : type, found.interface};
        return 0;
    });
}

API int ibv_query_pkey(ibv_context* context, uint8_t port, int index, uint16_t* key) {
    return call("ibv_query_pkey", [&] {
        if (!port_of(context, port) || index < 0 || size_t(index) >= partitions().size()) return EINVAL;
        *key = htons(partitions()[index]);
        return 0;
    });
}

// Waits, unless the program made the descriptor one that does not.
API int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
    uint64_t one;
    if (read(context->async_fd, &one, sizeof one) != sizeof one) return -1;
    *event = {{}, IBV_EVENT_DEVICE_FATAL};
    return 0;
}

API void ibv_ack_async_event(ibv_async_event*) {}

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
    if (access & ~(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING))
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

static ibv_mr* registered(ibv_pd* pd, void* address, size_t bytes, int access) {
    return call("ibv_reg_mr", [&]() -> ibv_mr* {
        known<Domain>(pd);
        if (!bytes || !is_access(access)) return refuse<ibv_mr>(EINVAL);
        if (!is_reachable(address, bytes, access)) return refuse<ibv_mr>(EFAULT);
        return new_region(pd, address, bytes, access);
    });
}

API ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t bytes, int access) {
    if (access & IBV_ACCESS_RELAXED_ORDERING) fail("ibv_reg_mr takes no optional access");
    return registered(pd, address, bytes, access);
}

API ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t bytes, uint64_t iova, unsigned access) {
    if (iova != reinterpret_cast<uint64_t>(address)) fail("addresses of requests are not emulated");
    return registered(pd, address, bytes, int(access));
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
