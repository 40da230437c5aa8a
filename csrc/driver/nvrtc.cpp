// Loads NVRTC's C functions and compiles with them.
#include "driver/nvrtc.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "driver/compile_log.h"
#include "support/error.h"

namespace tile {

struct NvrtcFunctions {
  int (*version)(int*, int*);
  int (*arch_count)(int*);
  int (*archs)(int*);
  const char* (*error_string)(int);
  int (*create)(void**, const char*, const char*, int, const char* const*, const char* const*);
  int (*destroy)(void**);
  int (*add_name)(void*, const char*);
  int (*compile)(void*, int, const char* const*);
  int (*log_size)(void*, size_t*);
  int (*log)(void*, char*);
  int (*cubin_size)(void*, size_t*);
  int (*cubin)(void*, char*);
  int (*ptx_size)(void*, size_t*);
  int (*ptx)(void*, char*);
  int (*lowered_name)(void*, const char*, const char**);
};

namespace {

constexpr int minimum_major = 12, minimum_minor = 3;
constexpr int minimal_major = 13;    // the first version in which --minimal is known not to change the code
constexpr int missing_builtins = 7;  // NVRTC_ERROR_BUILTIN_OPERATION_FAILURE
constexpr const char* install = "install one with `pip install nvidia-cuda-nvrtc`";

NvrtcFunctions functions_of(const Library& library) {
  NvrtcFunctions f;
  library.require("nvrtcVersion", f.version, install);
  library.require("nvrtcGetNumSupportedArchs", f.arch_count, install);
  library.require("nvrtcGetSupportedArchs", f.archs, install);
  library.require("nvrtcGetErrorString", f.error_string, install);
  library.require("nvrtcCreateProgram", f.create, install);
  library.require("nvrtcDestroyProgram", f.destroy, install);
  library.require("nvrtcAddNameExpression", f.add_name, install);
  library.require("nvrtcCompileProgram", f.compile, install);
  library.require("nvrtcGetProgramLogSize", f.log_size, install);
  library.require("nvrtcGetProgramLog", f.log, install);
  library.require("nvrtcGetCUBINSize", f.cubin_size, install);
  library.require("nvrtcGetCUBIN", f.cubin, install);
  library.require("nvrtcGetPTXSize", f.ptx_size, install);
  library.require("nvrtcGetPTX", f.ptx, install);
  library.require("nvrtcGetLoweredName", f.lowered_name, install);
  return f;
}

// NVRTC loads its builtins library by name alone, and the folder of a wheel is not on the loader's path.
void load_builtins(const std::string& nvrtc, int major, int minor) {
  const auto path =
      std::filesystem::path(nvrtc).parent_path() / str("libnvrtc-builtins.so.", major, ".", minor);
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) Library::open(path.string());
}

std::vector<const char*> c_strings(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  return pointers;
}

// A program object of NVRTC, destroyed at the end of the scope.
class Program {
 public:
  Program(const NvrtcFunctions& functions, const CompileRequest& request) : f_(functions) {
    std::vector<const char*> texts, names;
    for (const auto& [name, text] : request.headers) {
      names.push_back(name.c_str());
      texts.push_back(text.c_str());
    }
    check(f_.create(&handle_, request.source.c_str(), request.file.c_str(), static_cast<int>(names.size()),
                    texts.data(), names.data()));
  }
  ~Program() {
    if (handle_) f_.destroy(&handle_);
  }
  Program(const Program&) = delete;

  void add_name(const std::string& name) { check(f_.add_name(handle_, name.c_str())); }
  int compile(const std::vector<const char*>& options) {
    return f_.compile(handle_, static_cast<int>(options.size()), options.data());
  }
  std::string log() const { return text(f_.log_size, f_.log); }
  std::string ptx() const { return text(f_.ptx_size, f_.ptx); }
  std::string cubin() const { return bytes(f_.cubin_size, f_.cubin); }
  std::string lowered(const std::string& name) const {
    const char* symbol = nullptr;
    check(f_.lowered_name(handle_, name.c_str(), &symbol));
    return symbol;
  }

 private:
  std::string text(int (*size_of)(void*, size_t*), int (*copy)(void*, char*)) const {
    std::string text = bytes(size_of, copy);
    while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) text.pop_back();
    return text;
  }
  void check(int code) const {
    if (code) fail(ErrorKind::runtime, "NVRTC: ", f_.error_string(code), "; please report it");
  }
  std::string bytes(int (*size_of)(void*, size_t*), int (*copy)(void*, char*)) const {
    size_t size = 0;
    check(size_of(handle_, &size));
    std::string all(size, '\0');
    if (size) check(copy(handle_, all.data()));
    return all;
  }
  const NvrtcFunctions& f_;
  void* handle_ = nullptr;
};

}  // namespace

Nvrtc::Nvrtc(const NvrtcPaths& paths) {
  std::string failures;
  for (const std::string& candidate : paths.candidates())
    if (open(Library::open(candidate), failures)) return;
  if (!paths.only.empty())
    fail(ErrorKind::runtime, "TILE_NVRTC=", paths.only, ": ",
         failures.empty() ? "it holds no libnvrtc.so" : failures,
         "; unset it, or set it to the file or the folder of NVRTC ", minimum_major, ".", minimum_minor,
         " or newer");
  fail(ErrorKind::runtime, "no NVRTC, CUDA's run-time compiler, of version ", minimum_major, ".",
       minimum_minor, " or newer is found (", failures, "); ", install, " or set TILE_NVRTC to its file");
}

Nvrtc::~Nvrtc() = default;

bool Nvrtc::open(const Library& library, std::string& failures) {
  const auto note = [&](const std::string& text) {
    if (failures.find(text) == std::string::npos) failures += (failures.empty() ? "" : ", ") + text;
    return false;
  };
  if (!library) return note(library.why());
  try {
    functions_ = std::make_unique<NvrtcFunctions>(functions_of(library));
  } catch (const Error& error) {
    return note(std::string(error.what()).substr(0, std::string_view(error.what()).find(';')));
  }
  functions_->version(&major_, &minor_);
  if (std::pair(major_, minor_) < std::pair(minimum_major, minimum_minor))
    return note(str(library.path(), " is version ", version()));
  int count = 0;
  functions_->arch_count(&count);
  archs_.resize(static_cast<size_t>(count));
  functions_->archs(archs_.data());
  std::sort(archs_.begin(), archs_.end());
  library_ = library;
  load_builtins(path(), major_, minor_);
  return true;
}

std::string Nvrtc::version() const { return str(major_, ".", minor_); }

std::string Nvrtc::architecture(int arch) const {
  // From sm_90 on, the suffix "a" allows instructions of this chip alone. The code runs on no other chip
  // anyway.
  if (std::binary_search(archs_.begin(), archs_.end(), arch)) return str("sm_", arch, arch >= 90 ? "a" : "");
  fail(ErrorKind::unsupported, "NVRTC ", version(), " cannot compile for sm_", arch, ": it knows sm_",
       archs_.front(), " to sm_", archs_.back(), "; ",
       arch > archs_.back() ? "install a newer one with `pip install -U nvidia-cuda-nvrtc`"
                            : "use a GPU that it knows");
}

CompileResult Nvrtc::compile(const CompileRequest& request) const {
  const auto start = std::chrono::steady_clock::now();
  if (const size_t zero = request.source.find('\0'); zero != std::string::npos)  // NVRTC would stop there
    fail(ErrorKind::value, request.file, ": byte ", zero, " of the CUDA C++ source is 0; remove it");
  const std::string target = "--gpu-architecture=" + architecture(request.arch);
  std::vector<std::string> folders;
  for (const std::string& folder : request.toolkit_folders) folders.push_back("-I" + folder);
  std::vector<const char*> options = c_strings(request.options);
  for (const std::string& folder : folders) options.push_back(folder.c_str());
  options.push_back(target.c_str());
  if (request.minimal && major_ >= minimal_major) options.push_back("--minimal");
  Program program(*functions_, request);
  for (const std::string& name : request.names) program.add_name(name);
  CompileResult result;
  const int code = program.compile(options);
  result.log = program.log();
  if (code) fail_compile(request, code, result.log);
  result.cubin = program.cubin();
  result.cuda = cuda();
  if (request.ptx) result.ptx = program.ptx();
  for (const std::string& name : request.names) result.lowered.push_back(program.lowered(name));
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

void Nvrtc::fail_compile(const CompileRequest& request, int code, const std::string& log) const {
  if (code == missing_builtins)
    fail(ErrorKind::runtime, path(), " cannot open libnvrtc-builtins.so.", version(),
         ", which belongs in its folder; repair it with `pip install --force-reinstall nvidia-cuda-nvrtc`");
  LogError error = first_error(log);
  if (error.message.empty()) error.message = functions_->error_string(code);
  const std::string location = error.line
                                   ? str(Location{error.file.c_str(), static_cast<uint32_t>(error.line)})
                                   : std::string(Location{request.file.c_str()}.file_name());
  fail(ErrorKind::runtime, location, ": CUDA C++ does not compile for ", architecture(request.arch), ": ",
       error.message, "; the log of NVRTC ", version(), ":\n", log);
}

}  // namespace tile
