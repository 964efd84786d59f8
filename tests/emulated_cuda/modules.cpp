// Modules and launches: the calls themselves.
#include "modules.h"

#include "blocks.h"
#include "state.h"
#include "streams.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>

using namespace emulated;

namespace {

struct Module {
    void* code;
    ModuleState state;
};

struct Function {
    std::string name;
    CUmodule module;
    const EmulatedKernel* kernel;
    size_t shared_bytes_max = SHARED_BYTES_DEFAULT;
};

std::map<CUmodule, Module> loaded;
std::map<CUfunction, Function> functions;
uintptr_t handles = 0;

template <class Handle>
Handle next_handle() {
    return reinterpret_cast<Handle>(0x3f000 + 16 * ++handles);
}

template <class Map>
auto& known(Map& all, typename Map::key_type handle, const char* who) {
    const auto found = all.find(handle);
    if (found == all.end())
        fail("%s: %p is not loaded, or not any more", who, static_cast<void*>(handle));
    return found->second;
}

template <class Type>
Type* symbol(void* code, const std::string& name) {
    return static_cast<Type*>(dlsym(code, name.c_str()));
}

void* open_code(const void* bytes, size_t count) {
    // A name of its own each time: what is opened twice under one name is the same to the loader. So the
    // descriptor stays open, and its number is given to nobody else.
    const int file = memfd_create("emulated-kernels", MFD_CLOEXEC);
    if (file < 0 || write(file, bytes, count) != ssize_t(count)) fail("no file for a module");
    const std::string path = "/proc/self/fd/" + std::to_string(file);
    void* code = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!code) std::fprintf(stderr, "emulated CUDA: %s\n", dlerror());
    return code;
}

CUresult load(CUmodule* module, const void* image) {
    ImageHead head;
    std::memcpy(&head, image, sizeof head.magic);
    if (std::memcmp(head.magic, IMAGE_MAGIC, sizeof IMAGE_MAGIC)) return CUDA_ERROR_INVALID_IMAGE;
    std::memcpy(&head, image, sizeof head);
    int made_for = 0;
    char kind[8];
    if (std::sscanf(head.architecture, "%7[a-z]_%d", kind, &made_for) != 2)
        return CUDA_ERROR_INVALID_IMAGE;
    // Machine code runs on later GPUs of the same major number, intermediate code on all later ones.
    const bool same = made_for / 10 == capability() / 10 || !std::strcmp(kind, "compute");
    if (made_for > capability() || !same) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    void* code = open_code(static_cast<const char*>(image) + sizeof head, head.bytes);
    if (!code) return CUDA_ERROR_INVALID_IMAGE;
    const ModuleState state = {symbol<EmulatedBlock>(code, "emulated_block"),
                               *symbol<unsigned char*>(code, "emulated_shared_first"),
                               *symbol<unsigned char*>(code, "emulated_shared_end")};
    if (state.shared_end - state.shared_first > ptrdiff_t(SHARED_BYTES_DEFAULT))
        return CUDA_ERROR_INVALID_IMAGE;
    *module = next_handle<CUmodule>();
    loaded[*module] = {code, state};
    return CUDA_SUCCESS;
}

size_t static_bytes(const Function& function) {
    const ModuleState& state = loaded.at(function.module).state;
    return state.shared_end - state.shared_first;
}

// What a launch may not ask for. CUDA returns an error; nobody here means to ask for it.
void check(const Function& function, EmulatedIndex grid, EmulatedIndex block, size_t shared_bytes) {
    const char* name = function.name.c_str();
    const size_t threads = size_t(block.x) * block.y * block.z;
    const size_t most = function.kernel->threads_max ? function.kernel->threads_max : THREADS_MAX;
    if (!threads || threads > most || threads > size_t(THREADS_MAX) || block.z > 64)
        fail("cuLaunchKernel: %s with blocks of %u x %u x %u threads", name, block.x, block.y,
             block.z);
    if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
        fail("cuLaunchKernel: %s with %u x %u x %u blocks", name, grid.x, grid.y, grid.z);
    if (shared_bytes > function.shared_bytes_max)
        fail("cuLaunchKernel: %s with %zu bytes of shared memory: "
             "MAX_DYNAMIC_SHARED_SIZE_BYTES is %zu",
             name, shared_bytes, function.shared_bytes_max);
}

std::vector<unsigned char> packed(const EmulatedKernel& kernel, void** arguments) {
    std::vector<unsigned char> bytes;
    for (size_t number = 0; number < kernel.arguments; number++) {
        const size_t at = bytes.size(), count = kernel.argument_bytes[number];
        bytes.resize(at + (count + 7) / 8 * 8);
        std::memcpy(&bytes[at], arguments[number], count);
    }
    return bytes;
}

}  // namespace

void emulated::forget_modules() {
    // What runs after this would miss the code: it stays where it is.
    functions.clear();
    loaded.clear();
}

API CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    return call("cuModuleLoadData", Needs::Context, [&] { return load(module, image); });
}

API CUresult cuModuleUnload(CUmodule module) {
    return call("cuModuleUnload", Needs::Context, [&] {
        known(loaded, module, "cuModuleUnload");
        // Launches under way keep the code, which is why it is not closed.
        std::erase_if(functions, [&](auto& entry) { return entry.second.module == module; });
        loaded.erase(module);
        return CUDA_SUCCESS;
    });
}

API CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    return call("cuModuleGetFunction", Needs::Context, [&] {
        void* code = known(loaded, module, "cuModuleGetFunction").code;
        const auto* kernel = symbol<EmulatedKernel>(code, std::string("emulated_kernel_") + name);
        if (!kernel) return CUDA_ERROR_NOT_FOUND;
        *function = next_handle<CUfunction>();
        functions[*function] = {name, module, kernel};
        return CUDA_SUCCESS;
    });
}

API CUresult cuFuncSetAttribute(CUfunction handle, int attribute, int value) {
    return call("cuFuncSetAttribute", Needs::Context, [&] {
        Function& function = known(functions, handle, "cuFuncSetAttribute");
        if (attribute != FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
        if (value < 0 || value + static_bytes(function) > SHARED_BYTES_MAX)
            return CUDA_ERROR_INVALID_VALUE;
        function.shared_bytes_max = value;
        return CUDA_SUCCESS;
    });
}

API CUresult cuFuncGetAttribute(int* value, int attribute, CUfunction handle) {
    return call("cuFuncGetAttribute", Needs::Context, [&] {
        const Function& function = known(functions, handle, "cuFuncGetAttribute");
        const unsigned threads = function.kernel->threads_max;
        switch (attribute) {
            case FUNC_MAX_THREADS_PER_BLOCK: *value = threads ? threads : THREADS_MAX; break;
            case FUNC_SHARED_SIZE_BYTES: *value = static_bytes(function); break;
            case FUNC_LOCAL_SIZE_BYTES: *value = 0; break;
            case FUNC_NUM_REGS: *value = 32; break;
            case FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = function.shared_bytes_max; break;
            default: fail("cuFuncGetAttribute: attribute %d is not emulated", attribute);
        }
        return CUDA_SUCCESS;
    });
}

API CUresult cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared_bytes, CUstream stream, void** arguments,
                            void** extra) {
    return call("cuLaunchKernel", Needs::Context, [&] {
        const Function& function = known(functions, handle, "cuLaunchKernel");
        const EmulatedIndex blocks = {grid_x, grid_y, grid_z}, threads = {block_x, block_y, block_z};
        check(function, blocks, threads, shared_bytes);
        if (extra) fail("cuLaunchKernel: `extra` is not emulated");
        const EmulatedKernel& kernel = *function.kernel;
        const auto grid = std::make_shared<Grid>(Grid{function.name, &kernel,
                                                      loaded.at(function.module).state, blocks,
                                                      threads, shared_bytes,
                                                      packed(kernel, arguments)});
        issue(stream_of(stream, "cuLaunchKernel"), users_of_words(grid->arguments),
              [=] { run_grid(*grid); });
        return CUDA_SUCCESS;
    });
}
