// Copies, fills, streams and events: the calls themselves.
#include "ghost.h"
#include "memory.h"
#include "state.h"
#include "streams.h"

#include <cstring>
#include <utility>

using namespace emulated;

namespace {

enum class Host { Waits, GoesOn };

// EMULATED_CUDA_CORRUPT: copies from pinned memory spoil a bit of their last byte, as a bad bus does.
void put(uint8_t* held, const void* from, size_t bytes) {
    std::memcpy(held, from, bytes);
    static const bool corrupt = setting("EMULATED_CUDA_CORRUPT");
    if (corrupt) held[bytes - 1] ^= 1;
}

// Reads the source when it runs where that is pinned, else now, as CUDA does: a pageable source may
// be changed as soon as the call returns.
CUresult upload(const char* name, CUdeviceptr to, const void* from, size_t bytes, CUstream handle,
                Host host) {
    return call(name, Needs::Context, [&] {
        const auto stream = stream_of(handle, name);
        if (!bytes) return CUDA_SUCCESS;
        const DeviceRange target = device_range(to, bytes, name);
        Users* source = pinned_users(from, bytes, name);
        const uint64_t write = queued(target, from, bytes);
        if (source) {
            const Point done = issue(stream, {target.users, source}, [=] {
                runs_here(write);
                put(target.held, from, bytes);
            });
            if (host == Host::Waits) run_to(done);
            return CUDA_SUCCESS;
        }
        const auto* first = static_cast<const uint8_t*>(from);
        // The call waits for nothing but its staging: what it copied arrives in the stream's order.
        issue(stream, {target.users}, [=, staged = std::vector<uint8_t>(first, first + bytes)] {
            runs_here(write);
            std::memcpy(target.held, staged.data(), bytes);
        });
        return CUDA_SUCCESS;
    });
}

CUresult download(const char* name, void* to, CUdeviceptr from, size_t bytes, CUstream handle,
                  Host host) {
    return call(name, Needs::Context, [&] {
        const auto stream = stream_of(handle, name);
        if (!bytes) return CUDA_SUCCESS;
        const DeviceRange source = device_range(from, bytes, name);
        Users* target = pinned_users(to, bytes, name);
        std::vector<Users*> users = {source.users};
        if (target) users.push_back(target);
        const Point done =
            issue(stream, std::move(users), [=] { std::memcpy(to, source.held, bytes); });
        // A copy to pageable memory returns when it has ended.
        if (host == Host::Waits || !target) run_to(done);
        return CUDA_SUCCESS;
    });
}

// The host never waits for these, whichever call it is.
CUresult copy_within(const char* name, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                     CUstream handle) {
    return call(name, Needs::Context, [&] {
        const auto stream = stream_of(handle, name);
        if (!bytes) return CUDA_SUCCESS;
        const DeviceRange target = device_range(to, bytes, name);
        const DeviceRange source = device_range(from, bytes, name);
        if (to < from + bytes && from < to + bytes) fail("%s: source and target overlap", name);
        const uint64_t write = queued(target, source.held, bytes);
        issue(stream, {target.users, source.users}, [=] {
            runs_here(write);
            std::memcpy(target.held, source.held, bytes);
        });
        return CUDA_SUCCESS;
    });
}

template <class Element>
CUresult fill(const char* name, CUdeviceptr to, Element value, size_t count, CUstream handle) {
    return call(name, Needs::Context, [&] {
        const auto stream = stream_of(handle, name);
        if (!count) return CUDA_SUCCESS;
        if (to % sizeof value) fail("%s: %#llx is not aligned", name, to);
        const DeviceRange target = device_range(to, count * sizeof value, name);
        issue(stream, {target.users}, [=] {
            for (size_t i = 0; i < count; i++)
                std::memcpy(target.held + i * sizeof value, &value, sizeof value);
        });
        return CUDA_SUCCESS;
    });
}

}  // namespace

API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
    return upload("cuMemcpyHtoD", to, from, bytes, nullptr, Host::Waits);
}
API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
    return upload("cuMemcpyHtoDAsync", to, from, bytes, stream, Host::GoesOn);
}
API CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
    return download("cuMemcpyDtoH", to, from, bytes, nullptr, Host::Waits);
}
API CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return download("cuMemcpyDtoHAsync", to, from, bytes, stream, Host::GoesOn);
}
API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return copy_within("cuMemcpyDtoD", to, from, bytes, nullptr);
}
API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy_within("cuMemcpyDtoDAsync", to, from, bytes, stream);
}
API CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
    return fill("cuMemsetD8", to, value, count, nullptr);
}
API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
    return fill("cuMemsetD8Async", to, value, count, stream);
}
API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
    return fill("cuMemsetD32Async", to, value, count, stream);
}

API CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
    return call("cuStreamCreate", Needs::Context, [&] {
        if (flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
        *stream = make_stream(flags, priority);
        return CUDA_SUCCESS;
    });
}
API CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
    return cuStreamCreateWithPriority(stream, flags, 0);
}

API CUresult cuStreamDestroy_v2(CUstream stream) {
    return call("cuStreamDestroy", Needs::Context, [&] {
        end_stream(stream);
        return CUDA_SUCCESS;
    });
}

API CUresult cuStreamGetPriority(CUstream stream, int* value) {
    return call("cuStreamGetPriority", Needs::Context, [&] {
        *value = priority(*stream_of(stream, "cuStreamGetPriority"));
        return CUDA_SUCCESS;
    });
}

API CUresult cuStreamSynchronize(CUstream stream) {
    return call("cuStreamSynchronize", Needs::Context, [&] {
        run_to(end_of(stream_of(stream, "cuStreamSynchronize")));
        return CUDA_SUCCESS;
    });
}

API CUresult cuStreamQuery(CUstream stream) {
    return call("cuStreamQuery", Needs::Context, [&] {
        const Point point = end_of(stream_of(stream, "cuStreamQuery"));
        step_to(point);
        return has_run(point) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    });
}

API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
    return call("cuStreamWaitEvent", Needs::Context, [&] {
        const char* name = "cuStreamWaitEvent";
        issue_wait(stream_of(stream, name), point_of(event, name));
        return CUDA_SUCCESS;
    });
}

API CUresult cuStreamIsCapturing(CUstream stream, int* status) {
    return call("cuStreamIsCapturing", Needs::Context, [&] {
        stream_of(stream, "cuStreamIsCapturing");
        *status = 0;
        return CUDA_SUCCESS;
    });
}

API CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void*), void* data) {
    return call("cuLaunchHostFunc", Needs::Context, [&] {
        issue(stream_of(stream, "cuLaunchHostFunc"), {}, [=] {
            in_host_function = true;
            function(data);
            in_host_function = false;
        });
        return CUDA_SUCCESS;
    });
}

API CUresult cuEventCreate(CUevent* event, unsigned flags) {
    return call("cuEventCreate", Needs::Context, [&] {
        *event = make_event(flags);
        return CUDA_SUCCESS;
    });
}

API CUresult cuEventDestroy_v2(CUevent event) {
    return call("cuEventDestroy", Needs::Context, [&] {
        end_event(event);
        return CUDA_SUCCESS;
    });
}

API CUresult cuEventRecord(CUevent event, CUstream stream) {
    return call("cuEventRecord", Needs::Context, [&] {
        record_event(event, stream_of(stream, "cuEventRecord"));
        return CUDA_SUCCESS;
    });
}

API CUresult cuEventSynchronize(CUevent event) {
    return call("cuEventSynchronize", Needs::Context, [&] {
        run_to(point_of(event, "cuEventSynchronize"));
        return CUDA_SUCCESS;
    });
}

API CUresult cuEventQuery(CUevent event) {
    return call("cuEventQuery", Needs::Context, [&] {
        const Point point = point_of(event, "cuEventQuery");
        step_to(point);
        return has_run(point) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    });
}

API CUresult cuEventElapsedTime_v2(float* ms, CUevent first, CUevent last) {
    return call("cuEventElapsedTime", Needs::Context,
                [&] { return elapsed_ms(first, last, ms); });
}
API CUresult cuEventElapsedTime(float* ms, CUevent first, CUevent last) {
    return cuEventElapsedTime_v2(ms, first, last);
}
