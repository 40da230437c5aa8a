// A CUDA C++ source with some of its kernels, compiled once per chip and loaded once per device.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "driver/driver.h"
#include "raw_cuda/c_type.h"
#include "runtime/cubin_compiler.h"
#include "support/error.h"
#include "support/once.h"

namespace tile {

struct CudaSourceOptions {
  std::string file = "kernel.cu";                            // the name in compile errors
  std::vector<std::pair<std::string, std::string>> headers;  // name and contents of files for #include
  std::vector<std::string> options;  // options of NVRTC: "-DN=4", "--use_fast_math", "-Ifolder"
  std::array<unsigned, 3> cluster{1, 1, 1};
  bool programmatic = false;  // launches may start before the previous kernel in the stream has ended
};

class CudaSource {
 public:
  // `names` are C++ name expressions such as "saxpy" or "ns::scale<float, 4>". Does not compile yet.
  CudaSource(std::string source, std::vector<std::string> names, CudaSourceOptions options = {},
             CubinCompiler& compiler = CubinCompiler::get(), const Driver* driver = nullptr);
  ~CudaSource();

  struct Kernel {
    std::string symbol;
    std::vector<CType> parameters;
    std::vector<size_t> offsets;  // offset of each parameter in a block of parameter_bytes
    size_t parameter_bytes = 0;
  };
  struct Code {
    int arch = 0;
    CompileResult result;
    std::vector<Kernel> kernels;  // in the order of `names`
  };
  struct Loaded {
    const Code* code = nullptr;
    CudaModule module;
    std::vector<CudaFunction> functions;
    std::vector<FunctionAttributes> attributes;
    // Limit of dynamic shared memory set for each function.
    std::unique_ptr<std::atomic<unsigned>[]> shared_bytes;
  };

  // Needs no GPU. Throws if the source does not compile or a name is not one of its kernels.
  const Code& compiled(int arch) const;
  // Returns the NVRTC request for the source.
  CompileRequest request(int arch) const;
  const Loaded& on(int device) const {
    if (const auto* devices = devices_.load(std::memory_order_acquire);
        devices && device >= 0 && device < count_)
      if (const Loaded* loaded = devices[device].ready.load(std::memory_order_acquire)) return *loaded;
    return load(device);
  }

  // Sets a __constant__ or __device__ variable on a device, in the order of the current stream.
  void set_variable(int device, const std::string& name, const void* data, size_t bytes,
                    bool on_device) const;

  const std::string& source() const { return source_; }
  const std::vector<std::string>& names() const { return names_; }
  const CudaSourceOptions& options() const { return options_; }
  const Driver& driver() const { return driver_ ? *driver_ : Driver::get(); }

 private:
  struct Device {
    Once once;
    Loaded loaded;
    std::atomic<const Loaded*> ready = nullptr;
  };
  const Loaded& load(int device) const;
  [[noreturn]] void explain(const Error& error) const;

  const std::string source_;
  const std::vector<std::string> names_;
  const CudaSourceOptions options_;
  CubinCompiler& compiler_;
  const Driver* const driver_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Code>> codes_;
  mutable std::unique_ptr<Device[]> made_;
  mutable std::atomic<Device*> devices_ = nullptr;
  mutable int count_ = 0;
};

}  // namespace tile
