// The ghost itself: see ghost.h.
#include "ghost_messages.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

using namespace emulated;

namespace {

struct Write {
    uint64_t memory, offset;
    std::vector<uint8_t> bytes;
};

// False at the end of the stream, which is the other process's.
bool receive(void* to, size_t count) {
    auto* rest = static_cast<uint8_t*>(to);
    while (count) {
        const ssize_t got = recv(GHOST_SOCKET, rest, count, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        rest += got;
        count -= got;
    }
    return true;
}

bool receive_message(GhostMessage& message, int& descriptor) {
    iovec piece = {&message, sizeof message};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))];
    msghdr header = {};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    header.msg_control = room;
    header.msg_controllen = sizeof room;
    ssize_t got;
    while ((got = recvmsg(GHOST_SOCKET, &header, 0)) < 0 && errno == EINTR) {
    }
    if (got <= 0) return false;
    descriptor = -1;
    const cmsghdr* control = CMSG_FIRSTHDR(&header);
    if (control && control->cmsg_type == SCM_RIGHTS)
        std::memcpy(&descriptor, CMSG_DATA(control), sizeof descriptor);
    return receive(reinterpret_cast<uint8_t*>(&message) + got, sizeof message - got);
}

}  // namespace

int main() {
    std::map<uint64_t, int> memories;
    std::map<uint64_t, Write> queued;
    GhostMessage message;
    for (int descriptor; receive_message(message, descriptor);) {
        switch (message.word) {
            case GhostWord::Memory: memories[message.number] = descriptor; break;
            case GhostWord::Queued: {
                Write write = {message.memory, message.offset, std::vector<uint8_t>(message.bytes)};
                if (!receive(write.bytes.data(), write.bytes.size())) return 1;
                queued[message.number] = std::move(write);
                break;
            }
            case GhostWord::Done: queued.erase(message.number); break;
            case GhostWord::End: return 0;
        }
    }
    usleep(1000 * std::atoi(std::getenv("EMULATED_CUDA_GHOST_MS")));
    for (const auto& [number, write] : queued) {
        const int pages = memories[write.memory];
        if (pwrite(pages, write.bytes.data(), write.bytes.size(), write.offset) < 0) return 1;
    }
}
