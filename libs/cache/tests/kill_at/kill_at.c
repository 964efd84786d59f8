// Ends a process by SIGKILL right before one of its calls that change files or their locks.
//
// Preloaded into a process (LD_PRELOAD), it counts these calls from the moment on at which the file is
// removed that KILL_AT_BEGIN names. The call of the number KILL_AT, from 1 on, does not happen. Covered
// are the calls that Rust's own files make through the C library.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

// 0: not yet counted.
static _Atomic long calls;

static void *next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

static void count(void) {
    const char *at = getenv("KILL_AT");
    if (!atomic_load(&calls) || !at) return;
    if (atomic_fetch_add(&calls, 1) == atol(at)) kill(getpid(), SIGKILL);
}

#define COUNTED(result, name, parameters, arguments)                                                    \
    result name parameters {                                                                            \
        static result(*real) parameters;                                                                \
        if (!real) real = (result(*) parameters)next(#name);                                            \
        count();                                                                                        \
        return real arguments;                                                                          \
    }

COUNTED(int, rename, (const char *from, const char *to), (from, to))
COUNTED(int, mkdir, (const char *path, mode_t mode), (path, mode))
COUNTED(int, flock, (int file, int operation), (file, operation))
COUNTED(int, fchmod, (int file, mode_t mode), (file, mode))
COUNTED(int, ftruncate64, (int file, off64_t length), (file, length))
COUNTED(int, futimens, (int file, const struct timespec *times), (file, times))
COUNTED(ssize_t, pwrite64, (int file, const void *bytes, size_t length, off64_t at), (file, bytes, length, at))

int unlink(const char *path) {
    static int (*real)(const char *);
    if (!real) real = (int (*)(const char *))next("unlink");
    const char *begin = getenv("KILL_AT_BEGIN");
    if (begin && strcmp(path, begin) == 0) {
        atomic_store(&calls, 1);
    } else {
        count();
    }
    return real(path);
}

int open64(const char *path, int flags, ...) {
    static int (*real)(const char *, int, ...);
    if (!real) real = (int (*)(const char *, int, ...))next("open64");
    mode_t mode = 0;
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
        count();
    }
    return real(path, flags, mode);
}
