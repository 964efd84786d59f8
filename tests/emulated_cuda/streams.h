// Streams, events and what they have still to do.
//
// Nothing that is put on a stream is done before somebody waits for it: that is the latest that the
// contract permits, and a wait that is missing shows every time. With EMULATED_CUDA=eager all is done
// at once, the earliest that it permits.
#pragma once
#include "memory.h"

#include <functional>
#include <memory>
#include <vector>

namespace emulated {

struct Stream;

// The end of an operation of a stream.
struct Point {
    std::shared_ptr<Stream> stream;
    uint64_t number = 0;
};

struct StreamTally {
    size_t streams, events, operations;
};

// The stream of a handle: 0 and 1 are the legacy default stream, 2 is that of the thread.
std::shared_ptr<Stream> stream_of(CUstream handle, const char* who);
CUstream make_stream(unsigned flags, int priority);
// What it has still to do is done all the same, as soon as somebody waits for everything.
void end_stream(CUstream handle);
bool is_non_blocking(const Stream& stream);
int priority(const Stream& stream);

// Puts an operation on a stream, which uses memory until it has run.
Point issue(const std::shared_ptr<Stream>& stream, std::vector<Users*> users,
            std::function<void()> run);
// Makes the next operation of the stream wait for another stream's.
void issue_wait(const std::shared_ptr<Stream>& stream, const Point& point);
Point end_of(const std::shared_ptr<Stream>& stream);

void run_to(const Point& point);
void run_everything();
bool has_run(const Point& point);
// One operation on the way to a point.
void step_to(const Point& point);

CUevent make_event(unsigned flags);
void end_event(CUevent handle);
void record_event(CUevent handle, const std::shared_ptr<Stream>& stream);
// Where it was recorded last; of no stream where it was not.
Point point_of(CUevent handle, const char* who);
CUresult elapsed_ms(CUevent first, CUevent last, float* ms);

void forget_streams();
StreamTally stream_tally();

}  // namespace emulated
