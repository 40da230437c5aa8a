// Each record is one write to the end of the file: its size, its checksum, and its fields.
#include "runtime/kernel_record.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>

#include "ir/print.h"
#include "ir/verify.h"
#include "runtime/cache_files.h"
#include "runtime/gpu_code.h"
#include "runtime/inspection.h"
#include "support/byte_fields.h"
#include "support/env.h"
#include "support/hash.h"
#include "support/log.h"

namespace tile {
namespace {

struct Head {
  char magic[8] = {'t', 'i', 'l', 'e', 'r', 'e', 'c', '1'};
  uint64_t size = 0;
  Hash128 checksum;
};

struct Recorder {
  std::mutex mutex;
  std::string path = environment("TILE_RECORD");
  std::set<std::string> written;
};
Recorder& recorder() {
  static Recorder& all = *new Recorder;
  return all;
}

bool is_recording() {
  std::lock_guard lock(recorder().mutex);
  return !recorder().path.empty();
}

void append(const std::string& fields) {
  Recorder& to = recorder();
  std::lock_guard lock(to.mutex);
  if (to.path.empty() || !to.written.insert(fields).second) return;
  Head head;
  head.size = fields.size();
  head.checksum = hash128(fields);
  const std::string record = std::string(reinterpret_cast<const char*>(&head), sizeof head) + fields;
  const FileHandle file(open(to.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file || write(file.number, record.data(), record.size()) != static_cast<ssize_t>(record.size()))
    warn_once(to.path, str("kernels cannot be recorded: ", std::strerror(errno),
                           "; set TILE_RECORD to a file in a folder that can be written"));
}

}  // namespace

std::optional<RecordedKernel> recorded_kernel(std::string_view fields) {
  RecordedKernel kernel{.bytes = std::string(fields)};
  std::string count;
  if (!take_field(fields, kernel.name) || !take_field(fields, kernel.arch) || !take_field(fields, kernel.ir))
    return std::nullopt;
  if (!kernel.ir.empty()) {
    const bool whole = take_field(fields, kernel.shared_bytes) && take_field(fields, kernel.cluster_blocks) &&
                       take_field(fields, kernel.long_axis) && fields.empty();
    return whole ? std::optional(kernel) : std::nullopt;
  }
  CompileRequest& request = kernel.request;
  int headers = 0, options = 0, names = 0;
  if (!take_field(fields, request.source) || !take_field(fields, headers) || !take_field(fields, options) ||
      !take_field(fields, names))
    return std::nullopt;
  request.file = kernel.name;
  request.arch = kernel.arch;
  for (int i = 0; i < headers; ++i) {
    auto& [name, text] = request.headers.emplace_back();
    if (!take_field(fields, name) || !take_field(fields, text)) return std::nullopt;
  }
  for (int i = 0; i < options; ++i)
    if (!take_field(fields, request.options.emplace_back())) return std::nullopt;
  for (int i = 0; i < names; ++i)
    if (!take_field(fields, request.names.emplace_back())) return std::nullopt;
  return fields.empty() ? std::optional(kernel) : std::nullopt;
}

void record_kernels_in(const std::string& path) {
  Recorder& to = recorder();
  std::lock_guard lock(to.mutex);
  to.path = path;
  to.written.clear();
}

std::string record_of(const Function& function, const KernelName& name, const cuda::Target& target) {
  std::string fields;
  put_field(fields, name.name);
  put_field(fields, target.arch);
  put_field(fields, print(function));
  put_field(fields, target.shared_bytes);
  put_field(fields, target.cluster_blocks);
  put_field(fields, target.long_axis);
  return fields;
}
void record_kernel(const Function& function, const KernelName& name, const cuda::Target& target) {
  if (is_recording()) append(record_of(function, name, target));
}

void record_kernel(const CompileRequest& request) {
  if (!is_recording() || !is_self_contained(request)) return;
  std::string fields;
  put_field(fields, request.file);
  put_field(fields, request.arch);
  put_field(fields, "");
  put_field(fields, request.source);
  for (const size_t count : {request.headers.size(), request.options.size(), request.names.size()})
    put_field(fields, static_cast<int>(count));
  for (const auto& [name, text] : request.headers) {
    put_field(fields, name);
    put_field(fields, text);
  }
  for (const std::string& option : request.options) put_field(fields, option);
  for (const std::string& name : request.names) put_field(fields, name);
  append(fields);
}

std::vector<RecordedKernel> recorded_kernels(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    fail(ErrorKind::value, path, ": the record cannot be read: ", std::strerror(errno),
         "; give the file that TILE_RECORD named");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string_view left = text;
  std::set<std::string_view> seen;
  std::vector<RecordedKernel> kernels;
  while (!left.empty()) {
    Head head;
    bool good = left.size() >= sizeof head;
    if (good) std::memcpy(&head, left.data(), sizeof head);
    good = good && std::memcmp(head.magic, Head().magic, sizeof head.magic) == 0 &&
           head.size <= left.size() - sizeof head;
    const std::string_view fields = good ? left.substr(sizeof head, head.size) : std::string_view();
    auto kernel = good && hash128(fields) == head.checksum ? recorded_kernel(fields) : std::nullopt;
    if (!kernel)
      fail(ErrorKind::value, path, ": byte ", text.size() - left.size(),
           " of the record of kernels is damaged, or it is another file; record it again");
    if (seen.insert(fields).second) kernels.push_back(*std::move(kernel));
    left.remove_prefix(sizeof head + head.size);
  }
  return kernels;
}

void compile_recorded(const RecordedKernel& kernel, int arch, CubinCompiler& compiler) {
  if (kernel.ir.empty()) {
    CompileRequest request = kernel.request;
    request.arch = arch;
    compiler.collect(request, compiler.compile(request, nullptr, /*with_code=*/true));
    return;
  }
  cuda::Target target = target_of_arch(arch);
  target.long_axis = kernel.long_axis;
  target.cluster_blocks = kernel.cluster_blocks;
  if (arch == kernel.arch) target.shared_bytes = kernel.shared_bytes;
  const Function function = parse(kernel.ir);
  verify(function, "record");
  compile_for_gpu(function, {kernel.name, {}}, target, compiler);
}

}  // namespace tile
