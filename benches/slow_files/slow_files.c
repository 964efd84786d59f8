// A file system far away: preloaded into a process, it lets the first look at files of one ending wait as
// for a server's answer, and none after it, as with a client that keeps pages.
//
// SLOW_FILES_CONTROL names a file of 8 bytes that whoever measures writes to, little-endian: u32
// microseconds of one operation, u32 a number that, when it changes, has all be forgotten. An
// operation is to open a file, or to read blocks of 256 KiB of which one has not been read before.
// Without the variable nothing waits. SLOW_FILES_ENDING is the ending of the names, `.tar` by default.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct control {
    volatile uint32_t latency_us;
    volatile uint32_t generation;
};

#define FILES_MAX 65536
#define BLOCK_BYTES (256 << 10)
#define BLOCKS_MAX 1024
#define INODES_MAX 4096
static _Atomic uint64_t inode_of[FILES_MAX];
static _Atomic uint32_t seen[INODES_MAX][BLOCKS_MAX];
static struct control *control;
static const char *ending = ".tar";
static int (*real_openat)(int, const char *, int, ...);
static int (*real_close)(int);
static ssize_t (*real_pread)(int, void *, size_t, off_t);

static void *next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

__attribute__((constructor)) static void begin(void) {
    real_openat = (int (*)(int, const char *, int, ...))next("openat64");
    real_close = (int (*)(int))next("close");
    real_pread = (ssize_t (*)(int, void *, size_t, off_t))next("pread64");
    if (getenv("SLOW_FILES_ENDING")) ending = getenv("SLOW_FILES_ENDING");
    const char *path = getenv("SLOW_FILES_CONTROL");
    if (!path) return;
    int fd = real_openat(AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0) abort();
    void *mapped = mmap(0, sizeof *control, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) abort();
    real_close(fd);
    control = mapped;
}

static void operation(void) {
    if (control && control->latency_us) usleep(control->latency_us);
}

static int open_at(int folder, const char *path, int flags, mode_t mode) {
    size_t length = strlen(path), tail = strlen(ending);
    int known = length >= tail && !strcmp(path + length - tail, ending);
    if (known) operation();
    int fd = real_openat(folder, path, flags, mode);
    struct stat status;
    if (fd >= 0 && fd < FILES_MAX) inode_of[fd] = known && !fstat(fd, &status) ? status.st_ino : 0;
    return fd;
}

#include "../../tests/faulty_files/open_calls.h"

int close(int fd) {
    if (fd >= 0 && fd < FILES_MAX) inode_of[fd] = 0;
    return real_close(fd);
}

ssize_t pread(int fd, void *to, size_t bytes, off_t at) {
    uint64_t inode = fd >= 0 && fd < FILES_MAX ? inode_of[fd] : 0;
    if (inode && control && bytes) {
        _Atomic uint32_t *blocks = seen[inode % INODES_MAX];
        uint32_t now = control->generation;
        uint64_t first = at / BLOCK_BYTES, last = (at + bytes - 1) / BLOCK_BYTES, news = 0;
        for (uint64_t block = first; block <= last && block < BLOCKS_MAX; block++)
            news += blocks[block] != now;
        if (news) operation();
        for (uint64_t block = first; block <= last && block < BLOCKS_MAX; block++) blocks[block] = now;
    }
    return real_pread(fd, to, bytes, at);
}

ssize_t pread64(int fd, void *to, size_t bytes, off_t at) { return pread(fd, to, bytes, at); }
