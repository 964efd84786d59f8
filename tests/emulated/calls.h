// What the emulations of C libraries share: one lock over all calls, calls that fail where they are
// told to, and how a misuse ends the process. Each defines what it is called.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

namespace emulated {

// "CUDA", "verbs".
extern const char* const EMULATION;

inline std::mutex everything;
// The call that is being run, where an emulation keeps it; it stands in front of what is wrong.
inline const char* under_way = "";

// A variable's text; null where it is empty or not set.
inline const char* setting(const char* name) {
    const char* value = std::getenv(name);
    return value && *value ? value : nullptr;
}

// Ends the process: what was done breaks the library's contract, or is not emulated.
[[noreturn]] __attribute__((format(printf, 1, 2))) inline void fail(const char* format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    std::fprintf(stderr, "emulated %s: %s%s%s\n", EMULATION, under_way, *under_way ? ": " : "", message);
    std::fflush(stderr);
    std::abort();
}

// Calls that are told to fail: VARIABLE=NAME:NTH[:ERROR],.. of the environment. With VARIABLE_AFTER=NAME
// they are counted from the first call of that name on.
class Failures {
   public:
    Failures(const char* variable, int usual_error) {
        if (const char* name = setting((std::string(variable) + "_AFTER").c_str())) after = name;
        const char* text = setting(variable);
        for (std::string rest = text ? text : ""; !rest.empty();) {
            const size_t end = rest.find(',');
            char name[64];
            unsigned long nth;
            int error = usual_error;
            if (std::sscanf(rest.substr(0, end).c_str(), "%63[^:]:%lu:%d", name, &nth, &error) < 2)
                fail("%s is not NAME:NTH[:ERROR],..: %s", variable, text);
            asked.push_back({name, nth, error});
            rest = end == std::string::npos ? "" : rest.substr(end + 1);
        }
    }

    // The error of a call of this name, which is made now; 0: it is not to fail.
    int of(const char* name) {
        if (!after.empty()) {
            if (after == name) after.clear();
            return 0;
        }
        int error = 0;
        for (Failure& failure : asked)
            if (failure.name == name && failure.left > 0 && --failure.left == 0) error = failure.error;
        return error;
    }

   private:
    struct Failure {
        std::string name;
        unsigned long left;
        int error;
    };
    std::vector<Failure> asked;
    std::string after;
};

}  // namespace emulated
