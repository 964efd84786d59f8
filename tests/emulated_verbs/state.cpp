#include "state.h"

#include <cstring>
#include <unordered_map>

namespace emulated {

const char* const EMULATION = "verbs";

// Never destroyed: the thread outlives main.
static auto& alive = *new std::unordered_map<const void*, const char*>;

int enter(const char* name) {
    static auto& failures = *new Failures("EMULATED_VERBS_FAIL", ENOMEM);
    static auto& fatal = *new Failures("EMULATED_VERBS_FATAL", EIO);
    under_way = name;
    if (fatal.of(name)) break_devices();
    return failures.of(name);
}

void remember(const void* made, const char* word) { alive[made] = word; }
void forget(const void* made) { alive.erase(made); }

void check_known(const void* handle, const char* word) {
    const auto found = alive.find(handle);
    if (found == alive.end() || std::strcmp(found->second, word))
        fail("%p is no %s, or destroyed before", handle, word);
}

void check_unused(int users, const char* by) {
    if (users) fail("%d %s use it", users, by);
}

}  // namespace emulated
