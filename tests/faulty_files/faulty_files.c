// A file system that fails for moments: preloaded into a process, it lets calls on files of one ending
// fail as a kernel does that is short of something, or a disk or a server that is ill.
//
// FAULTY_FILES_CONTROL names a file of 32 bytes that whoever tests writes to at any time, all numbers
// little-endian: u32 calls of a thousand that fail, u32 seed, u64 errors (bits by their number, ESTALE being bit 63), u64
// calls (bits of `enum call`); then the u64 that this library counts its faults in. Without the variable
// nothing fails. FAULTY_FILES_ENDING is the ending of the files' names, `.tar` by default.
//
// Which call fails follows from the seed and the number of the call, not from time. Covered are the ways
// in which the program opens and reads shards: through the C library, as Rust's own files do.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

enum call { OPEN, READ, MAP };

struct control {
    volatile uint32_t per_mille;
    volatile uint32_t seed;
    volatile uint64_t errors;
    volatile uint64_t calls;
    _Atomic uint64_t faults;
};

// What each call may say: no read is out of descriptors.
static const int of_open[] = {EMFILE, ENFILE, ENOMEM, EIO, ESTALE, ENOENT};
static const int of_read[] = {ENOMEM, EIO, ESTALE};
static const int of_map[] = {ENOMEM, ENFILE};

#define FILES_MAX 65536
static _Atomic unsigned char matches[FILES_MAX];
static _Atomic uint64_t drawn;
static struct control *control;
static const char *ending = ".tar";

static int (*real_open)(const char *, int, ...);
static int (*real_openat)(int, const char *, int, ...);
static int (*real_close)(int);
static ssize_t (*real_read)(int, void *, size_t);
static ssize_t (*real_pread)(int, void *, size_t, off_t);
static void *(*real_mmap)(void *, size_t, int, int, int, off_t);

static void *next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

// Libraries that the program is linked to may open files before this one is ready.
static void resolve(void) {
    if (real_mmap) return;
    real_open = (int (*)(const char *, int, ...))next("open64");
    real_openat = (int (*)(int, const char *, int, ...))next("openat64");
    real_close = (int (*)(int))next("close");
    real_read = (ssize_t (*)(int, void *, size_t))next("read");
    real_pread = (ssize_t (*)(int, void *, size_t, off_t))next("pread64");
    real_mmap = (void *(*)(void *, size_t, int, int, int, off_t))next("mmap64");
}

__attribute__((constructor)) static void begin(void) {
    resolve();
    if (getenv("FAULTY_FILES_ENDING")) ending = getenv("FAULTY_FILES_ENDING");
    const char *path = getenv("FAULTY_FILES_CONTROL");
    if (!path) return;
    int fd = real_open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) abort();
    void *mapped = real_mmap(0, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) abort();
    real_close(fd);
    control = mapped;
}

static uint64_t mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

// The error that a call ends with; 0: it does not fail.
static int fault(enum call call, const int *errors, size_t count) {
    if (!control || !control->per_mille || !(control->calls >> call & 1)) return 0;
    uint64_t draw = mixed((uint64_t)control->seed << 32 ^ atomic_fetch_add(&drawn, 1));
    if (draw % 1000 >= control->per_mille) return 0;
    for (size_t tried = 0, at = draw / 1000 % count; tried < count; tried++, at = (at + 1) % count) {
        if (errors[at] < 64 ? control->errors >> errors[at] & 1 : control->errors >> 63) {
            atomic_fetch_add(&control->faults, 1);
            return errors[at];
        }
    }
    return 0;
}

#define FAULT(call, errors) fault(call, errors, sizeof errors / sizeof *errors)

static int is_of_ending(const char *path) {
    size_t length = strlen(path), tail = strlen(ending);
    return length >= tail && !strcmp(path + length - tail, ending);
}

static int is_known(int fd) { return fd >= 0 && fd < FILES_MAX && matches[fd]; }

static int opened(int fd, int known) {
    if (fd >= 0 && fd < FILES_MAX) matches[fd] = known;
    return fd;
}

static int open_at(int folder, const char *path, int flags, mode_t mode) {
    resolve();
    int known = is_of_ending(path);
    int error = known ? FAULT(OPEN, of_open) : 0;
    if (error) {
        errno = error;
        return -1;
    }
    return opened(real_openat(folder, path, flags, mode), known);
}

#include "open_calls.h"

int close(int fd) {
    resolve();
    opened(fd, 0);
    return real_close(fd);
}

ssize_t read(int fd, void *to, size_t bytes) {
    resolve();
    int error = is_known(fd) ? FAULT(READ, of_read) : 0;
    if (error) {
        errno = error;
        return -1;
    }
    return real_read(fd, to, bytes);
}

ssize_t pread(int fd, void *to, size_t bytes, off_t at) {
    resolve();
    int error = is_known(fd) ? FAULT(READ, of_read) : 0;
    if (error) {
        errno = error;
        return -1;
    }
    return real_pread(fd, to, bytes, at);
}

ssize_t pread64(int fd, void *to, size_t bytes, off_t at) { return pread(fd, to, bytes, at); }

void *mmap(void *where, size_t bytes, int protection, int flags, int fd, off_t at) {
    resolve();
    int error = is_known(fd) ? FAULT(MAP, of_map) : 0;
    if (error) {
        errno = error;
        return MAP_FAILED;
    }
    return real_mmap(where, bytes, protection, flags, fd, at);
}

void *mmap64(void *where, size_t bytes, int protection, int flags, int fd, off_t at) {
    return mmap(where, bytes, protection, flags, fd, at);
}
