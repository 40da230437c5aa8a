// The builder of operators: the registry, and the registration of a kernel for each dispatch key.
#include <algorithm>
#include <atomic>
#include <cctype>
#include <map>

#include "dsl/namespace_scope.h"
#include "torch/record.h"
#include "torch/refused.h"

namespace tile {
namespace {

// Never destroyed, because the dispatcher may be destroyed earlier.
struct Registry {
  struct Entry {
    std::shared_ptr<OperatorRecord> op;
    std::unique_ptr<torch::Library> library;
  };
  std::mutex mutex;
  std::map<std::string, Entry> entries;
  // The dispatcher frees an operator that nothing registers, but Python and torch's JIT keep handles to it. A
  // registered name keeps the operator alive while a definition replaces another.
  std::map<std::string, c10::RegistrationHandleRAII> names;
  std::map<std::string, std::unique_ptr<torch::Library>> refused;  // names whose call raises the reason
  std::map<std::string, std::string> gradients;                    // gradient operator -> operator
  std::vector<std::pair<std::string, std::string>> errors;         // operator, text
};
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}
std::atomic<uint64_t> definition_count{0};
std::atomic<void (*)()> definition_listener = nullptr;

// Defines the operator's schema and a kernel for each key. `of`: the operator whose forward or reverse mode
// it is, or itself.
void install(torch::Library& library, const std::shared_ptr<OperatorRecord>& op,
             const std::shared_ptr<OperatorRecord>& of) {
  library.def(c10::FunctionSchema(op->schema), {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides});
  if (!registry().names.contains(op->name))
    registry().names.emplace(op->name, c10::Dispatcher::singleton().registerName({op->name, ""}));
  op->handle = c10::Dispatcher::singleton().findSchemaOrThrow(op->name.c_str(), "");
  const std::string bare = op->name.substr(op->name.find("::") + 2);
  using Key = c10::DispatchKey;
  const auto implement = [&](Key key, torch::CppFunction kernel) {
    library.impl(bare.c_str(), torch::dispatch(key, std::move(kernel)));
  };
  const auto run = op->is_forward ? forward_run_kernel : op->is_reverse ? reverse_run_kernel : run_kernel;
  const auto meta = op->is_forward ? forward_meta_kernel : op->is_reverse ? reverse_meta_kernel : meta_kernel;
  implement(Key::CPU, run(of));
  implement(Key::CUDA, run(of));
  implement(Key::Meta, meta(of));
  implement(Key::Autograd, autograd_kernel(op));
  implement(Key::FuncTorchBatched, vmap_kernel(op));
  implement(Key::AutocastCPU, autocast_kernel(op, c10::kCPU));
  implement(Key::AutocastCUDA, autocast_kernel(op, c10::kCUDA));
  if (op->mutates) implement(Key::ADInplaceOrView, version_kernel(op));
}
// Defines the operator and that of its forward mode.
void install(torch::Library& library, const std::shared_ptr<OperatorRecord>& op) {
  install(library, op, op);
  op->forward = forward_record(*op);
  if (op->forward) install(library, op->forward, op);
}
std::unique_ptr<torch::Library> make_library(const std::string& name, Location where) {
  return std::make_unique<torch::Library>(torch::Library::FRAGMENT, name.substr(0, name.find("::")),
                                          std::nullopt, where.file, where.line);
}

struct RefusedKernel : c10::OperatorKernel {
  explicit RefusedKernel(std::shared_ptr<OperatorBody> of) : body(std::move(of)) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, BoxedValues*) const {
    raise(body->name, body->error_kind, body->error);
  }
  const std::shared_ptr<OperatorBody> body;
};
bool is_name(std::string_view text) {
  const size_t colons = text.find("::");
  const auto plain = [](std::string_view part) {
    return !part.empty() && !std::isdigit(static_cast<unsigned char>(part[0])) &&
           std::all_of(part.begin(), part.end(),
                       [](unsigned char c) { return c < 128 && (std::isalnum(c) || c == '_'); });
  };
  return colons != text.npos && plain(text.substr(0, colons)) && plain(text.substr(colons + 2));
}
// Defines an operator for a name whose definition was refused. It takes any arguments and raises the reason,
// which says more than that no such operator exists.
void install_refusal(const std::shared_ptr<OperatorBody>& body, Location where) {
  const std::string& name = body->name;
  auto& dispatcher = c10::Dispatcher::singleton();
  if (!is_name(name)) return;
  registry().refused.erase(name);
  for (const c10::OperatorName& each : dispatcher.getAllOpNames())
    if (each.name == name && dispatcher.findSchema(each)) return;
  auto library = make_library(name, where);
  library->def(c10::FunctionSchema(name, "", {}, {}, /*is_vararg=*/true, /*is_varret=*/true));
  library->impl(
      name.substr(name.find("::") + 2).c_str(),
      torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, boxed_kernel<RefusedKernel>(body)));
  registry().names.try_emplace(name, dispatcher.registerName({name, ""}));
  registry().refused[name] = std::move(library);
}

// Stores an error for registration_errors() and prints it at once, because a program that loads an operator
// library may never ask.
void remember(const std::string& name, Location where, const std::string& text) {
  const std::string full = tile::str(where, ": ", text);
  registry().errors.emplace_back(name, full);
  TORCH_WARN(full);
}

Operator define(const std::string& text, Location where, bool replace) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  ++definition_count;
  std::string name = text.substr(0, text.find('('));
  auto body = std::make_shared<OperatorBody>();
  body->name = name;
  try {
    c10::FunctionSchema schema = parse_schema(text);
    name = body->name = schema.name();
    if (all.refused.erase(name))
      std::erase_if(all.errors, [&](const auto& error) { return error.first == name; });
    body->results = schema.returns().size();
    auto& dispatcher = c10::Dispatcher::singleton();
    const auto taken = all.entries.find(name);
    if (taken == all.entries.end() && dispatcher.findSchema({name, ""}))
      fail(ErrorKind::value, name,
           ": is registered already, by other means than tile::op; choose another name");
    if (taken != all.entries.end() && !replace)
      fail(ErrorKind::value, name, ": is registered already, as '", taken->second.op->schema, "' at ",
           taken->second.op->where, "; choose another name, or replace it with tile::redefine");
    auto op = std::make_shared<OperatorRecord>(std::move(schema), body, where);
    all.entries.erase(name);  // unregisters the old one
    std::erase_if(all.errors, [&](const auto& error) { return error.first == name; });
    auto library = make_library(name, where);
    install(*library, op);
    all.entries[name] = {op, std::move(library)};
    ++definition_count;  // once more: a concurrent lookup may have found the old one
    if (const auto told = definition_listener.load()) told();
    return Operator(std::move(op));
  } catch (const Error& error) {
    body->error = error.what();
    body->error_kind = error.kind();
  } catch (const c10::Error& error) {
    body->error = str(name, ": torch refuses the definition: ", error.what_without_backtrace());
  } catch (const std::exception& error) {
    body->error = str(name, ": torch refuses the definition: ", error.what());
  }
  remember(name, where, body->error);
  try {
    install_refusal(body, where);
  } catch (const std::exception&) {  // the name then stays undefined
  }
  if (const auto told = definition_listener.load()) told();
  return Operator(
      std::make_shared<OperatorRecord>(c10::FunctionSchema(name, "", {}, {}, true, true), body, where));
}

AutocastPolicy autocast_policy(const std::string& name, const std::string& policy) {
  if (policy == "keep") return AutocastPolicy::keep;
  if (policy == "lower") return AutocastPolicy::lower;
  if (policy == "fp32") return AutocastPolicy::fp32;
  fail(ErrorKind::value, name, ": autocast: unknown policy '", policy,
       R"('; it is "keep", "lower" or "fp32")");
}

}  // namespace

OperatorRecord::OperatorRecord(c10::FunctionSchema declared, std::shared_ptr<OperatorBody> functions,
                               Location location)
    : name(declared.name()), schema(std::move(declared)), where(location), body(std::move(functions)) {
  arguments = schema.arguments().size();
  results = schema.returns().size();
  for (const c10::Argument& argument : schema.arguments()) {
    mutates |= argument.alias_info() && argument.alias_info()->isWrite();
    kinds.push_back(argument.type()->kind());
    if (type_text(argument).starts_with("Tensor")) tensor_arguments.push_back(kinds.size() - 1);
  }
}

bool is_defined_here(const std::string& name) {
  std::lock_guard lock(registry().mutex);
  return registry().names.contains(name);
}

uint64_t definitions() { return definition_count; }
void set_definition_listener(void (*listener)()) { definition_listener = listener; }
std::string gradient_of(const std::string& name) {
  std::lock_guard lock(registry().mutex);
  const auto found = registry().gradients.find(name);
  return found == registry().gradients.end() ? "" : found->second;
}

// Runs one step of a definition. The first error is stored with the operator.
template <class F>
Operator& Operator::attempt(const F& step) {
  std::lock_guard lock(registry().mutex);
  try {
    if (op_->body->error.empty()) step();
  } catch (const Error& error) {
    op_->body->error = error.what();
    op_->body->error_kind = error.kind();
    remember(op_->body->name, op_->where, error.what());
  } catch (const std::exception& error) {
    op_->body->error = str(op_->body->name, ": torch refuses the definition: ", error.what());
    remember(op_->body->name, op_->where, op_->body->error);
  }
  return *this;
}

Operator& Operator::step(const std::function<void()>& function) { return attempt(function); }
Operator& Operator::set_outputs(BoxedFunction function) {
  return attempt([&] {
    check_parameters(*op_->body, "outputs", function, expected_arguments(op_->schema), false);
    check_results(*op_->body, "outputs", function, expected_results(op_->schema, 0, op_->results));
    op_->body->outputs = std::move(function);
  });
}
Operator& Operator::set_run(BoxedFunction function) {
  return attempt([&] {
    const bool saves = op_->saver && !op_->body->saves_launches;
    const c10::FunctionSchema& schema = saves ? op_->saver->schema : op_->schema;
    check_parameters(*op_->body, "run", function,
                     expected_arguments(schema) + expected_results(schema, 0, schema.returns().size()), true);
    if (!function.results.empty())
      fail(ErrorKind::type, op_->body->name, ": run returns ", join(function.results),
           ", but it fills the results that it is given; return nothing");
    op_->body->run = std::move(function);
  });
}
Operator& Operator::set_saved_outputs(BoxedFunction function) {
  return attempt([&] {
    if (!op_->saver)
      fail(ErrorKind::value, op_->body->name,
           ": saved_outputs comes before saves; call saves(\"Tensor …\") first");
    const c10::FunctionSchema& schema = op_->saver->schema;
    std::vector<Expected> parameters = expected_arguments(schema);
    if (function.parameters.size() > parameters.size())
      parameters = parameters + expected_results(schema, 0, op_->results);
    check_parameters(*op_->body, "saved_outputs", function, parameters, false);
    check_results(*op_->body, "saved_outputs", function,
                  expected_results(schema, op_->results, schema.returns().size()));
    op_->body->saved_outputs = std::move(function);
  });
}
Operator& Operator::grad(std::string name, std::string in_place) {
  return attempt([&] {
    if (op_->mutates)
      fail(ErrorKind::value, op_->body->name,
           ": writes into an argument, so it cannot have a gradient; remove grad(\"", name, "\")");
    if (name.find("::") == std::string::npos)
      fail(ErrorKind::value, op_->body->name, ": grad: '", name, "' has no namespace; write \"",
           op_->name.substr(0, op_->name.find("::")), "::", name, "\"");
    if (!in_place.empty() && (op_->results != 1 || in_place.find("::") == std::string::npos))
      fail(ErrorKind::value, op_->body->name, ": grad: '", in_place,
           "' writes over the gradient of one result; ",
           op_->results != 1 ? "leave it out, as there are several" : "write its namespace, too");
    registry().gradients[name] = op_->name;
    op_->gradient = name;
    op_->body->in_place = std::move(in_place);
    if (op_->saver) op_->saver->gradient = name;
  });
}
namespace {
// The schema of the hidden twin that also returns `saved`.
c10::FunctionSchema saver_schema(const OperatorRecord& op, const std::vector<c10::Argument>& saved) {
  const size_t colons = op.name.find("::") + 2;
  // One underscore: Python changes names that begin with two.
  const bool is_hidden = op.name[colons] == '_';
  const std::string name =
      op.name.substr(0, colons) + (is_hidden ? "" : "_") + op.name.substr(colons) + "_saving";
  std::vector<c10::Argument> returns;
  for (size_t k = 0; k < op.results; ++k) {
    const c10::Argument& result = op.schema.returns()[k];
    returns.emplace_back(result_name(op.schema, k), result.type(), result.real_type(), result.N());
  }
  returns.insert(returns.end(), saved.begin(), saved.end());
  return {name, "", op.schema.arguments(), std::move(returns)};
}
// A gradient operator is seldom differentiated, but would save in each call that may be.
bool is_gradient(const OperatorRecord& op) {
  const auto& results = op.schema.returns();
  return std::all_of(results.begin(), results.end(),
                     [](const c10::Argument& each) { return each.name().starts_with("grad_"); });
}
bool has_lists(const OperatorRecord& op) {
  const auto is_list = [](const c10::Argument& each) {
    const std::string type = type_text(each);
    return type.starts_with("Tensor") && type.find('[') != type.npos;
  };
  const auto &arguments = op.schema.arguments(), &results = op.schema.returns();
  return std::any_of(arguments.begin(), arguments.end(), is_list) ||
         std::any_of(results.begin(), results.end(), is_list);
}
}  // namespace
void Operator::save_launches() {
  const c10::Argument saved("saved_values", c10::ListType::ofTensors());
  op_->body->saved = 1;
  op_->body->chosen_saves = op_->body->saves_launches = true;
  op_->body->saved_outputs.call = [](c10::IValue*, BoxedValues& stack) {
    stack.emplace_back(std::vector<at::Tensor>());
  };
  op_->saver = std::make_shared<OperatorRecord>(saver_schema(*op_, {saved}), op_->body, op_->where);
  op_->saver->saving = true;
  install(*registry().entries.at(op_->name).library, op_->saver, op_->saver);
}
Operator& Operator::grad_by_compiler(std::vector<std::string> constants, bool saves) {
  return attempt([&] {
    if (op_->mutates)
      fail(ErrorKind::value, op_->body->name,
           ": writes into an argument, so it cannot have a gradient; remove grad_by_compiler()");
    check_names(*op_, "grad_by_compiler", constants, {});
    op_->constants = {constants.begin(), constants.end()};
    if (saves && !op_->saver && op_->results && !is_gradient(*op_) && !has_lists(*op_)) save_launches();
    op_->reverse = reverse_record(*op_);
    install(*registry().entries.at(op_->name).library, op_->reverse, op_);
    registry().gradients[op_->reverse->name] = op_->name;
    op_->gradient = op_->reverse->name;
    if (op_->saver) op_->saver->gradient = op_->gradient;
  });
}
namespace {
// Returns the gradients among the saved results.
std::vector<OperatorBody::EarlyGradient> early_gradients(const OperatorRecord& op,
                                                         const std::vector<c10::Argument>& results) {
  constexpr std::string_view tail = "_grad";
  std::vector<OperatorBody::EarlyGradient> early;
  for (size_t k = op.results; k < results.size(); ++k) {
    const std::string_view name = results[k].name();
    if (!name.ends_with(tail)) continue;
    const auto argument = op.schema.argumentIndexWithName(name.substr(0, name.size() - tail.size()));
    if (argument && type_text(op.schema.arguments()[*argument]).starts_with("Tensor") &&
        !type_text(op.schema.arguments()[*argument]).starts_with("Tensor["))
      early.push_back({static_cast<size_t>(*argument), k});
  }
  if (op.results != 1 || early.empty())
    fail(ErrorKind::value, op.body->name, ": saves: has ", op.results, " results and ", early.size(),
         " saved gradients, so there is nothing to scale; save results named \"<argument>_grad\" of an "
         "operator "
         "with one result, or leave out scale");
  return early;
}
}  // namespace
Operator& Operator::saves(std::string results, std::string scale) {
  return attempt([&] {
    if (op_->mutates || op_->body->run)
      fail(ErrorKind::value, op_->body->name,
           op_->mutates
               ? ": saves: writes into an argument, so it has no gradient to save for; remove saves(…)"
               : ": saves comes after run; put it before run, whose parameters it adds to");
    if (op_->body->saves_launches)
      fail(ErrorKind::value, op_->body->name,
           ": saves comes after grad_by_compiler, which has chosen what is saved; put it before");
    const c10::FunctionSchema extra = parse_schema(str(op_->name, "() -> (", results, ")"));
    for (const c10::Argument& result : extra.returns())
      if (result.name().empty())
        fail(ErrorKind::value, op_->body->name, ": saves: a result of '", results,
             "' has no name; write \"Tensor mean, Tensor rstd\"");
    c10::FunctionSchema schema = saver_schema(*op_, extra.returns());
    op_->body->saved = extra.returns().size();
    std::vector<c10::Argument> arguments = op_->schema.arguments();
    if (!scale.empty()) {
      op_->body->early = early_gradients(*op_, schema.returns());
      op_->body->scale = std::move(scale);
      const auto count = static_cast<int32_t>(op_->body->early.size());
      arguments.emplace_back("gradients_wanted", c10::ListType::ofBools(), count,
                             c10::IValue(bools(std::vector<bool>(static_cast<size_t>(count)))),
                             /*kwarg_only=*/true);
    }
    op_->saver = std::make_shared<OperatorRecord>(
        c10::FunctionSchema(schema.name(), "", std::move(arguments), schema.returns()), op_->body,
        op_->where);
    op_->saver->saving = true;
    op_->saver->gradient = op_->gradient;
    op_->saver->vmap = op_->vmap;
    install(*registry().entries.at(op_->name).library, op_->saver);
  });
}
Operator& Operator::chosen_saves(std::string results) {
  saves(std::move(results));
  return attempt([&] {
    op_->body->chosen_saves = true;
    op_->saver->vmap = nullptr;
  });
}
namespace {
template <class Rule>
auto vmap_rule(std::vector<std::string> arguments, std::vector<std::string> sums, Rule rule) {
  return [arguments = std::move(arguments), sums = std::move(sums), rule](VmapCall& call) {
    return !sums.empty() && call.wanted(sums) ? call.loop() : (call.*rule)(arguments);
  };
}
}  // namespace
Operator& Operator::vmap_by(VmapCall::Results (VmapCall::*rule)(const std::vector<std::string>&),
                            std::vector<std::string> arguments, std::vector<std::string> sums) {
  vmap(vmap_rule(arguments, sums, rule));
  return attempt([&] {
    for (const OperatorRecord* op : {op_.get(), op_->saver.get()})
      if (op && op->forward) op->forward->vmap = vmap_rule(with_tangents(*op, arguments), sums, rule);
  });
}
Operator& Operator::leading(std::vector<std::string> arguments, std::vector<std::string> sums) {
  attempt([&] { check_names(*op_, "leading", arguments, sums); });
  return vmap_by(&VmapCall::leading, std::move(arguments), std::move(sums));
}
Operator& Operator::fold(std::vector<std::string> arguments, std::vector<std::string> sums) {
  attempt([&] { check_names(*op_, "fold", arguments, sums); });
  return vmap_by(&VmapCall::fold, std::move(arguments), std::move(sums));
}
Operator& Operator::vmap(std::function<VmapCall::Results(VmapCall&)> rule) {
  return attempt([&] {
    op_->vmap = rule;
    if (op_->saver && !op_->body->chosen_saves) op_->saver->vmap = std::move(rule);
  });
}
std::string Operator::fp32_like(const char* name) {
  const auto twin = c10::Dispatcher::singleton().findSchema({name, ""});
  return twin && twin->hasKernelForDispatchKey(c10::DispatchKey::AutocastCUDA) ? "fp32" : "keep";
}
Operator& Operator::autocast(std::string cpu, std::string cuda) {
  return attempt([&] {
    op_->autocast_cpu = autocast_policy(op_->body->name, cpu);
    op_->autocast_cuda = autocast_policy(op_->body->name, cuda);
  });
}

const std::string& Operator::name() const { return op_->body->name; }
void Operator::check(bool complete) const {
  try {
    if (!op_->body->error.empty()) throw Error(op_->body->error_kind, op_->body->error);
    if (!complete) return;
    require_usable(*op_);
    if (!op_->gradient.empty()) gradient_plan(op_->saver ? *op_->saver : *op_);
  } catch (const Error& error) {
    fail(op_->where, error.kind(), error.what());
  }
}
namespace {

// Returns true if the number and kinds of all values match exactly. Torch's own checks, which take longer,
// are then not needed.
bool fits(const OperatorRecord& op, const BoxedValues& stack) {
  if (stack.size() != op.arguments) return false;
  for (size_t i = 0; i < stack.size(); ++i) {
    const c10::IValue& value = stack[i];
    const c10::TypeKind kind = op.kinds[i];
    if (!(kind == c10::TypeKind::TensorType   ? value.isTensor()
          : kind == c10::TypeKind::IntType    ? value.isInt()
          : kind == c10::TypeKind::SymIntType ? value.isInt()
          : kind == c10::TypeKind::FloatType  ? value.isDouble()
                                              : kind == c10::TypeKind::BoolType && value.isBool()))
      return false;
  }
  return true;
}

}  // namespace
void Operator::call_boxed(BoxedValues& stack) const {
  if (!op_->handle) raise(op_->body->name, op_->body->error_kind, op_->body->error);
  if (!fits(*op_, stack)) {
    const auto& arguments = op_->schema.arguments();
    for (size_t i = 0; i < std::min(stack.size(), arguments.size()); ++i)
      if (const std::string type = stack[i].isInt() ? type_text(arguments[i]) : "";
          type == "float" || type == "float?")
        stack[i] = static_cast<double>(stack[i].toInt());
    op_->schema.checkAndNormalizeInputs<c10::Type>(stack, {});
  }
  op_->handle->callBoxed(stack);
}

Operator op(const std::string& schema, Location where) { return define(schema, where, false); }
Operator redefine(const std::string& schema, Location where) { return define(schema, where, true); }

std::vector<std::string> registration_errors() {
  std::vector<std::string> texts = namespace_scope_errors();
  std::vector<std::shared_ptr<OperatorRecord>> ops;
  {
    std::lock_guard lock(registry().mutex);
    for (const auto& [name, text] : registry().errors) texts.push_back(text);
    for (const auto& [name, entry] : registry().entries)
      if (entry.op->body->error.empty()) ops.push_back(entry.op);
  }
  for (const auto& op : ops) try {
      Operator(op).check();
    } catch (const Error& error) {
      texts.emplace_back(error.what());
    }
  return texts;
}
std::vector<std::string> refused_operators() {
  std::lock_guard lock(registry().mutex);
  std::vector<std::string> names;
  for (const auto& [name, library] : registry().refused) names.push_back(name);
  return names;
}
std::vector<std::string> registered_operators() {
  std::lock_guard lock(registry().mutex);
  std::vector<std::string> schemas;
  for (const auto& [name, entry] : registry().entries) schemas.push_back(tile::str(entry.op->schema));
  return schemas;
}

}  // namespace tile
