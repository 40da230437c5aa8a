// Tile IR text as a kernel: parsed by the constructor, compiled for the arguments of each launch.
#include "runtime/text_kernel.h"

#include "ir/print.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "passes/pipeline.h"
#include "runtime/array_key.h"
#include "runtime/derivation.h"
#include "runtime/forward_launch.h"
#include "runtime/kernel_table.h"
#include "runtime/launch.h"
#include "runtime/launch_observer.h"
#include "support/log.h"

namespace tile {

TextKernel::TextKernel(std::string_view text, bool passes)
    : text_(text),
      passes_(passes),
      table_(std::make_unique<KernelTable>()),
      forward_table_(std::make_unique<KernelTable>()) {
  const Function function = parse(text_);
  verify(function, "parse");
  name_.name = function.name();
  for (const Value* parameter : function.body().arguments) parameters_.push_back(parameter->type);
  touched_ = touched_parameters(function);
}
TextKernel::~TextKernel() = default;

Function TextKernel::parsed(ArgumentRefs arguments) const {
  Function function = parse(text_);
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].array) set_facts(function, i, *arguments[i].array);
  walk(function.body(), [&](const Op& op) {
    if (op.is("dim") && op.results[0]->type.dtype != DType::i64 && is_wide_array(function, op.operands[0]))
      fail(op, ErrorKind::value,
           "an extent of the array does not fit i32, so each dim of it must be i64; write {axis=",
           op.integer("axis"), ", dtype=i64}");
  });
  return function;
}
Function TextKernel::compiled(ArgumentRefs arguments) const {
  Function function = parsed(arguments);
  if (passes_)
    run_passes(function);
  else
    run_pass("expand", function);  // targets implement core primitives only
  return function;
}

void TextKernel::check_types(ArgumentRefs arguments) const {
  const auto type_of = [](const ArgumentRef& each) {
    return each.array ? Type::array(each.array->dtype, each.array->rank) : Type::tile(each.scalar->dtype);
  };
  bool same = arguments.size() == parameters_.size();
  for (size_t i = 0; same && i < arguments.size(); ++i) same = parameters_[i] == type_of(arguments[i]);
  if (same) [[likely]]
    return;
  std::vector<Type> given;
  for (const ArgumentRef& each : arguments) given.push_back(type_of(each));
  fail_types(given);
}
std::vector<ArgumentRef> TextKernel::refs(const std::vector<Argument>& arguments) {
  std::vector<ArgumentRef> refs;
  refs.reserve(arguments.size());
  for (const Argument& argument : arguments)
    std::visit([&](const auto& each) { refs.emplace_back(each); }, argument);
  return refs;
}
void TextKernel::fail_types(const std::vector<Type>& given) const {
  fail(given.size() == parameters_.size() ? ErrorKind::type : ErrorKind::value, "launch of ", name(),
       ": takes (", join(parameters_), ") but is given (", join(given),
       "); give one argument of its type for each parameter");
}

void TextKernel::launch(Grid grid, const std::vector<Argument>& arguments) const {
  const std::vector<ArgumentRef> given = refs(arguments);
  LaunchKey key;
  for (const ArgumentRef& each : given)
    if (each.array) key.add(key_word(*each.array));
  launch(grid, key, given, ~uint64_t{0});
}

void TextKernel::launch(Grid grid, const LaunchKey& key, ArgumentRefs arguments, uint64_t writable) const {
  check_types(arguments);
  const Target& target = check_launch(name_, grid, arguments, true);
  if (Derivation* derivation = Derivation::of_thread()) [[unlikely]] {
    const auto parse = [&] { return parsed(arguments); };
    if (!derivation->tangents())
      derivation->refuse(str("launch of ", name(), ": a kernel of text"));
    else if (launch_forward({name_, target, grid, key, arguments, touched_, parse, *forward_table_}))
      return;
  }
  if (LaunchObserver* observer = LaunchObserver::of_thread())
    if (observer->observe(name_, grid, arguments, [&] { return compiled(arguments); })) return;
  const Executable* kernel = table_->find(key);
  if (!kernel)
    kernel = &table_->compile(key, [&] {
      const Stopwatch time;
      Function function = compiled(arguments);
      const Touched touched = touched_parameters(function);
      auto made = target.compile(std::move(function), name_);
      made->touched = touched;
      log_line(name(), ": parsed", target.compiles_at_once ? " and compiled" : "", " in ", time.text());
      return made;
    });
  if (const uint64_t others = kernel->touched.written & ~writable) [[unlikely]]
    fail(ErrorKind::value, "launch of ", name(), ": the kernel writes argument ", std::countr_zero(others),
         ", which is not among those that it may write");
  run_blocks(name_, *kernel, grid, arguments);
}

cuda::Program TextKernel::gpu_program(const std::vector<Argument>& arguments, const cuda::Target& target,
                                      const cuda::Configuration& configuration) const {
  std::vector<Argument> there = arguments;
  for (Argument& argument : there)
    if (auto* array = std::get_if<ArrayArgument>(&argument)) array->device = DeviceKind::cuda;
  const std::vector<ArgumentRef> given = refs(there);
  check_types(given);
  return {compiled(given), target, configuration};
}

}  // namespace tile
