// NVRTC, NVIDIA's run-time compiler: found at first use, never at import; CUDA C++ text becomes a cubin.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "driver/library.h"

namespace tile {

struct CompileRequest {
  std::string text;
  std::string file = "kernel.cu";                            // names what no #line in the text names
  int arch = 0;                                              // 90: compute capability 9.0
  std::vector<std::pair<std::string, std::string>> headers;  // name and text: files that #include finds
  std::vector<std::string> options;
  std::vector<std::string> names;  // name expressions, "kernels::copy<float>"
  bool ptx = false;                // give it too
  bool minimal = false;            // it has no textures and launches no kernels: compiled sooner
};

struct CompileResult {
  std::string cubin;                 // an ELF file
  std::string log;                   // warnings
  std::string ptx;                   // where it was asked for
  std::vector<std::string> lowered;  // the symbols of CompileRequest::names
  double seconds = 0;                // of this call
  bool from_disk = false;
};

// Where NVRTC is looked for, in this order.
struct NvrtcPaths {
  std::string only;                  // a file or its folder, TILE_NVRTC: nothing else is tried
  std::vector<std::string> folders;  // of wheels and toolkits: the newest libnvrtc.so.<n> of each
  std::vector<std::string> libraries = {"libnvrtc.so.13", "libnvrtc.so.12"};  // for the system's loader
  // Files and names to try. A name finds first what the process has loaded already.
  std::vector<std::string> candidates() const;
};
// csrc/torch says at load where torch's wheels are; it is asked at first use.
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
  const std::vector<int>& archs() const { return archs_; }  // ascending
  std::string architecture(int arch) const;                 // "sm_80", "sm_90a"
  // From any thread; several compile at once.
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
