// From a launch to a compiled program: key, table, trace, passes, target.
#include "runtime/kernel.h"

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "cpu/program.h"
#include "dsl/tracer.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "passes/pipeline.h"
#include "runtime/launch.h"
#include "runtime/text_kernel.h"

namespace tile {
namespace {

// Never destroyed: kernels of libraries that are unloaded later still count.
struct Counts {
  std::mutex mutex;
  std::map<std::string, size_t> by_name;
};
Counts& counts() {
  static auto* const instance = new Counts;
  return *instance;
}

struct KeyHash {
  size_t operator()(const LaunchKey& key) const { return key.hash(); }
};

}  // namespace

// One entry a key; the first caller compiles, others of the same key wait for it.
struct KernelBase::State {
  struct Entry {
    std::once_flag once;
    std::unique_ptr<cpu::Program> program;
  };
  std::shared_mutex mutex;
  std::unordered_map<LaunchKey, std::shared_ptr<Entry>, KeyHash> entries;
  std::atomic<size_t> compiled{0};
};

KernelBase::KernelBase(const char* name, Location location)
    : name_(name), location_(location), state_(std::make_unique<State>()) {}
KernelBase::~KernelBase() = default;

size_t KernelBase::compiled_count() const { return state_->compiled; }
std::map<std::string, size_t> KernelBase::compiled_counts() {
  std::lock_guard lock(counts().mutex);
  return counts().by_name;
}

Function KernelBase::trace_call(const TraceBody& body) const {
  Tracer tracer(name_);
  body(tracer);
  Function function = tracer.finish();
  verify(function, "trace");
  return function;
}

void KernelBase::launch_call(Grid grid, Call& call, const TraceBody& body) {
  std::shared_ptr<State::Entry> entry;
  {
    std::shared_lock lock(state_->mutex);
    if (auto at = state_->entries.find(call.key); at != state_->entries.end()) entry = at->second;
  }
  if (!entry) {
    std::unique_lock lock(state_->mutex);
    std::shared_ptr<State::Entry>& place = state_->entries[call.key];
    if (!place) place = std::make_shared<State::Entry>();
    entry = place;
  }
  std::call_once(entry->once, [&] {
    Function function = trace_call(body);
    run_passes(function);
    entry->program = std::make_unique<cpu::Program>(std::move(function));
    ++state_->compiled;
    std::lock_guard lock(counts().mutex);
    ++counts().by_name[name_];
  });
  run_program(*entry->program, name_, location_, grid, call.arguments);
}

TextKernel::TextKernel(std::string_view text, bool passes) {
  Function function = parse(text);
  verify(function, "parse");
  name_ = function.name();
  for (const Value* parameter : function.body().arguments) parameters_.push_back(parameter->type);
  if (passes) run_passes(function);
  program_ = std::make_unique<cpu::Program>(std::move(function));
}
TextKernel::~TextKernel() = default;

void TextKernel::launch(Grid grid, const std::vector<Argument>& arguments) const {
  std::vector<Type> given;
  for (const Argument& argument : arguments)
    if (const auto* array = std::get_if<ArrayArgument>(&argument))
      given.push_back(Type::array(array->dtype, array->rank));
    else
      given.push_back(Type::tile(std::get<ScalarArgument>(argument).dtype));
  if (given != parameters_)
    fail(given.size() == parameters_.size() ? ErrorKind::type : ErrorKind::value, "launch of ", name_,
         ": takes (", join(parameters_), ") but is given (", join(given),
         "); give one argument of its type for each parameter");
  run_program(*program_, name_, {}, grid, arguments);
}

std::string compiled_text(const Function& traced) {
  std::string text;
  for (const Stage& stage : stages_of(traced)) text += str("// ", stage.pass, "\n", stage.text);
  return text;
}

namespace detail {

Value* add_array_parameter(Tracer& tracer, const ArrayArgument& array) {
  Function& function = tracer.function();
  return function.add_argument(function.body(), Type::array(array.dtype, array.rank), {});
}
Value* add_scalar_parameter(Tracer& tracer, DType dtype) {
  Function& function = tracer.function();
  return function.add_argument(function.body(), Type::tile(dtype), {});
}

// On the CPU extents and strides are known at run time; only what changes the traced code is in the key.
void key_of_array(LaunchKey& key, const ArrayArgument& array) {
  key.add(static_cast<uint64_t>(array.dtype) | static_cast<uint64_t>(array.rank) << 8 |
          static_cast<uint64_t>(array.device) << 16);
}

}  // namespace detail
}  // namespace tile
