// Memory of the device, and memory of the host that the device may read on its own.
//
// A device pointer is an address within pages that may not be touched, so that whoever follows it on
// the host is seen. What the device holds lies in a second mapping of the same pages. No address is
// used twice.
#pragma once
#include "abi.h"

#include <vector>

namespace emulated {

struct MemoryTally {
    size_t device, pinned;
};

// How many operations under way use a range.
typedef unsigned Users;

// A device range: bytes where they are held, and who uses them. Ends the process where the range is
// not within one allocation.
struct DeviceRange {
    uint8_t* held;
    Users* users;
    // The ghost's number of memory of another process, and where in it the range begins.
    uint64_t imported;
    size_t offset;
};
DeviceRange device_range(CUdeviceptr start, size_t bytes, const char* who);

// A new allocation, or 0 where there is no memory left.
CUdeviceptr take_device(size_t bytes);
void give_back_device(CUdeviceptr start, const char* who);
size_t device_bytes_left();
// Users of all allocations that a word of these arguments points into.
std::vector<Users*> users_of_words(const std::vector<uint8_t>& words);
// Lets device pointers be followed, while a kernel runs.
void open_device(bool open);
// The allocation that holds an address.
bool device_allocation(CUdeviceptr at, CUdeviceptr* start, size_t* bytes);
// A descriptor of an allocation's pages.
int device_descriptor(CUdeviceptr start, size_t bytes);

// Maps pages of a handle at a reserved address, where nothing may be used before `give_access`. `imported`: the
// ghost's number of another process's.
void map_device(CUdeviceptr start, int pages, size_t bytes, uint64_t imported);
void unmap_device(CUdeviceptr start, size_t bytes);
void give_access(CUdeviceptr start, size_t bytes);
// Takes bytes of the device for a handle, or gives them back. False where there are not as many.
bool charge_device(size_t bytes);
void refund_device(size_t bytes);

// Users of a pinned range; null where it is pageable. Ends the process where only a part is pinned.
Users* pinned_users(const void* start, size_t bytes, const char* who);
void* take_pinned(size_t bytes);
void give_back_pinned(void* start);
void register_pinned(void* start, size_t bytes);
void unregister_pinned(void* start);

void forget_memory();
MemoryTally memory_tally();

}  // namespace emulated
