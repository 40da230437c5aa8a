// Compiles and loads CUDA C++ sources, and explains errors about names.
#include "raw_cuda/cuda_source.h"

#include <algorithm>
#include <filesystem>

#include "driver/current_stream.h"
#include "runtime/kernel_record.h"
#include "support/log.h"
#include "support/progress.h"

namespace tile {
namespace {

// Returns the folders of CUDA's own headers (cuda_fp16.h) that a wheel or toolkit has next to NVRTC.
std::vector<std::string> toolkit_folders() {
  std::vector<std::string> folders;
  for (const std::string& nvrtc : nvrtc_paths().candidates()) {
    const auto root = std::filesystem::path(nvrtc).parent_path().parent_path();
    for (const auto& folder : {root / "include", root / "../cuda_runtime/include"}) {
      std::error_code ignored;
      const std::string path = folder.lexically_normal().string();
      if (std::filesystem::exists(folder / "cuda_fp16.h", ignored) &&
          std::find(folders.begin(), folders.end(), path) == folders.end())
        folders.push_back(path);
    }
  }
  return folders;
}

// Removes template arguments: "ns::scale<float, 4>" becomes "ns::scale". The next function returns "scale" of
// that.
std::string plain(const std::string& name) { return name.substr(0, name.find('<')); }
std::string last(const std::string& name) {
  const size_t colons = name.rfind("::");
  return colons == name.npos ? name : name.substr(colons + 2);
}

// Returns a variable's symbol. C++ mangles names inside namespaces only.
std::string symbol_of(const std::string& variable) {
  if (variable.find("::") == variable.npos) return variable;
  std::string symbol = "_ZN";
  for (size_t begin = 0; begin <= variable.size();) {
    const size_t end = std::min(variable.find("::", begin), variable.size());
    if (end > begin) symbol += str(end - begin, variable.substr(begin, end - begin));
    begin = end + 2;
  }
  return symbol + "E";
}

}  // namespace

CudaSource::CudaSource(std::string source, std::vector<std::string> names, CudaSourceOptions options,
                       CubinCompiler& compiler, const Driver* driver)
    : source_(std::move(source)),
      names_(std::move(names)),
      options_(std::move(options)),
      compiler_(compiler),
      driver_(driver) {
  if (names_.empty())
    fail(ErrorKind::value, options_.file, ": no kernel is named; give the name of one at least");
}
// The code stays loaded, because a captured graph may launch it later.
CudaSource::~CudaSource() = default;

CompileRequest CudaSource::request(int arch) const {
  CompileRequest request{.source = source_ + signature_text,
                         .file = options_.file,
                         .arch = arch,
                         .headers = options_.headers,
                         .options = options_.options,
                         .toolkit_folders = toolkit_folders(),
                         .names = names_};
  for (const std::string& name : names_) request.names.push_back(signature_name(name));
  return request;
}

// NVRTC reports a wrong name in a generated file; this names the user's name instead.
void CudaSource::explain(const Error& error) const {
  const std::vector<std::string> there = kernels_in(source_);
  const std::string_view text = error.what();
  constexpr std::string_view of_names = "__nv_name_map:";
  if (!text.starts_with(of_names)) throw error;
  for (const std::string& name : names_)
    if (std::find(there.begin(), there.end(), last(plain(name))) == there.end())
      fail(ErrorKind::value, options_.file, ": there is no kernel '", name, "'; the source has ",
           there.empty() ? "none: declare it __global__" : join(there));
  // The text has the form "__nv_name_map:2: CUDA C++ does not compile for sm_90a: <reason>; the log …".
  const size_t begin = text.find(": ", text.find("sm_")) + 2, end = text.find("; the log of NVRTC");
  fail(ErrorKind::value, options_.file, ": '", join(names_, "', '"), "': ", text.substr(begin, end - begin),
       "; name a kernel as a C++ expression would, with all of its template arguments");
}

const CudaSource::Code& CudaSource::compiled(int arch) const {
  std::lock_guard lock(mutex_);
  for (const auto& code : codes_)
    if (code->arch == arch) return *code;
  const CompileRequest wanted = request(arch);
  auto code = std::make_unique<Code>();
  code->arch = arch;
  record_kernel(wanted);
  Progress progress("compiling " + options_.file);
  try {
    code->result = compiler_.compile(wanted, &progress);
    if (compiler_.collects()) compiler_.collect(wanted, code->result);
  } catch (const Error& error) {
    explain(error);
  }
  for (size_t i = 0; i < names_.size(); ++i) {
    Kernel& kernel = code->kernels.emplace_back();
    kernel.symbol = code->result.lowered[i];
    kernel.parameters = parameters_of(code->result.lowered[names_.size() + i]);
    for (const CType& type : kernel.parameters) {
      kernel.offsets.push_back(kernel.parameter_bytes);
      kernel.parameter_bytes += (static_cast<size_t>(type.bytes) + 15) / 16 * 16;
    }
  }
  log_line(options_.file, ": code for sm_", arch, ", ", origin(code->result), ' ',
           Stopwatch::text(code->result.seconds));
  return *codes_.emplace_back(std::move(code));
}

const CudaSource::Loaded& CudaSource::load(int index) const {
  const DeviceProperties& properties = driver().properties(index);  // throws if there is no such device
  {
    std::lock_guard lock(mutex_);
    if (!made_) {
      count_ = driver().device_count();
      made_ = std::make_unique<Device[]>(static_cast<size_t>(count_));
      devices_.store(made_.get(), std::memory_order_release);
    }
  }
  Device& device = made_[static_cast<size_t>(index)];
  device.once([&] {
    Loaded& loaded = device.loaded;
    loaded = {};
    compiler_.set_driver(driver().version());
    loaded.code = &compiled(properties.arch);
    const Driver::Loading loading(driver(), index);
    loaded.module = driver().load(index, loaded.code->result.cubin, options_.file);
    for (size_t i = 0; i < names_.size(); ++i) {
      CudaModule of = loaded.module;
      of.kernel = names_[i];
      loaded.functions.push_back(driver().function(of, loaded.code->kernels[i].symbol));
      loaded.attributes.push_back(driver().attributes(loaded.functions.back()));
    }
    loaded.shared_bytes = std::make_unique<std::atomic<unsigned>[]>(names_.size());
    device.ready.store(&loaded, std::memory_order_release);
  });
  return device.loaded;
}

void CudaSource::set_variable(int device, const std::string& name, const void* data, size_t bytes,
                              bool on_device) const {
  const Loaded& loaded = on(device);
  void* const stream = current_stream(device);
  const Driver::Scope scope(driver(), device);  // the default stream belongs to the thread's current device
  if (driver().capture_status(stream) != CaptureStatus::none)
    fail(ErrorKind::runtime, options_.file, ": the variable '", name,
         "' is set while its stream is captured, and replays would not set it; set it before the capture");
  const Driver::Global variable = driver().global(loaded.module, symbol_of(name));
  if (!variable.address)
    fail(ErrorKind::value, options_.file, ": there is no variable '", name,
         "'; declare it __constant__ or __device__ outside of functions, use it in a kernel, and name it "
         "with its "
         "namespaces");
  if (variable.bytes != bytes)
    fail(ErrorKind::value, options_.file, ": the variable '", name, "' has ", variable.bytes,
         " bytes and is given ", bytes, "; give as many");
  driver().copy(loaded.module, variable, data, on_device, stream);
}

}  // namespace tile
