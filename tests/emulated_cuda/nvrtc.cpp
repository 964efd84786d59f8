// NVRTC for tests: takes a kernel's text to the C++ compiler. What comes out is a shared object in the
// place of a cubin, which the emulated driver loads.
#include "../emulated/calls.h"
#include "abi.h"
#include "modules.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

typedef int nvrtcResult;
enum : nvrtcResult {
    NVRTC_SUCCESS = 0,
    NVRTC_ERROR_INVALID_INPUT = 3,
    NVRTC_ERROR_INVALID_PROGRAM = 4,
    NVRTC_ERROR_INVALID_OPTION = 5,
    NVRTC_ERROR_COMPILATION = 6,
};

struct Program {
    std::string source, name, log, image;
};
typedef Program* nvrtcProgram;

namespace {

const char* const CAPABILITIES[] = {"75",   "80",  "86",   "87",  "88",   "89",  "90",  "90a",
                                    "100",  "100a", "100f", "103", "103a", "110", "120", "121"};

// Folder of this library, with the headers beside it.
std::string folder() {
    Dl_info info;
    if (!dladdr(reinterpret_cast<void*>(folder), &info)) return ".";
    const std::string path = info.dli_fname;
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

bool is_architecture(const std::string& text) {
    const size_t dash = text.find('_');
    const std::string kind = text.substr(0, dash);
    if (dash == std::string::npos || (kind != "sm" && kind != "compute")) return false;
    return std::find(std::begin(CAPABILITIES), std::end(CAPABILITIES), text.substr(dash + 1)) !=
           std::end(CAPABILITIES);
}

// `extern __shared__ T name[];` names the block's dynamic shared memory.
std::string with_dynamic_shared(const std::string& source) {
    static const std::regex declared(
        R"(extern\s+__shared__\s+(?:__align__\s*\([^)]*\)\s*)?([\w\s]+?)\s+(\w+)\s*\[\s*\]\s*;)");
    return std::regex_replace(source, declared, "$1* $2 = ($1*)emulated_block.shared;");
}

// What the driver looks kernels up by, after the kernels.
std::string entries(const std::string& source) {
    static const std::regex declared(
        R"re(extern\s+"C"\s+__global__\s+(?:__launch_bounds__\s*\(([^)]*)\)\s*)?void\s+)re"
        R"re((?:__launch_bounds__\s*\(([^)]*)\)\s*)?(\w+)\s*\()re");
    std::ostringstream text;
    text << "\n#line 1 \"entries\"\n#pragma GCC visibility push(default)\nextern \"C\" {\n"
            "EmulatedBlock emulated_block;\n"
            "extern unsigned char* const emulated_shared_first = __start_emulated_shared;\n"
            "extern unsigned char* const emulated_shared_end = __stop_emulated_shared;\n";
    for (std::sregex_iterator at(source.begin(), source.end(), declared), end; at != end; ++at) {
        std::string bounds = (*at)[1].matched ? (*at)[1].str() : (*at)[2].str();
        bounds = bounds.substr(0, bounds.find(','));
        const std::string name = (*at)[3];
        text << "extern const EmulatedKernel emulated_kernel_" << name << " = emulated::Entry<" << name
             << ">::with(" << (bounds.empty() ? "0" : bounds) << ");\n";
    }
    text << "}\n";
    return text.str();
}

std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// Runs the compiler; what it said goes to a file.
bool run(const std::vector<std::string>& command, const std::string& said) {
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        // Other threads may have held locks: nothing here takes one.
        dup2(open(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
        execvp(words[0], words.data());
        const char none[] = "emulated NVRTC: there is no C++ compiler: g++, or what CXX names\n";
        if (write(STDERR_FILENO, none, sizeof none - 1) < 0) _exit(126);
        _exit(127);
    }
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return child > 0 && status == 0;
}

// What the compiler is told, the text included, is compiled once: the folder of this library keeps the outcome.
nvrtcResult compile(Program& program, const std::string& architecture,
                    const std::vector<std::string>& defines) {
    const char* compiler = std::getenv("CXX");
    std::vector<std::string> command = {compiler && *compiler ? compiler : "g++",
                                        "-std=c++20", "-O2", "-ffp-contract=off",
                                        "-fno-strict-aliasing", "-fPIC", "-shared", "-w",
                                        "-fvisibility=hidden", "-I", folder()};
    command.insert(command.end(), defines.begin(), defines.end());
    std::string text = "//";
    for (const std::string& word : command) text += " " + word;
    text += "\n#include \"kernel_words.h\"\n#line 1 \"" + program.name + "\"\n" +
            with_dynamic_shared(program.source) + entries(program.source);
    const std::string kept =
        folder() + "/compiled-" + std::to_string(std::hash<std::string>{}(text));
    std::string bytes;
    if (contents(kept + "/kernels.cpp") == text) bytes = contents(kept + "/kernels.so");
    if (bytes.empty()) {
        std::string place = folder() + "/compiling-XXXXXX";
        if (!mkdtemp(place.data())) {
            // Another user's folder: it is compiled and not kept.
            const char* temporary = std::getenv("TMPDIR");
            place = std::string(temporary ? temporary : "/tmp") + "/emulated-nvrtc-XXXXXX";
            if (!mkdtemp(place.data())) return NVRTC_ERROR_COMPILATION;
        }
        const std::string source = place + "/kernels.cpp", code = place + "/kernels.so",
                          said = place + "/said";
        std::ofstream(source) << text;
        command.insert(command.end(), {"-o", code, source});
        const bool compiled = run(command, said);
        program.log = contents(said);
        bytes = contents(code);
        unlink(said.c_str());
        // Somebody else may have been faster.
        if (!compiled || std::rename(place.c_str(), kept.c_str()) != 0) {
            for (const std::string& path : {source, code}) unlink(path.c_str());
            rmdir(place.c_str());
        }
        if (!compiled) return NVRTC_ERROR_COMPILATION;
    }
    emulated::ImageHead head = {};
    std::memcpy(head.magic, emulated::IMAGE_MAGIC, sizeof head.magic);
    architecture.copy(head.architecture, sizeof head.architecture - 1);
    head.bytes = bytes.size();
    program.image.assign(reinterpret_cast<const char*>(&head), sizeof head);
    program.image += bytes;
    return NVRTC_SUCCESS;
}

nvrtcResult put(const std::string& text, char* out) {
    std::memcpy(out, text.data(), text.size());
    return NVRTC_SUCCESS;
}

}  // namespace

API nvrtcResult nvrtcVersion(int* major, int* minor) {
    const char* value = emulated::setting("EMULATED_NVRTC_VERSION");
    if (!value || std::sscanf(value, "%d.%d", major, minor) != 2) *major = 13, *minor = 0;
    return NVRTC_SUCCESS;
}

API const char* nvrtcGetErrorString(nvrtcResult result) {
    switch (result) {
        case NVRTC_SUCCESS: return "NVRTC_SUCCESS";
        case NVRTC_ERROR_INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
        case NVRTC_ERROR_INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
        case NVRTC_ERROR_INVALID_OPTION: return "NVRTC_ERROR_INVALID_OPTION";
        case NVRTC_ERROR_COMPILATION: return "NVRTC_ERROR_COMPILATION";
        default: return "NVRTC_ERROR unknown";
    }
}

API nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char* name,
                                   int headers, const char* const*, const char* const*) {
    if (headers) return NVRTC_ERROR_INVALID_INPUT;
    *program = new Program{source, name ? name : "default_program", {}, {}};
    return NVRTC_SUCCESS;
}

API nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
    if (!program || !*program) return NVRTC_ERROR_INVALID_PROGRAM;
    delete *program;
    *program = nullptr;
    return NVRTC_SUCCESS;
}

// EMULATED_NVRTC_REPLACE=OLD=>NEW: every OLD in a source is NEW, so that a GPU is wrong on purpose.
static void replace_in(std::string& source) {
    const char* text = emulated::setting("EMULATED_NVRTC_REPLACE");
    const std::string both = text ? text : "";
    const size_t arrow = both.find("=>");
    if (arrow == std::string::npos) return;
    const std::string old = both.substr(0, arrow), with = both.substr(arrow + 2);
    for (size_t at = 0; (at = source.find(old, at)) != std::string::npos; at += with.size())
        source.replace(at, old.size(), with);
}

// EMULATED_NVRTC_FAIL: nothing compiles, so that who had no need to compile is known.
API nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
    std::string architecture = "compute_75";
    std::vector<std::string> defines;
    for (int number = 0; number < count; number++) {
        const std::string option = options[number];
        const size_t equals = option.find('=');
        const std::string name = option.substr(0, equals);
        if (name == "--gpu-architecture" || name == "-arch")
            architecture = equals == std::string::npos ? "" : option.substr(equals + 1);
        if (option.starts_with("-D")) defines.push_back(option);
    }
    if (!is_architecture(architecture)) {
        program->log = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n";
        return NVRTC_ERROR_INVALID_OPTION;
    }
    if (std::getenv("EMULATED_NVRTC_FAIL")) {
        program->log = "emulated NVRTC: EMULATED_NVRTC_FAIL is set\n";
        return NVRTC_ERROR_COMPILATION;
    }
    replace_in(program->source);
    return compile(*program, architecture, defines);
}

API nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* bytes) {
    *bytes = program->log.size() + 1;
    return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* out) {
    out[program->log.size()] = 0;
    return put(program->log, out);
}
API nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* bytes) {
    *bytes = program->image.size();
    return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* out) { return put(program->image, out); }
API nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* bytes) {
    return nvrtcGetCUBINSize(program, bytes);
}
API nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* out) { return put(program->image, out); }
