// Reads compiler logs: the first error that NVRTC reports, and the resources that ptxas reports for a kernel.
#pragma once
#include <string>

namespace tile {

struct LogError {
  std::string file;
  int line = 0;         // 0 if the error has no line
  std::string message;  // empty if the log holds no error
};
// Understands the errors of the front end, "user.py(12): error: …", of ptxas and of NVRTC itself.
LogError first_error(const std::string& log);

// Resources reported by a compile with --ptxas-options=-v.
struct KernelResources {
  int registers = 0;                      // per thread
  int stack_bytes = 0;                    // per thread
  int spill_stores = 0, spill_loads = 0;  // bytes per thread
  int barriers = 0, shared_bytes = 0;     // per block; shared memory of static size
};
// Returns zeros if the log does not mention the kernel.
KernelResources resources_in(const std::string& log, const std::string& entry);

// Returns the text after "Potential Performance Loss: " in the log; empty if there is none.
std::string performance_loss(const std::string& log);

}  // namespace tile
