#include "ghost.h"

#include "ghost_messages.h"
#include "state.h"

#include <cerrno>
#include <climits>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

extern char** environ;

namespace emulated {

namespace {

int to_ghost = -1;
uint64_t memories = 0, writes = 0;

void send_all(const void* bytes, size_t count) {
    auto* rest = static_cast<const uint8_t*>(bytes);
    while (count) {
        const ssize_t sent = send(to_ghost, rest, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) fail("the ghost does not listen: %s", std::strerror(errno));
        rest += sent;
        count -= sent;
    }
}

void tell(const GhostMessage& message, int descriptor = -1) {
    iovec piece = {const_cast<GhostMessage*>(&message), sizeof message};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
    msghdr header = {};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    if (descriptor >= 0) {
        header.msg_control = room;
        header.msg_controllen = sizeof room;
        cmsghdr* control = CMSG_FIRSTHDR(&header);
        control->cmsg_level = SOL_SOCKET;
        control->cmsg_type = SCM_RIGHTS;
        control->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(control), &descriptor, sizeof descriptor);
    }
    if (sendmsg(to_ghost, &header, MSG_NOSIGNAL) != ssize_t(sizeof message))
        fail("the ghost does not listen: %s", std::strerror(errno));
}

// The ghost's program lies beside this library.
std::string program() {
    Dl_info here;
    char path[PATH_MAX];
    if (!dladdr(reinterpret_cast<void*>(&begin_ghost), &here) || !realpath(here.dli_fname, path))
        fail("the library's own file is not found");
    const std::string library = path;
    return library.substr(0, library.rfind('/')) + "/ghost";
}

}  // namespace

void begin_ghost() {
    if (!setting("EMULATED_CUDA_GHOST_MS")) return;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) fail("no socket for a ghost");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    // Whoever reads what this process says is not to wait for the ghost.
    for (int standard = 0; standard < 3; standard++)
        posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDWR, 0);
    // A copy that is no 3, as that would keep its mark to be closed.
    const int other = fcntl(pair[1], F_DUPFD_CLOEXEC, GHOST_SOCKET + 1);
    posix_spawn_file_actions_adddup2(&actions, other, GHOST_SOCKET);
    const std::string path = program();
    char* arguments[] = {const_cast<char*>(path.c_str()), nullptr};
    pid_t ghost;
    if (const int error = posix_spawn(&ghost, path.c_str(), &actions, nullptr, arguments, environ))
        fail("no ghost from %s: %s", path.c_str(), std::strerror(error));
    posix_spawn_file_actions_destroy(&actions);
    close(other);
    close(pair[1]);
    to_ghost = pair[0];
}

void end_ghost() {
    if (to_ghost < 0) return;
    tell({GhostWord::End, 0, 0, 0, 0});
    close(to_ghost);
    to_ghost = -1;
}

uint64_t tell_ghost_of(int pages) {
    if (to_ghost < 0) return 0;
    tell({GhostWord::Memory, ++memories, 0, 0, 0}, pages);
    return memories;
}

uint64_t queued(const DeviceRange& target, const void* bytes, size_t count) {
    if (!target.imported) return 0;
    writes++;
    if (to_ghost >= 0) {
        tell({GhostWord::Queued, writes, target.imported, target.offset, count});
        send_all(bytes, count);
    }
    return writes;
}

void runs_here(uint64_t write) {
    if (!write) return;
    static const char* at = setting("EMULATED_CUDA_STANDS_STILL_AT");
    if (at && write >= std::strtoull(at, nullptr, 10)) {
        std::fprintf(stderr, "emulated CUDA: the GPU stands still\n");
        for (;;) pause();
    }
    if (to_ghost >= 0) tell({GhostWord::Done, write, 0, 0, 0});
}

}  // namespace emulated
