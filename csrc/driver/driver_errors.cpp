// Messages of the driver's errors: what happened, which kernels may have caused it, and what to do.
#include <algorithm>
#include <iterator>

#include "driver/driver_device.h"
#include "driver/driver_functions.h"

namespace tile {
namespace {

// An error of an earlier kernel that destroyed the context, with the further facts that are known about it.
struct Crash {
  int code;
  const char* hint;
};
constexpr Crash crashes[] = {
    {700, nullptr},
    {702, "it ran longer than a GPU with a display allows"},
    {710, "stderr has the text of its assert"},
    {714, nullptr},
    {715, nullptr},
    {716, "it accessed an address that is not a multiple of the access size"},
    {717, nullptr},
    {718, nullptr},
    {719, nullptr},
};

const Crash* crash_of(int code) {
  const auto found = std::find_if(std::begin(crashes), std::end(crashes),
                                  [&](const Crash& crash) { return crash.code == code; });
  return found == std::end(crashes) ? nullptr : found;
}

// Advice for a range of CUresult codes.
struct Advice {
  int first, last;
  const char* text;
};
constexpr const char* no_code = "NVRTC may be newer than the driver: update the driver";
constexpr Advice advices[] = {
    {2, 2, "free memory of the device"},
    {3, 3, "where this process was forked after CUDA was used: start processes with the method spawn"},
    {34, 34, "the library is a toolkit's stub: take its folder out of LD_LIBRARY_PATH"},
    {100, 100, "look at nvidia-smi and CUDA_VISIBLE_DEVICES"},
    {200, 200, no_code},
    {209, 209, no_code},
    {701, 701, "a block needs more registers or shared memory than there are: use smaller tiles"},
    {803, 803, "the driver was updated under the running system: restart the machine"},
    {900, 908, "run the kernel once before the capture"},
    {912, 912, "use a smaller cluster"},
};

}  // namespace

// Returns text such as "by a kernel before this call; …": the possible causes, and what to do.
std::string Driver::culprits(int index) const {
  std::string names;
  const char* known = nullptr;
  for (int i = 0; i < device_count(); ++i) {
    if (index >= 0 && i != index) continue;
    const Device& each = *devices_[static_cast<size_t>(i)];
    if (const char* kernel = each.crashed) known = kernel;
    const std::vector<const char*> recent = each.recent.names();
    if (!recent.empty())
      names += str("; the last of ours on device ", i, ", newest first: '", join(recent, "', '"), "'");
  }
  if (known) return str("by '", known, "' before this call; restart the process");
  if (blocking_) return "by a kernel before this call, none of ours; restart the process";
  return str("by a kernel before this call", names.empty() ? ", none of ours" : names,
             "; run with CUDA_LAUNCH_BLOCKING=1 to see which, and restart the process");
}

std::string Driver::fact(int code) const {
  const char *name = nullptr, *text = nullptr;
  f_->error_name(code, &name);
  f_->error_text(code, &text);
  const Crash* const crash = crash_of(code);
  return str(name ? str(name, " (", text ? text : "no text", ")") : str("CUresult ", code),
             crash && crash->hint ? str(", ", crash->hint) : std::string());
}

void Driver::fail_kernel(int code, const std::string& what, const CudaFunction& function) const {
  if (!crash_of(code)) fail_call(code, what, function.device);
  device(function.device).crashed = function.kernel;
  fail(ErrorKind::runtime, what, ": ", fact(code), ", by this kernel; restart the process");
}

void Driver::fail_call(int code, const std::string& what, int index) const {
  if (crash_of(code)) fail(ErrorKind::runtime, what, ": ", fact(code), ", ", culprits(index));
  const char* advice = nullptr;
  for (const Advice& row : advices)
    if (row.first <= code && code <= row.last) advice = row.text;
  fail(ErrorKind::runtime, what, ": ", fact(code), advice ? "; " : "", advice ? advice : "");
}

}  // namespace tile
