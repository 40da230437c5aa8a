// From a launch to a compiled program: key, table, trace, passes and target.
#include "runtime/kernel.h"

#include <atomic>
#include <forward_list>
#include <mutex>

#include "dsl/tracer.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "passes/pipeline.h"
#include "runtime/array_key.h"
#include "runtime/forward_launch.h"
#include "runtime/kernel_table.h"
#include "runtime/launch.h"
#include "runtime/launch_observer.h"
#include "runtime/launch_record.h"
#include "runtime/reverse_kernel.h"
#include "support/log.h"

namespace tile {
namespace {

// Never destroyed, because kernels of libraries that are unloaded later still count.
struct Counts {
  std::mutex mutex;
  std::map<std::string, size_t> by_name;
};
Counts& counts() {
  static auto* const instance = new Counts;
  return *instance;
}

// Holds those of a kernel, for each key.
class ReverseTable {
 public:
  template <class Trace>
  std::shared_ptr<ReverseKernel> find(const LaunchKey& key, const Trace& trace) {
    const std::lock_guard lock(mutex_);
    for (const auto& [known, kernel] : kernels_)
      if (known == key) return kernel;
    return kernels_.emplace_front(key, std::make_shared<ReverseKernel>(trace())).second;
  }

 private:
  std::mutex mutex_;
  std::forward_list<std::pair<const LaunchKey, std::shared_ptr<ReverseKernel>>> kernels_;
};

}  // namespace

struct KernelBase::State {
  KernelName name;
  KernelTable table;
  KernelTable forward_table;  // of the kernels that also compute tangents
  ReverseTable reverse_table;
  std::atomic<size_t> compiled{0};
  Extents extents = Extents::narrow;
};

KernelBase::KernelBase(const char* name, Location location, Extents extents)
    : state_(std::make_unique<State>()) {
  state_->name = {name, location};
  state_->extents = extents;
}
KernelBase::KernelBase(const char* name, Location location) : KernelBase(name, location, Extents::narrow) {}
KernelBase::~KernelBase() = default;

const std::string& KernelBase::name() const { return state_->name.name; }
const Location& KernelBase::where() const { return state_->name.where; }
size_t KernelBase::compiled_count() const { return state_->compiled; }
std::map<std::string, size_t> KernelBase::compiled_counts() {
  std::lock_guard lock(counts().mutex);
  return counts().by_name;
}

Function KernelBase::trace_call(const TraceBody& body) const {
  Tracer tracer(name());
  if (state_->extents == Extents::wide) tracer.count_in_i64();
  body(tracer);
  Function function = tracer.finish();
  verify(function, "trace");
  return function;
}

Function KernelBase::compiled(const TraceBody& body) const {
  Function function = trace_call(body);
  run_passes(function);
  return function;
}

Touched KernelBase::touched_of(const TraceBody& body) const { return touched_parameters(compiled(body)); }

uint64_t KernelBase::launch_call(Grid grid, const LaunchKey& key, ArgumentRefs arguments,
                                 const TraceBody& body) {
  return launch_call(grid, key, arguments, body, nullptr, nullptr);
}
uint64_t KernelBase::launch_call(Grid grid, const LaunchKey& key, ArgumentRefs arguments,
                                 const TraceBody& body, WriteCheck check, const void* call) {
  State& state = *state_;
  const Target& target = check_launch(state.name, grid, arguments, state.extents == Extents::wide);
  const auto function = [&] { return compiled(body); };
  if (Derivation* derivation = Derivation::of_thread()) [[unlikely]] {
    if (LaunchRecord* record = derivation->record()) {
      RecordedLaunch launch = recorded(target, grid, key, arguments, body);
      const Touched touched = touched_parameters(launch.kernel->kernel());
      if (check) check(call, touched);
      record->add(std::move(launch));
      return touched.written;
    }
    const Touched touched =
        LaunchObserver::of_thread() ? touched_of(body) : compile(target, key, function).touched;
    if (check) check(call, touched);
    const ForwardLaunch forward{
        state.name,         target, grid, key, arguments, touched, [&] { return trace_call(body); },
        state.forward_table};
    if (launch_forward(forward)) return touched.written;
  }
  if (LaunchObserver* observer = LaunchObserver::of_thread()) [[unlikely]]
    if (observer->observe(state.name, grid, arguments, function)) return 0;
  const Executable* kernel = state.table.find(key);
  if (!kernel) kernel = &compile(target, key, function);
  if (check) check(call, kernel->touched);
  run_blocks(state.name, *kernel, grid, arguments);
  return kernel->touched.written;
}

const Executable& KernelBase::compile(const Target& target, const LaunchKey& key,
                                      const std::function<Function()>& compiled) {
  return state_->table.compile(key, [&] {
    const Stopwatch time;
    Function function = compiled();
    const Touched touched = touched_parameters(function);
    auto kernel = target.compile(std::move(function), state_->name);
    kernel->touched = touched;
    log_line(name(), ": traced", target.compiles_at_once ? " and compiled" : "", " in ", time.text());
    ++state_->compiled;
    std::lock_guard lock(counts().mutex);
    ++counts().by_name[name()];
    return kernel;
  });
}

RecordedLaunch KernelBase::recorded(const Target& target, Grid grid, const LaunchKey& key,
                                    ArgumentRefs arguments, const TraceBody& body) {
  RecordedLaunch launch{
      state_->name, grid, {}, state_->reverse_table.find(key, [&] { return trace_call(body); }), {}};
  for (const ArgumentRef& each : arguments)
    launch.arguments.push_back(each.array ? Argument(*each.array) : Argument(*each.scalar));
  launch.run = [this, &target, grid, key, kernel = launch.kernel](ArgumentRefs own) {
    const auto function = [&] {
      Function copy = clone(kernel->kernel());
      run_passes(copy);
      return copy;
    };
    if (LaunchObserver* observer = LaunchObserver::of_thread())
      if (observer->observe(state_->name, grid, own, function)) return;
    const Executable* executable = state_->table.find(key);
    run_blocks(state_->name, executable ? *executable : compile(target, key, function), grid, own);
  };
  return launch;
}

std::string compiled_text(const Function& traced) {
  std::string text;
  for (const Stage& stage : stages_of(traced)) text += str("// ", stage.pass, "\n", stage.text);
  return text;
}

namespace detail {

void refuse_list(size_t elements) {
  fail(ErrorKind::value, "a list of ", elements, " parameters is too long for a kernel; the most is ",
       most_listed);
}

Value* add_array_parameter(Tracer& tracer, const ArrayArgument& array) {
  Function& function = tracer.function();
  set_facts(function, function.body().arguments.size(), array);
  return function.add_argument(function.body(), Type::array(array.dtype, array.rank), {});
}
Value* add_scalar_parameter(Tracer& tracer, DType dtype) {
  Function& function = tracer.function();
  return function.add_argument(function.body(), Type::tile(dtype), {});
}

}  // namespace detail
}  // namespace tile
