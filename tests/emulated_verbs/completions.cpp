// Completion queues, and the channels that tell of them.
#include "pairs.h"
#include "state.h"

#include <algorithm>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

using namespace emulated;

API ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
    return call("ibv_create_comp_channel", [&]() -> ibv_comp_channel* {
        known<Context>(context)->users++;
        Channel* made = make<Channel>();
        made->context = context;
        made->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
        return made;
    });
}

API int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
    return call("ibv_destroy_comp_channel", [&] {
        check_unused(known<Channel>(channel)->refcnt, "completion queues");
        close(channel->fd);
        static_cast<Context*>(channel->context)->users--;
        forget(channel);
        return 0;
    });
}

API ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* with, ibv_comp_channel* channel,
                          int vector) {
    return call("ibv_create_cq", [&]() -> ibv_cq* {
        known<Context>(context);
        if (entries < 1 || entries > COMPLETIONS_MAX) return refuse<ibv_cq>(EINVAL);
        if (vector < 0 || vector >= context->num_comp_vectors) return refuse<ibv_cq>(EINVAL);
        if (channel) known<Channel>(channel)->refcnt++;
        static_cast<Context*>(context)->users++;
        Queue* made = make<Queue>();
        made->context = context;
        made->channel = channel;
        made->cq_context = with;
        made->cqe = entries;
        return made;
    });
}

API int ibv_destroy_cq(ibv_cq* cq) {
    return call("ibv_destroy_cq", [&] {
        Queue* queue = known<Queue>(cq);
        check_unused(queue->users, "queue pairs");
        // The library would wait for them without end.
        if (queue->unacknowledged) fail("%u events of it are not acknowledged", queue->unacknowledged);
        if (auto* channel = static_cast<Channel*>(queue->channel)) {
            // Nobody hears of it any more.
            for (size_t gone = std::erase(channel->events, queue); gone; --gone) {
                uint64_t one;
                pollfd counted = {channel->fd, POLLIN, 0};
                if (poll(&counted, 1, 0) == 1 && read(channel->fd, &one, sizeof one) < 0) break;
            }
            channel->refcnt--;
        }
        static_cast<Context*>(queue->context)->users--;
        forget(queue);
        return 0;
    });
}

API int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** with) {
    // Waits, unless the program made the descriptor one that does not.
    uint64_t one;
    if (read(channel->fd, &one, sizeof one) != sizeof one) return -1;
    return call("ibv_get_cq_event", [&] {
        Channel* told = known<Channel>(channel);
        if (told->events.empty()) {
            errno = EAGAIN;
            return -1;
        }
        Queue* queue = told->events.front();
        told->events.pop_front();
        queue->unacknowledged++;
        *cq = queue;
        *with = queue->cq_context;
        return 0;
    });
}

API void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
    call("ibv_ack_cq_events", [&] {
        Queue* queue = known<Queue>(cq);
        if (count > queue->unacknowledged)
            fail("%u events are acknowledged, %u were taken", count, queue->unacknowledged);
        queue->unacknowledged -= count;
        return 0;
    });
}

API const char* ibv_wc_status_str(unsigned status) {
    switch (status) {
        case IBV_WC_SUCCESS: return "success";
        case IBV_WC_LOC_LEN_ERR: return "local length error";
        case IBV_WC_WR_FLUSH_ERR: return "Work Request Flushed Error";
        case IBV_WC_REM_INV_REQ_ERR: return "remote invalid request error";
        case IBV_WC_REM_ACCESS_ERR: return "remote access error";
        case IBV_WC_RETRY_EXC_ERR: return "transport retry counter exceeded";
    }
    return "unknown";
}

namespace emulated {

void complete(Queue* queue, const Entry& entry, bool solicited) {
    if (queue->entries.size() == size_t(queue->cqe))
        fail("a completion queue of %d entries overflows", queue->cqe);
    queue->entries.push_back(entry);
    const bool tells = !queue->solicited_alone || solicited || entry.wc.status;
    if (!queue->armed || !tells || !queue->channel) return;
    queue->armed = false;
    auto* channel = static_cast<Channel*>(queue->channel);
    channel->events.push_back(queue);
    const uint64_t one = 1;
    if (write(channel->fd, &one, sizeof one) != sizeof one) fail("a completion channel was closed");
}

void forget_completions(Queue* queue, const Pair* pair) {
    std::erase_if(queue->entries, [&](const Entry& entry) { return entry.pair == pair; });
}

// These two go through the context, and cannot be made to fail.
int poll_queue(ibv_cq* cq, int room, ibv_wc* taken) {
    std::lock_guard guard(everything);
    enter("ibv_poll_cq");
    Queue* queue = known<Queue>(cq);
    int count = 0;
    for (; count < room && !queue->entries.empty(); ++count) {
        const Entry entry = queue->entries.front();
        queue->entries.pop_front();
        retire(entry.pair, entry.sends, entry.receives);
        taken[count] = entry.wc;
    }
    return count;
}

// Of completions that are there already it does not tell.
int request_notification(ibv_cq* cq, int solicited_alone) {
    std::lock_guard guard(everything);
    enter("ibv_req_notify_cq");
    Queue* queue = known<Queue>(cq);
    queue->solicited_alone = solicited_alone && (queue->solicited_alone || !queue->armed);
    queue->armed = true;
    return 0;
}

}  // namespace emulated
