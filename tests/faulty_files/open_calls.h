// The four ways to open a file, all by one: whoever includes this has defined
//     static int open_at(int folder, const char *path, int flags, mode_t mode);
#pragma once
#include <fcntl.h>
#include <stdarg.h>

#define MODE(flags)                                                                                     \
    mode_t mode = 0;                                                                                    \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                              \
        va_list rest;                                                                                   \
        va_start(rest, flags);                                                                          \
        mode = va_arg(rest, mode_t);                                                                    \
        va_end(rest);                                                                                   \
    }

int open(const char *path, int flags, ...) {
    MODE(flags)
    return open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE(flags)
    return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    MODE(flags)
    return open_at(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
    MODE(flags)
    return open_at(folder, path, flags, mode);
}
