// The CUDA driver, opened at first use: devices, contexts, modules, launches. No CUDA header is needed.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "driver/assert_buffer.h"

namespace tile {

// Limits of every chip: blocks along each axis of a grid, and shared memory that a block has without being
// allowed more.
constexpr std::array<int64_t, 3> most_blocks = {2147483647, 65535, 65535};
constexpr int shared_bytes_without_asking = 48 * 1024;

struct DeviceProperties {
  std::string name;
  int arch = 0;  // 90: compute capability 9.0
  int multiprocessors = 0;
  int max_threads = 0;   // a block
  int shared_bytes = 0;  // what a block can opt in to
  int multiprocessor_shared_bytes = 0;
  int l2_bytes = 0;
};

struct FunctionAttributes {
  int registers = 0;     // a thread
  int local_bytes = 0;   // a thread: spills and stack
  int shared_bytes = 0;  // a block, static
  int max_threads = 0;   // a block
};

struct CudaModule {
  void* handle = nullptr;
  std::string kernel;  // whom errors name
  int device = 0;
};
struct CudaFunction {
  void* handle = nullptr;
  const char* kernel = "";  // lives for ever: errors name it later
  int device = 0;
};

struct CudaLaunch {
  std::array<unsigned, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  unsigned shared_bytes = 0;
  void* stream = nullptr;
  bool programmatic = false;  // may start while the kernel before it in the stream still ends
};

enum class CaptureStatus { none = 0, active = 1, invalidated = 2 };

struct DriverFunctions;  // pointers to its C functions

class Driver {
 public:
  // `library`: a path, or a name for the system's loader.
  explicit Driver(const std::string& library);
  ~Driver();
  Driver(const Driver&) = delete;
  // The one of this process: TILE_CUDA_DRIVER, else libcuda.so.1. An error is thrown anew at each call.
  static const Driver& get();
  // An error in a child of the process that opened the driver: nothing of it works there.
  static void require_own_process();

  int version() const { return version_; }  // of CUDA: 12030 is 12.3
  int device_count() const { return static_cast<int>(devices_.size()); }
  const DeviceProperties& properties(int device) const;

  // Makes the device's primary context, which torch uses too, the thread's. Almost free where it is so
  // already. Error: an assertion of a kernel failed there since the last one was told.
  void use(int device) const { enter(device); }
  // The same while it lives; then the thread has again what it had, if it had one.
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
  // As a Scope. While it lives, the thread may load code and ask about it although some stream, of this
  // thread or another, is being captured: gradients are launched by a thread of torch's own.
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
  // A variable of the module, __constant__ or __device__; no address where there is none of that name.
  struct Global {
    uint64_t address = 0;
    size_t bytes = 0;
  };
  Global global(const CudaModule& module, const std::string& symbol) const;
  // In the order of the stream. `data` is read before the call returns, or lies on the module's device.
  void copy(const CudaModule& module, const Global& to, const void* data, bool on_device, void* stream) const;
  FunctionAttributes attributes(const CudaFunction& function) const;
  void allow_shared_memory(const CudaFunction& function, int bytes) const;

  // Allows clusters of more blocks than every chip with clusters runs.
  void allow_large_clusters(const CudaFunction& function) const;
  // How many clusters of such a launch the device can hold.
  int clusters_at_once(const CudaFunction& function, const CudaLaunch& launch) const;

  // The function's device must be the thread's. `parameters` points to the value of each. Under
  // CUDA_LAUNCH_BLOCKING=1 it returns when the kernel has ended, unless the stream is captured.
  void launch(const CudaFunction& function, const CudaLaunch& launch, void** parameters) const;
  // Where the kernel, loaded on the device, is to say which of its assertions failed.
  FailureLocation watch(int device, const AssertingKernel& kernel) const;
  // Waits for all that runs on the device. Errors: what went wrong there, failed assertions among it.
  void synchronize(int device) const;
  CaptureStatus capture_status(void* stream) const;

 private:
  struct Device;
  struct Boards;
  Device& device(int index) const;
  void* context(int index) const;
  void* enter(int index) const;  // the thread's context before, if it was another
  void leave(void* before) const;
  std::string describe(int index) const;  // "device 0 (NVIDIA H200, sm_90)"
  void open(const std::string& library);
  void check(int code, auto&&... what) const;
  void check_process() const;
  void look_closer(int index) const;
  // An error for what has failed on the device. It is waited for, so that failures side by side are one.
  void raise_failures(int index) const;
  std::vector<std::string> take_failures(int index) const;
  int wait(int index) const;
  static const Driver* process_driver();  // that of get(); null: it has not opened one
  static int forks();                     // before this process
  static void report_failures();  // at the end of the process: those that no error has told, on stderr
  void launch_and_wait(const CudaFunction& function, const CudaLaunch& launch, void* config,
                       void** parameters) const;
  std::string launch_text(const CudaFunction& function, const CudaLaunch& launch) const;
  // `device`: the one that the call was for; -1: none in particular.
  [[noreturn]] void fail_call(int code, const std::string& what, int device = -1) const;
  // A kernel that was waited for.
  [[noreturn]] void fail_kernel(int code, const std::string& what, const CudaFunction& function) const;
  std::string fact(int code) const;
  std::string culprits(int device) const;

  std::unique_ptr<DriverFunctions> f_;
  int version_ = 0;
  int forks_ = 0;  // of the processes before the one that opened it
  // The same; -1 once a kernel with assertions is loaded, so that one comparison serves both questions.
  mutable std::atomic<int> expected_forks_ = 0;
  const bool blocking_;  // CUDA_LAUNCH_BLOCKING
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace tile
