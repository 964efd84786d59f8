#include "streams.h"

#include "state.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>

namespace emulated {

namespace {
using Clock = std::chrono::steady_clock;

struct Operation {
    std::vector<Point> after;
    std::vector<Users*> users;
    std::function<void()> run;
};
}  // namespace

struct Stream {
    unsigned flags = 0;
    int priority = 0;
    std::deque<Operation> waiting;
    // Operations so far, and those of them that have run.
    uint64_t issued = 0, run = 0;
};

namespace {

// When an event was reached, if it was.
struct Mark {
    bool reached = false;
    Clock::time_point at;
};

struct Event {
    unsigned flags;
    Point recorded;
    std::shared_ptr<Mark> mark;
};

std::map<CUstream, std::shared_ptr<Stream>> streams;
// With those that were destroyed and have not done everything, and the default ones.
std::vector<std::shared_ptr<Stream>> all;
std::shared_ptr<Stream> legacy;
std::map<CUevent, Event> events;
uintptr_t handles = 0;
// Counts the lives of the context, so that a thread's default stream is known to be of another one.
uint64_t life = 0;

// No handle is used twice, and none can be mistaken for an address.
template <class Handle>
Handle next_handle() {
    return reinterpret_cast<Handle>(0xe000 + 16 * ++handles);
}

std::shared_ptr<Stream> added(unsigned flags, int priority) {
    auto stream = std::make_shared<Stream>();
    stream->flags = flags;
    stream->priority = priority;
    all.push_back(stream);
    return stream;
}

std::shared_ptr<Stream> legacy_stream() {
    if (!legacy) legacy = added(0, 0);
    return legacy;
}

std::shared_ptr<Stream> stream_of_thread() {
    thread_local std::shared_ptr<Stream> own;
    thread_local uint64_t of_life = 0;
    if (!own || of_life != life) own = added(0, 0);
    of_life = life;
    return own;
}

Event& event_of(CUevent handle, const char* who) {
    const auto found = events.find(handle);
    if (found == events.end())
        fail("%s: %p is no event, or destroyed before", who, static_cast<void*>(handle));
    return found->second;
}

// The first operation that has not run and on which the front of the stream waits for, if any.
const Point* before_front(const Stream& stream) {
    for (const Point& point : stream.waiting.front().after)
        if (!has_run(point)) return &point;
    return nullptr;
}

void run_front(Stream& stream) {
    Operation operation = std::move(stream.waiting.front());
    stream.waiting.pop_front();
    operation.run();
    for (Users* users : operation.users) --*users;
    stream.run++;
}

// What must come first because of the legacy default stream: it and the blocking ones wait for each
// other.
std::vector<Point> implied(const std::shared_ptr<Stream>& stream) {
    std::vector<Point> after;
    if (is_non_blocking(*stream)) return after;
    if (stream != legacy) {
        if (legacy) after.push_back(end_of(legacy));
        return after;
    }
    for (auto& other : all)
        if (other != stream && !is_non_blocking(*other)) after.push_back(end_of(other));
    return after;
}

}  // namespace

std::shared_ptr<Stream> stream_of(CUstream handle, const char* who) {
    if (reinterpret_cast<uintptr_t>(handle) < 2) return legacy_stream();
    if (reinterpret_cast<uintptr_t>(handle) == 2) return stream_of_thread();
    const auto found = streams.find(handle);
    if (found == streams.end())
        fail("%s: %p is no stream, or destroyed before", who, static_cast<void*>(handle));
    return found->second;
}

CUstream make_stream(unsigned flags, int priority) {
    const CUstream handle = next_handle<CUstream>();
    streams[handle] = added(flags, priority);
    return handle;
}

void end_stream(CUstream handle) {
    stream_of(handle, "cuStreamDestroy");
    if (!streams.erase(handle)) fail("cuStreamDestroy: a default stream");
}

bool is_non_blocking(const Stream& stream) { return stream.flags & CU_STREAM_NON_BLOCKING; }

int priority(const Stream& stream) { return stream.priority; }

Point issue(const std::shared_ptr<Stream>& stream, std::vector<Users*> users,
            std::function<void()> run) {
    for (Users* user : users) ++*user;
    stream->waiting.push_back({implied(stream), std::move(users), std::move(run)});
    const Point point{stream, ++stream->issued};
    if (eager()) run_to(point);
    return point;
}

void issue_wait(const std::shared_ptr<Stream>& stream, const Point& point) {
    if (!point.stream || has_run(point)) return;
    std::vector<Point> after = implied(stream);
    after.push_back(point);
    stream->waiting.push_back({std::move(after), {}, [] {}});
    stream->issued++;
}

Point end_of(const std::shared_ptr<Stream>& stream) { return {stream, stream->issued}; }

void run_to(const Point& point) {
    if (!point.stream) return;
    Stream& stream = *point.stream;
    while (stream.run < point.number) {
        // Those were issued earlier, so that nobody waits in a circle.
        while (const Point* before = before_front(stream)) run_to(Point(*before));
        run_front(stream);
    }
}

void run_everything() {
    const auto streams_now = all;
    for (auto& stream : streams_now) run_to(end_of(stream));
    std::erase_if(all, [](auto& stream) {
        return stream->waiting.empty() && stream.use_count() == 1;
    });
}

bool has_run(const Point& point) { return !point.stream || point.stream->run >= point.number; }

void step_to(const Point& point) {
    if (has_run(point)) return;
    if (const Point* before = before_front(*point.stream)) return step_to(Point(*before));
    run_front(*point.stream);
}

CUevent make_event(unsigned flags) {
    const CUevent handle = next_handle<CUevent>();
    events[handle] = {flags, {}, {}};
    return handle;
}

void end_event(CUevent handle) {
    event_of(handle, "cuEventDestroy");
    events.erase(handle);
}

void record_event(CUevent handle, const std::shared_ptr<Stream>& stream) {
    Event& event = event_of(handle, "cuEventRecord");
    event.mark = std::make_shared<Mark>();
    event.recorded = issue(stream, {}, [mark = event.mark] {
        mark->reached = true;
        mark->at = Clock::now();
    });
}

Point point_of(CUevent handle, const char* who) { return event_of(handle, who).recorded; }

CUresult elapsed_ms(CUevent first, CUevent last, float* ms) {
    Event& from = event_of(first, "cuEventElapsedTime");
    Event& to = event_of(last, "cuEventElapsedTime");
    if (!from.mark || !to.mark) fail("cuEventElapsedTime: an event that was never recorded");
    if ((from.flags | to.flags) & CU_EVENT_DISABLE_TIMING)
        fail("cuEventElapsedTime: an event without timing");
    if (!from.mark->reached || !to.mark->reached) return CUDA_ERROR_NOT_READY;
    const std::chrono::duration<float, std::milli> between = to.mark->at - from.mark->at;
    // A clock of half a microsecond, as the GPU's is.
    *ms = std::max(between.count(), 0.0005f);
    return CUDA_SUCCESS;
}

void forget_streams() {
    for (auto& stream : all) stream->waiting.clear();
    streams.clear();
    all.clear();
    events.clear();
    legacy.reset();
    life++;
}

StreamTally stream_tally() {
    size_t operations = 0;
    for (auto& stream : all) operations += stream->waiting.size();
    return {streams.size(), events.size(), operations};
}

}  // namespace emulated
