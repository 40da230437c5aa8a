// tile::_run_kernel: the launch of a kernel that is given as Tile IR text. Packages of AOTInductor call it,
// which have no Python.
#include <array>
#include <charconv>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "runtime/text_kernel.h"
#include "torch/described_call.h"
#include "torch/op.h"

namespace tile {
namespace {

using Number = CallLayout::Number;

constexpr std::string_view what = "launch of ";  // begins errors

struct Texts {
  std::string_view kernel, far_kernel, layout;
  bool operator==(const Texts&) const = default;
};

// Reads a layout, whose lines are "array TENSOR OFFSET SIZE STRIDE SIZE STRIDE ...", "number VALUE" for each
// parameter of the kernel, and "grid X Y Z". Numbers are integers, or n0, n1, ... of the call.
class Reader {
 public:
  Reader(const TextKernel& kernel, CallLayout& layout)
      : kernel_(kernel), layout_(layout), build_(layout, str(what, kernel.name(), ": ")) {}

  void read(std::string_view text) {
    bool has_grid = false;
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      read_words(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      if (words_.empty()) continue;
      if (has_grid) refuse();
      if (words_[0] == "grid")
        has_grid = true, read_grid();
      else
        read_parameter();
    }
    if (!has_grid || layout_.parameters.size() != kernel_.parameters().size())
      fail(ErrorKind::value, what, kernel_.name(), ": a layout has a line for each of the ",
           kernel_.parameters().size(), " parameters, and one for the grid");
    build_.finish();
  }

 private:
  [[noreturn]] void refuse() const {
    fail(ErrorKind::value, what, kernel_.name(), ": '", line_,
         "' is no line of a layout; write 'array TENSOR OFFSET SIZE STRIDE ...', 'number VALUE' or, at the "
         "end, 'grid X Y Z'");
  }
  void read_words(std::string_view line) {
    line_ = line;
    words_.clear();
    while (!line.empty()) {
      const size_t end = std::min(line.find(' '), line.size());
      if (end) words_.push_back(line.substr(0, end));
      line.remove_prefix(std::min(end + 1, line.size()));
    }
  }
  int64_t integer(std::string_view word) const {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) refuse();
    return value;
  }
  Number number(std::string_view word) {
    return word.starts_with('n') ? build_.run_time(word) : Number{integer(word), -1};
  }
  void read_grid() {
    if (words_.size() != 4) refuse();
    for (size_t axis = 0; axis < 3; ++axis) layout_.grid[axis] = number(words_[axis + 1]);
  }
  void read_parameter() {
    const size_t at = layout_.parameters.size();
    if (at >= std::min(kernel_.parameters().size(), most_described)) refuse();
    const Type& type = kernel_.parameters()[at];
    if (words_[0] == "number" && words_.size() == 2 &&
        (type == Type::tile(DType::i32) || type == Type::tile(DType::i64)))
      return build_.add_scalar(type.dtype, number(words_[1]));
    if (words_[0] != "array" || words_.size() < 3 || words_.size() % 2 == 0 || !type.is_array()) refuse();
    const Number offset = number(words_[2]);
    std::vector<Number> sizes, strides;
    for (size_t i = 3; i < words_.size(); i += 2) {
      sizes.push_back(number(words_[i]));
      strides.push_back(number(words_[i + 1]));
    }
    build_.add_array(integer(words_[1]), offset, sizes, strides);
  }

  const TextKernel& kernel_;
  CallLayout& layout_;
  LayoutBuilder build_;
  std::string_view line_;
  std::vector<std::string_view> words_;
};

// Returns the kernel of a text. Equal texts are one kernel, which is compiled once.
const TextKernel& kernel_of(std::string_view text) {
  static std::mutex mutex;
  static auto* const kernels = new std::map<std::string, std::unique_ptr<TextKernel>, std::less<>>;
  const std::lock_guard lock(mutex);
  const auto known = kernels->find(text);
  if (known != kernels->end()) return *known->second;
  auto made = std::make_unique<TextKernel>(text);  // before it is added, in case of an error
  return *kernels->emplace(text, std::move(made)).first->second;
}

// A kernel with a layout, parsed.
class Program {
 public:
  explicit Program(const Texts& given)
      : kernel(kernel_of(given.kernel)),
        far_kernel(given.far_kernel.empty() ? kernel : kernel_of(given.far_kernel)),
        kernel_text_(given.kernel),
        far_text_(given.far_kernel),
        layout_text_(given.layout) {
    Reader(kernel, layout).read(layout_text_);
    if (far_kernel.parameters() != kernel.parameters())
      fail(ErrorKind::value, what, kernel.name(), ": the kernel of far arrays has other parameters");
  }
  Texts texts() const { return {kernel_text_, far_text_, layout_text_}; }

  const TextKernel& kernel;
  const TextKernel& far_kernel;  // for a launch in which an array whose sizes vary is far
  CallLayout layout;
  std::mutex mutex;  // of what a launch keeps in the layout

 private:
  const std::string kernel_text_, far_text_, layout_text_;
};

Program& program_of(const Texts& texts) {
  // Calls of one place in generated code give the same strings, so that their addresses find the program
  // without a hash of the texts.
  static thread_local std::array<Program*, 1024> recent{};
  const uint64_t address = reinterpret_cast<uintptr_t>(texts.layout.data());
  Program*& slot = recent[address * 0x9e3779b97f4a7c15ull >> 54];
  if (slot && slot->texts() == texts) [[likely]]
    return *slot;
  struct Hash {
    size_t operator()(const Texts& of) const {
      const std::hash<std::string_view> hash;
      return hash(of.kernel) ^ hash(of.layout) * 31;
    }
  };
  static std::mutex mutex;
  static auto* const programs = new std::unordered_map<Texts, std::unique_ptr<Program>, Hash>;
  const std::lock_guard lock(mutex);
  const auto known = programs->find(texts);
  if (known != programs->end()) return *(slot = known->second.get());
  auto made = std::make_unique<Program>(texts);
  const Texts own = made->texts();
  return *(slot = programs->emplace(own, std::move(made)).first->second.get());
}

// One launch.
class Launch : DescribedArguments {
 public:
  Launch(Program& program, at::TensorList read, at::TensorList written, at::IntArrayRef numbers)
      : DescribedArguments(program.layout, what, program.kernel.name()), program_(program) {
    if (read.size() + written.size() != layout_.tensors || numbers.size() != layout_.floats.size())
      fail(ErrorKind::value, prefix(), "takes ", layout_.tensors, " tensors and ", layout_.floats.size(),
           " numbers but is given ", read.size() + written.size(), " and ", numbers.size());
    numbers_.assign(numbers.begin(), numbers.end());
    const std::lock_guard lock(program.mutex);
    add_all([&](size_t i) { return i < read.size() ? &read[i] : &written[i - read.size()]; });
    for (size_t i = 0; i < layout_.parameters.size(); ++i) {
      if (!layout_.parameters[i].is_array) continue;
      const CallLayout::Array& array = layout_.arrays[layout_.parameters[i].at];
      if (array.tensor >= read.size()) writable_ |= uint64_t{1} << i;
      far_ |= array.far && !array.known;
    }
  }
  void run() const {
    const Grid blocks = grid();
    if (is_empty(blocks)) return;
    const TextKernel& kernel = far_ ? program_.far_kernel : program_.kernel;
    kernel.launch(blocks, key_.words, refs(), writable_);
  }

 private:
  Program& program_;
  uint64_t writable_ = 0;
  bool far_ = false;
};

const auto run_kernel =
    op("tile::_run_kernel(str kernel, str far_kernel, str layout, Tensor[] tensors, Tensor(a!)[] written, "
       "SymInt[] numbers) -> ()")
        .run([](const std::string& kernel, const std::string& far_kernel, const std::string& layout,
                at::TensorList tensors, at::TensorList written, at::IntArrayRef numbers) {
          Launch(program_of({kernel, far_kernel, layout}), tensors, written, numbers).run();
        });

}  // namespace
}  // namespace tile
