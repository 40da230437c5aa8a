// NVRTC, NVIDIA's run-time compiler, found at first use and never at import. It compiles CUDA C++ source to a
// cubin.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "driver/library.h"

namespace tile {

struct CompileRequest {
  std::string source;
  std::string file = "kernel.cu";  // the name in errors for lines that no #line directive names
  int arch = 0;                    // 90: compute capability 9.0
  std::vector<std::pair<std::string, std::string>> headers;  // name and contents of files for #include
  std::vector<std::string> options;
  std::vector<std::string> toolkit_folders;  // with the headers of CUDA, where this machine has them
  std::vector<std::string> names;            // name expressions, "kernels::copy<float>"
  bool ptx = false;                          // also return PTX
  bool minimal = false;  // the source has no textures and launches no kernels, so it compiles faster
};

struct CompileResult {
  std::string cubin;                 // an ELF file
  std::string log;                   // warnings
  std::string ptx;                   // only if requested
  std::vector<std::string> lowered;  // the symbols of CompileRequest::names
  double seconds = 0;                // duration of this call
  int cuda = 0;                      // version of the NVRTC that compiled it: 13000 is 13.0
  bool from_disk = false, from_pack = false;
};

// The locations where NVRTC is searched for, in this order.
struct NvrtcPaths {
  std::string only;  // TILE_NVRTC, a file or its folder; if set, nothing else is tried
  // Folders of wheels and toolkits; the newest libnvrtc.so.<n> of each is tried.
  std::vector<std::string> folders;
  std::vector<std::string> libraries = {"libnvrtc.so.13", "libnvrtc.so.12"};  // names for the system's loader
  // Returns the files and names to try. A name first finds a library that the process has already loaded.
  std::vector<std::string> candidates() const;
};
// csrc/torch sets at load the function that finds torch's wheels; it is called at first use.
void set_nvrtc_folders(std::function<std::vector<std::string>()> folders);
NvrtcPaths nvrtc_paths();

struct NvrtcFunctions;  // pointers to its C functions

class Nvrtc {
 public:
  explicit Nvrtc(const NvrtcPaths& paths);
  ~Nvrtc();
  Nvrtc(const Nvrtc&) = delete;
  const std::string& path() const { return library_.path(); }
  std::string version() const;                              // "13.0"
  int cuda() const { return major_ * 1000 + minor_ * 10; }  // 13000
  const std::vector<int>& archs() const { return archs_; }  // ascending
  std::string architecture(int arch) const;                 // "sm_80", "sm_90a"
  // May be called from any thread; several compile concurrently.
  CompileResult compile(const CompileRequest& request) const;

 private:
  bool open(const Library& library, std::string& failures);
  [[noreturn]] void fail_compile(const CompileRequest& request, int code, const std::string& log) const;

  Library library_;
  std::unique_ptr<NvrtcFunctions> functions_;
  int major_ = 0, minor_ = 0;
  std::vector<int> archs_;
};

}  // namespace tile
