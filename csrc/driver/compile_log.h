// Reads compiler logs: NVRTC's first error, and the resources that ptxas reports for a kernel.
#pragma once
#include <string>

namespace tile {

struct LogError {
  std::string file;
  int line = 0;         // 0: no line is named
  std::string message;  // empty: the log holds no error
};
// Knows the forms of the front end, "user.py(12): error: …", of ptxas and of NVRTC itself.
LogError first_error(const std::string& log);

// Resources reported by a compile with --ptxas-options=-v.
struct KernelResources {
  int registers = 0;                      // a thread
  int stack_bytes = 0;                    // a thread
  int spill_stores = 0, spill_loads = 0;  // bytes, a thread
  int barriers = 0, shared_bytes = 0;     // a block; shared memory of fixed size
};
// All 0 where the log does not tell of the kernel.
KernelResources resources_in(const std::string& log, const std::string& entry);

// Returns the text after "Potential Performance Loss: " in the log; empty if there is none.
std::string performance_loss(const std::string& log);

}  // namespace tile
