// What the emulations' own tests share: `selftest SCENARIO` ends with 0 where the scenario holds.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <unistd.h>

#define HOLDS(condition)                                                               \
    if (!(condition)) {                                                                \
        std::fprintf(stderr, "selftest: line %d: not %s\n", __LINE__, #condition);     \
        std::exit(1);                                                                  \
    }

typedef std::map<std::string, std::function<void()>> Scenarios;
#define SCENARIO(name) {#name, name}

// Runs the scenario that the command line names, of all of these, after `before`. One that waits in vain
// is ended.
inline int run_scenario(int count, char** words, std::initializer_list<const Scenarios*> all,
                        void (*before)() = [] {}) {
    for (const Scenarios* scenarios : all) {
        const auto found = count == 2 ? scenarios->find(words[1]) : scenarios->end();
        if (found == scenarios->end()) continue;
        alarm(120);
        before();
        found->second();
        return 0;
    }
    std::fprintf(stderr, "selftest: no such scenario\n");
    return 2;
}
