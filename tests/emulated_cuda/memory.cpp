#include "memory.h"

#include "state.h"

#include <cstring>
#include <map>
#include <sys/mman.h>
#include <unistd.h>

namespace emulated {

namespace {

const size_t PAGE = 4096;
// What nobody has written is neither zero nor what was there before.
const uint8_t UNWRITTEN = 0xa5;

struct Allocation {
    size_t bytes, pages_bytes;
    uint8_t* held;
    int pages;
    Users users;
    // Mapped from a handle: its bytes are counted there.
    bool mapped = false;
    bool is_accessible = true;
    uint64_t imported = 0;
};

struct Pinned {
    size_t bytes;
    // Given by cuMemHostAlloc, else registered.
    bool ours;
    Users users;
};

std::map<CUdeviceptr, Allocation> device;
std::map<uintptr_t, Pinned> pinned;
size_t taken_bytes = 0;

size_t whole_pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

void* map(void* at, size_t bytes, int protection, int flags, int file) {
    void* mapped = mmap(at, bytes, protection, flags, file, 0);
    if (mapped == MAP_FAILED) fail("no address space for %zu bytes", bytes);
    return mapped;
}

// The entry of a map of ranges that holds an address, or its end.
template <class Map>
auto holder(Map& ranges, uint64_t at) {
    auto next = ranges.upper_bound(at);
    if (next == ranges.begin()) return ranges.end();
    auto found = std::prev(next);
    return at - found->first < found->second.bytes ? found : ranges.end();
}

// Pages that nobody may touch any more take the place of what was there.
void bury(void* at, size_t bytes) {
    map(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1);
}

void drop(std::map<CUdeviceptr, Allocation>::iterator found) {
    Allocation& allocation = found->second;
    for (size_t at = allocation.bytes; at < allocation.pages_bytes; at++)
        if (allocation.held[at] != UNWRITTEN)
            fail("byte %zu of an allocation of %zu was written", at, allocation.bytes);
    bury(reinterpret_cast<void*>(found->first), allocation.pages_bytes);
    munmap(allocation.held, allocation.pages_bytes);
    close(allocation.pages);
    if (!allocation.mapped) taken_bytes -= allocation.bytes;
    device.erase(found);
}

}  // namespace

DeviceRange device_range(CUdeviceptr start, size_t bytes, const char* who) {
    const auto found = holder(device, start);
    if (found == device.end()) fail("%s: %#llx is no device memory", who, start);
    const size_t offset = start - found->first;
    if (bytes > found->second.bytes - offset)
        fail("%s: %zu bytes from byte %zu on of an allocation of %zu", who, bytes, offset,
             found->second.bytes);
    if (!found->second.is_accessible) fail("%s: no access was given to %#llx", who, start);
    return {found->second.held + offset, &found->second.users, found->second.imported, offset};
}

CUdeviceptr take_device(size_t bytes) {
    if (bytes > device_bytes_left()) return 0;
    const size_t pages_bytes = whole_pages(bytes);
    const int pages = memfd_create("emulated-device-memory", MFD_CLOEXEC);
    if (pages < 0 || ftruncate(pages, pages_bytes)) fail("no pages for %zu bytes", bytes);
    // With a page on either side that belongs to nobody.
    uint8_t* at = static_cast<uint8_t*>(map(nullptr, pages_bytes + 2 * PAGE, PROT_NONE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1));
    map(at + PAGE, pages_bytes, wants_peermem() ? PROT_READ | PROT_WRITE : PROT_NONE,
        MAP_SHARED | MAP_FIXED, pages);
    void* held = map(nullptr, pages_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, pages);
    std::memset(held, UNWRITTEN, pages_bytes);
    taken_bytes += bytes;
    const CUdeviceptr start = reinterpret_cast<CUdeviceptr>(at + PAGE);
    device[start] = {bytes, pages_bytes, static_cast<uint8_t*>(held), pages, 0};
    return start;
}

void give_back_device(CUdeviceptr start, const char* who) {
    const auto found = device.find(start);
    if (found == device.end() || found->second.mapped)
        fail("%s: %#llx is no allocation, or freed before", who, start);
    if (found->second.users)
        fail("%s: %u unfinished operations use %#llx", who, found->second.users, start);
    drop(found);
}

void map_device(CUdeviceptr start, int pages, size_t bytes, uint64_t imported) {
    if (holder(device, start) != device.end()) fail("cuMemMap: %#llx is mapped already", start);
    map(reinterpret_cast<void*>(start), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, pages);
    void* held = map(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, pages);
    const int own = dup(pages);
    device[start] = {bytes, bytes, static_cast<uint8_t*>(held), own, 0, true, false, imported};
}

void unmap_device(CUdeviceptr start, size_t bytes) {
    const auto found = device.find(start);
    if (found == device.end() || !found->second.mapped || found->second.bytes != bytes)
        fail("cuMemUnmap: %zu bytes at %#llx are not mapped, or not as a whole", bytes, start);
    if (found->second.users)
        fail("cuMemUnmap: %u unfinished operations use %#llx", found->second.users, start);
    drop(found);
}

void give_access(CUdeviceptr start, size_t bytes) {
    const auto found = device.find(start);
    if (found == device.end() || !found->second.mapped || found->second.bytes != bytes)
        fail("cuMemSetAccess: %zu bytes at %#llx are not mapped, or not as a whole", bytes, start);
    found->second.is_accessible = true;
    if (wants_peermem())
        mprotect(reinterpret_cast<void*>(start), bytes, PROT_READ | PROT_WRITE);
}

bool charge_device(size_t bytes) {
    if (bytes > device_bytes_left()) return false;
    taken_bytes += bytes;
    return true;
}

void refund_device(size_t bytes) { taken_bytes -= bytes; }

size_t device_bytes_left() { return memory_bytes() - taken_bytes; }

std::vector<Users*> users_of_words(const std::vector<uint8_t>& words) {
    std::vector<Users*> users;
    for (size_t at = 0; at + sizeof(uint64_t) <= words.size(); at += sizeof(uint64_t)) {
        uint64_t word;
        std::memcpy(&word, &words[at], sizeof word);
        const auto found = holder(device, word);
        if (found != device.end()) users.push_back(&found->second.users);
    }
    return users;
}

void open_device(bool open) {
    if (wants_peermem()) return;
    for (auto& [start, allocation] : device) {
        if (!allocation.is_accessible) continue;
        const int protection = open ? PROT_READ | PROT_WRITE : PROT_NONE;
        if (mprotect(reinterpret_cast<void*>(start), allocation.pages_bytes, protection))
            fail("the device's pages cannot be %s", open ? "opened" : "closed");
    }
}

bool device_allocation(CUdeviceptr at, CUdeviceptr* start, size_t* bytes) {
    const auto found = holder(device, at);
    if (found == device.end()) return false;
    *start = found->first;
    *bytes = found->second.bytes;
    return true;
}

int device_descriptor(CUdeviceptr start, size_t bytes) {
    const auto found = device.find(start);
    // A driver wants whole pages; these begin at an allocation's start because a memfd has no middle.
    if (found == device.end() || bytes % PAGE || bytes > found->second.pages_bytes) return -1;
    return dup(found->second.pages);
}

Users* pinned_users(const void* start, size_t bytes, const char* who) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(start);
    const auto found = holder(pinned, at);
    if (found == pinned.end()) {
        const auto next = pinned.upper_bound(at);
        if (next != pinned.end() && bytes > next->first - at)
            fail("%s: only the end of %zu bytes at %p is pinned", who, bytes, start);
        return nullptr;
    }
    if (bytes > found->second.bytes - (at - found->first))
        fail("%s: only the beginning of %zu bytes at %p is pinned", who, bytes, start);
    return &found->second.users;
}

void* take_pinned(size_t bytes) {
    void* start = map(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1);
    std::memset(start, UNWRITTEN, bytes);
    pinned[reinterpret_cast<uintptr_t>(start)] = {bytes, true, 0};
    return start;
}

// The entry of pinned memory that is given back, which nothing uses.
static std::map<uintptr_t, Pinned>::iterator leaving(void* start, bool ours, const char* who) {
    const auto found = pinned.find(reinterpret_cast<uintptr_t>(start));
    if (found == pinned.end() || found->second.ours != ours)
        fail("%s: %p was not had in this way, or was given back before", who, start);
    if (found->second.users)
        fail("%s: %u unfinished operations use %p", who, found->second.users, start);
    return found;
}

void give_back_pinned(void* start) {
    const auto found = leaving(start, true, "cuMemFreeHost");
    bury(start, whole_pages(found->second.bytes));
    pinned.erase(found);
}

void register_pinned(void* start, size_t bytes) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(start);
    const auto next = pinned.lower_bound(at + bytes);
    if (next != pinned.begin()) {
        const auto last = std::prev(next);
        if (last->first + last->second.bytes > at)
            fail("cuMemHostRegister: %zu bytes at %p are pinned already, or some of them", bytes,
                 start);
    }
    pinned[at] = {bytes, false, 0};
}

void unregister_pinned(void* start) {
    const auto found = leaving(start, false, "cuMemHostUnregister");
    const uintptr_t first = found->first / PAGE * PAGE;
    const size_t bytes = whole_pages(found->first + found->second.bytes - first);
    std::vector<unsigned char> resident(bytes / PAGE);
    if (mincore(reinterpret_cast<void*>(first), bytes, resident.data()))
        fail("cuMemHostUnregister: %p was unmapped while it was registered", start);
    pinned.erase(found);
}

void forget_memory() {
    while (!device.empty()) drop(device.begin());
    for (auto& [start, range] : pinned)
        if (range.ours) bury(reinterpret_cast<void*>(start), whole_pages(range.bytes));
    pinned.clear();
}

MemoryTally memory_tally() { return {device.size(), pinned.size()}; }

}  // namespace emulated
