#include "state.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

namespace emulated {

std::mutex everything;

namespace {

// EMULATED_VERBS_FAIL=NAME:NTH[:ERRNO],..: that call of this name returns the error.
struct Failure {
    std::string name;
    unsigned long left;
    int error;
};

// Never destroyed: the thread outlives main.
auto& alive = *new std::unordered_map<const void*, const char*>;
const char* under_way = "";

std::vector<Failure> failures() {
    std::vector<Failure> found;
    const char* text = std::getenv("EMULATED_VERBS_FAIL");
    for (std::string rest = text ? text : ""; !rest.empty();) {
        const size_t end = rest.find(',');
        char name[64];
        unsigned long nth;
        int error = ENOMEM;
        if (std::sscanf(rest.substr(0, end).c_str(), "%63[^:]:%lu:%d", name, &nth, &error) < 2)
            fail("EMULATED_VERBS_FAIL is not NAME:NTH[:ERRNO],..: %s", text);
        found.push_back({name, nth, error});
        rest = end == std::string::npos ? "" : rest.substr(end + 1);
    }
    return found;
}

}  // namespace

void fail(const char* format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    std::fprintf(stderr, "emulated verbs: %s: %s\n", under_way, message);
    std::fflush(stderr);
    std::abort();
}

int enter(const char* name) {
    static auto& asked = *new std::vector<Failure>(failures());
    under_way = name;
    for (Failure& failure : asked)
        if (failure.name == name && failure.left > 0 && --failure.left == 0) return failure.error;
    return 0;
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
