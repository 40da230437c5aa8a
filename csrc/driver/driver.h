// The CUDA driver, opened at first use: devices, contexts, modules, launches. It needs no CUDA header.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driver/assert_buffer.h"
#include "driver/tensor_map.h"

namespace tile {

// Limits of every chip: blocks along each axis of a grid, and the shared memory of a block that has not opted
// in to more.
constexpr std::array<int64_t, 3> most_blocks = {2147483647, 65535, 65535};
constexpr int shared_bytes_without_asking = 48 * 1024;

struct DeviceProperties {
  std::string name;
  int arch = 0;  // 90: compute capability 9.0
  int multiprocessors = 0;
  int max_threads = 0;   // per block
  int shared_bytes = 0;  // the opt-in limit of a block
  int multiprocessor_shared_bytes = 0;
  int l2_bytes = 0;
};

struct FunctionAttributes {
  int registers = 0;     // per thread
  int local_bytes = 0;   // per thread: spills and stack
  int shared_bytes = 0;  // per block, static
  int max_threads = 0;   // per block
};

struct CudaModule {
  void* handle = nullptr;
  std::string kernel;  // the name in errors
  int device = 0;
};
struct CudaFunction {
  void* handle = nullptr;
  const char* kernel = "";  // never freed, because later errors use it
  int device = 0;
};

struct CudaLaunch {
  std::array<unsigned, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  unsigned shared_bytes = 0;
  void* stream = nullptr;
  bool programmatic = false;  // it may start before the previous kernel in the stream has ended
};

enum class CaptureStatus { none = 0, active = 1, invalidated = 2 };

struct DriverFunctions;  // pointers to its C functions

class Driver {
 public:
  // `library` is a path, or a name for the system's loader.
  explicit Driver(const std::string& library);
  ~Driver();
  Driver(const Driver&) = delete;
  // Returns the driver of this process: TILE_CUDA_DRIVER, otherwise libcuda.so.1. If it cannot be opened,
  // each call throws the error.
  static const Driver& get();
  // Throws if this process is a child of the one that opened the driver, because CUDA does not work in it.
  static void require_own_process();

  int version() const { return version_; }  // the CUDA version: 12030 is 12.3
  int device_count() const { return static_cast<int>(devices_.size()); }
  const DeviceProperties& properties(int device) const;

  // Makes the device's primary context, which torch also uses, current for the thread. Almost free if it is
  // current already. Throws if an assertion of a kernel has failed there since the last report.
  void use(int device) const { enter(device); }
  // Does the same for its lifetime, then restores the thread's previous context, if there was one.
  class Scope {
   public:
    Scope(const Driver& driver, int device) : driver_(driver), before_(driver.enter(device)) {}
    ~Scope() {
      if (before_) driver_.leave(before_);
    }
    Scope(const Scope&) = delete;

   private:
    const Driver& driver_;
    void* before_;
  };
  // A Scope during which the thread may load code and query it even if a stream of this or another thread is
  // being captured. Threads of torch launch gradients, so the capturing thread may be another.
  class Loading {
   public:
    Loading(const Driver& driver, int device);
    ~Loading();
    Loading(const Loading&) = delete;

   private:
    const Scope scope_;
    const Driver& driver_;
    int mode_;
  };

  CudaModule load(int device, std::string_view cubin, const std::string& kernel) const;
  void unload(const CudaModule& module) const;
  CudaFunction function(const CudaModule& module, const std::string& symbol) const;
  // A __constant__ or __device__ variable of the module. The address is null if there is no variable of that
  // name.
  struct Global {
    uint64_t address = 0;
    size_t bytes = 0;
  };
  Global global(const CudaModule& module, const std::string& symbol) const;
  // Copies in stream order. Host `data` is read before the call returns; with `on_device`, `data` is on the
  // module's device.
  void copy(const CudaModule& module, const Global& to, const void* data, bool on_device, void* stream) const;
  FunctionAttributes attributes(const CudaFunction& function) const;
  void allow_shared_memory(const CudaFunction& function, int bytes) const;

  // Allows clusters larger than the size that all chips with clusters support.
  void allow_large_clusters(const CudaFunction& function) const;
  // Returns how many clusters of such a launch the device can hold at once.
  int clusters_at_once(const CudaFunction& function, const CudaLaunch& launch) const;

  // Encodes a tensor map, which holds the address of the data but does not read it. Throws the errors of
  // check_tensor_map().
  TensorMap tensor_map(const TensorMapShape& shape, std::string_view kernel, int array) const;
  // The function's device must be current for the thread. `parameters` holds a pointer to each value. With
  // CUDA_LAUNCH_BLOCKING=1 it returns when the kernel has ended, unless the stream is being captured.
  void launch(const CudaFunction& function, const CudaLaunch& launch, void** parameters) const;
  // Returns where a kernel that is loaded on the device records its failed assertions.
  FailureLocation register_kernel(int device, const AssertingKernel& kernel) const;
  // Waits for all work on the device. Throws its errors, including failed assertions.
  void synchronize(int device) const;
  CaptureStatus capture_status(void* stream) const;
  // Returns the number of a stream of the current device, which no other has before or after it, or none if
  // the stream is being captured.
  std::optional<uint64_t> number_unless_captured(void* stream) const;

 private:
  struct Device;
  struct AssertBuffers;
  Device& device(int index) const;
  void* context(int index) const;
  void* enter(int index) const;  // returns the thread's previous context if it was another one
  void leave(void* before) const;
  std::string describe(int index) const;  // "device 0 (NVIDIA H200, sm_90)"
  void open(const std::string& library);
  void check(int code, auto&&... what) const;
  void check_process() const;
  void look_closer(int index) const;
  // Throws for failures on the device. It waits for the device first, so that concurrent failures become one
  // error.
  void raise_failures(int index) const;
  std::vector<std::string> take_failures(int index) const;
  int wait(int index) const;
  static const Driver* process_driver();  // the driver that get() opened; null if there is none
  static int forks();                     // number of forks before this process
  static void report_failures();          // prints unreported failures to stderr when the process ends
  void launch_and_wait(const CudaFunction& function, const CudaLaunch& launch, void* config,
                       void** parameters) const;
  std::string launch_text(const CudaFunction& function, const CudaLaunch& launch) const;
  // `device` is the one that the call was for, or -1.
  [[noreturn]] void fail_call(int code, const std::string& what, int device = -1) const;
  // For a kernel that the call waited for.
  [[noreturn]] void fail_kernel(int code, const std::string& what, const CudaFunction& function) const;
  std::string fact(int code) const;
  std::string culprits(int device) const;

  std::unique_ptr<DriverFunctions> f_;
  int version_ = 0;
  int forks_ = 0;  // number of forks before the process that opened the driver
  // The same number, or -1 once a kernel with assertions is loaded, so that one comparison tests both
  // conditions.
  mutable std::atomic<int> expected_forks_ = 0;
  const bool blocking_;  // CUDA_LAUNCH_BLOCKING
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace tile
