// Parses schemas, names their arguments and types, and checks the lambdas of a definition against them.
#include <algorithm>

#include "torch/record.h"

namespace tile {
namespace {

// Torch's message may end inside a multi-byte character, which Python could not decode. This removes the
// incomplete part.
std::string with_whole_characters(std::string_view text) {
  std::string whole;
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const size_t length = byte < 0x80   ? 1
                          : byte < 0xc2 ? 0
                          : byte < 0xe0 ? 2
                          : byte < 0xf0 ? 3
                          : byte < 0xf5 ? 4
                                        : 0;
    size_t there = length ? 1 : 0;
    while (there && there < length && at + there < text.size() &&
           (static_cast<unsigned char>(text[at + there]) & 0xc0) == 0x80)
      ++there;
    const bool complete = length && there == length;
    whole += complete ? text.substr(at, length) : "?";
    at += complete ? length : 1;
  }
  return whole;
}

// Returns torch's message without its position in the text and without its advice.
std::string first_line(std::string_view text) {
  while (!text.empty() && (text.front() == '\n' || text.front() == ' ')) text.remove_prefix(1);
  if (text.find("INTERNAL ASSERT") != std::string_view::npos) return "torch cannot make one of its types";
  text = text.substr(0, std::min(text.find('\n'), text.find(". ")));
  while (!text.empty() && (text.back() == ':' || text.back() == ' ')) text.remove_suffix(1);
  return with_whole_characters(text);
}

// Returns true if torch can parse what it prints. It cannot for some annotations, nested types, and names as
// defaults of numbers.
bool reads_again(const c10::FunctionSchema& schema) {
  const std::string text = tile::str(schema);
  try {
    return tile::str(torch::jit::parseSchema(text, /*allow_typevars=*/false)) == text;
  } catch (const std::exception&) {
    return false;
  }
}

// Returns the C++ parameter to declare for a schema type.
std::string declaration(const std::string& type, bool concrete) {
  if (type == "Tensor") return "const at::Tensor&";
  if (type == "float") return "double";
  if (type == "str") return "const std::string&";
  if (type == "int" || (concrete && type == "SymInt")) return "int64_t";
  if (type == "SymInt") return "c10::SymInt";
  if (type == "ScalarType" || type == "Scalar" || type == "Device") return "at::" + type;
  if (type == "Tensor[]") return "at::TensorList";
  if (type == "Tensor?[]") return "const std::vector<std::optional<at::Tensor>>&";
  if (type == "int[]" || (concrete && type == "SymInt[]")) return "at::IntArrayRef";
  if (type == "SymInt[]") return "c10::SymIntArrayRef";
  if (type == "float[]") return "const std::vector<double>&";
  if (type == "bool[]") return "const std::vector<bool>&";
  if (type.starts_with("bool[")) return "std::array<bool, " + type.substr(5, type.size() - 6) + ">";
  if (type == "Tensor?") return "const std::optional<at::Tensor>&";
  if (type == "SymInt[]?" && !concrete) return "std::optional<std::vector<c10::SymInt>>";
  if (type == "int[]?" || type == "SymInt[]?") return "std::optional<std::vector<int64_t>>";
  if (type == "Tensor[]?") return "std::optional<std::vector<at::Tensor>>";
  if (type == "float[]?") return "std::optional<std::vector<double>>";
  if (type == "str?") return "std::optional<std::string>";
  if (type.ends_with('?'))
    return "std::optional<" + declaration(type.substr(0, type.size() - 1), concrete) + ">";
  return type;
}

bool accepts(const ParameterType& parameter, const Expected& expected, bool concrete) {
  return parameter.schema == expected.type || (concrete && parameter.concrete == expected.type) ||
         (expected.type.starts_with("bool[") && parameter.schema == "bool[]") ||
         (expected.result && expected.type == "Tensor" && parameter.schema == "Tensor?");
}
}  // namespace

std::string result_name(const c10::FunctionSchema& schema, size_t k) {
  const std::string& name = schema.returns()[k].name();
  if (!name.empty()) return name;
  return schema.returns().size() == 1 ? "out" : str("out", k);
}
std::string type_text(const c10::Argument& argument) {
  std::string text = argument.real_type()->str();
  if (text == "bool[]" && argument.N()) text = str("bool[", *argument.N(), "]");
  return text;
}
std::string argument_names(const c10::FunctionSchema& schema) {
  return join(schema.arguments(), ", ", [](const c10::Argument& argument) { return argument.name(); });
}

c10::FunctionSchema parse_schema(const std::string& text) {
  constexpr const char* fix = "; write it as \"ns::name(Tensor input, float scale=1.0) -> Tensor out\"";
  std::optional<c10::FunctionSchema> schema;
  try {
    schema = torch::jit::parseSchema(text, /*allow_typevars=*/false);
  } catch (const c10::Error& error) {
    fail(ErrorKind::value, "op: the schema '", text,
         "' does not parse: ", first_line(error.what_without_backtrace()), fix);
  } catch (const std::out_of_range&) {  // thrown by std::stoll, which torch does not catch
    fail(ErrorKind::value, "op: the schema '", text, "' does not parse: a number is too large", fix);
  } catch (const std::invalid_argument&) {  // thrown by std::stod
    fail(ErrorKind::value, "op: the schema '", text,
         "' does not parse: a default is not a number of its type", fix);
  } catch (const std::exception& error) {
    fail(ErrorKind::value, "op: the schema '", text, "' does not parse: ", first_line(error.what()), fix);
  }
  if (schema->name().find("::") == std::string::npos)
    fail(ErrorKind::value, "op: the schema '", text, "' has no namespace", fix);
  if (!schema->overload_name().empty())
    fail(ErrorKind::value, schema->name(), ": has the overload name '", schema->overload_name(),
         "', which is not supported; give each operator a name of its own");
  bool writes = false;
  for (const c10::Argument& argument : schema->arguments()) {
    writes |= argument.alias_info() && argument.alias_info()->isWrite();
    if (argument.N() && *argument.N() < 0)  // torch truncates it to 32 bits
      fail(ErrorKind::value, schema->name(), ": the fixed length of '", argument.name(),
           "' is beyond 32 bits; write a smaller one, or []");
  }
  if (!reads_again(*schema))
    fail(ErrorKind::value, schema->name(),
         ": torch does not read back how it prints this schema; write plain types, as Tensor[]? and "
         "Tensor(a!)[], and defaults of their own type");
  if (writes && !schema->returns().empty())
    fail(ErrorKind::value, schema->name(), ": writes into an argument and has ", schema->returns().size(),
         " results; an operator that writes returns ()");
  for (size_t k = 0; k < schema->returns().size(); ++k)
    if (const std::string type = type_text(schema->returns()[k]); type != "Tensor" && type != "Tensor[]")
      fail(ErrorKind::type, schema->name(), ": result '", result_name(*schema, k), "' is ", type,
           "; results are Tensor or Tensor[]");
  return *std::move(schema);
}

void check_parameters(const OperatorBody& body, const char* what, const BoxedFunction& function,
                      const std::vector<Expected>& expected, bool concrete) {
  if (!function.typed) return;
  const auto declare = [&](const Expected& one) {
    return str(one.result && one.type == "Tensor" ? "at::Tensor&" : declaration(one.type, concrete), " ",
               one.name);
  };
  if (function.parameters.size() != expected.size())
    fail(ErrorKind::type, body.name, ": ", what, " takes ", function.parameters.size(),
         " parameters, but the schema gives it ", expected.size(), "; declare it (",
         join(expected, ", ", declare), ")");
  for (size_t i = 0; i < expected.size(); ++i)
    if (!accepts(function.parameters[i], expected[i], concrete))
      fail(ErrorKind::type, body.name, ": ", what, " takes ", function.parameters[i].cpp, " as parameter ",
           i + 1, ", but '", expected[i].name, "' is ", expected[i].type, " in the schema; declare it ",
           declare(expected[i]));
}
void check_results(const OperatorBody& body, const char* what, BoxedFunction& function,
                   const std::vector<Expected>& expected) {
  if (expected.size() == 1 && expected[0].type == "Tensor[]")
    function.any_number = false;  // the vector is the result
  if (!function.typed || function.any_number) return;
  const auto types = [](const auto& list) { return list.empty() ? std::string("nothing") : join(list); };
  std::vector<std::string> wanted;
  for (const Expected& one : expected) wanted.push_back(one.type);
  if (function.results != wanted)
    fail(ErrorKind::type, body.name, ": ", what, " returns ", types(function.results),
         ", but the schema says ", types(wanted),
         "; return them in that order, more than one in a std::tuple");
}

std::vector<Expected> expected_arguments(const c10::FunctionSchema& schema) {
  std::vector<Expected> list;
  for (const c10::Argument& argument : schema.arguments())
    list.push_back({argument.name(), type_text(argument), false});
  return list;
}
std::vector<Expected> expected_results(const c10::FunctionSchema& schema, size_t from, size_t to) {
  std::vector<Expected> list;
  for (size_t k = from; k < to; ++k)
    list.push_back({result_name(schema, k), type_text(schema.returns()[k]), true});
  return list;
}
std::vector<Expected> operator+(std::vector<Expected> a, const std::vector<Expected>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void check_names(const OperatorRecord& op, const char* what, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& sums) {
  for (const std::string& argument : arguments)
    if (!op.schema.argumentIndexWithName(argument))
      fail(ErrorKind::value, op.body->name, ": ", what, ": '", argument, "' is not an argument; they are ",
           argument_names(op.schema));
  for (const std::string& sum : sums) {
    bool found = false;
    std::vector<std::string> names;
    for (size_t k = 0; k < op.results; ++k) {
      names.push_back(result_name(op.schema, k));
      found |= names.back() == sum;
    }
    if (!found)
      fail(ErrorKind::value, op.body->name, ": ", what, ": '", sum, "' is not a result; they are ",
           join(names));
  }
}

namespace {

// Returns the arguments that a result "grad_a" or "grad_a_and_b" is the gradient of, or nothing for other
// names.
std::vector<size_t> slots_of(const OperatorRecord& op, const std::string& name) {
  constexpr std::string_view head = "grad_", joint = "_and_";
  if (!name.starts_with(head)) return {};
  const auto slot = [&](std::string_view argument) {
    const auto i = op.schema.argumentIndexWithName(argument);
    return i && type_text(op.schema.arguments()[*i]).starts_with("Tensor") ? i : std::nullopt;
  };
  std::string_view rest = std::string_view(name).substr(head.size());
  if (const auto i = slot(rest)) return {static_cast<size_t>(*i)};
  std::vector<size_t> slots;
  while (true) {
    const size_t end = std::min(rest.find(joint), rest.size());
    const auto i = slot(rest.substr(0, end));
    if (!i) return {};
    slots.push_back(static_cast<size_t>(*i));
    if (end == rest.size()) return slots;
    rest.remove_prefix(end + joint.size());
  }
}

std::shared_ptr<const GradientPlan> match(const OperatorRecord& op) {
  auto plan = std::make_shared<GradientPlan>();
  plan->made = definitions();
  plan->name = op.gradient;
  const std::string& forward = op.body->name;
  const auto handle = c10::Dispatcher::singleton().findSchema({op.gradient, ""});
  if (!handle)
    fail(ErrorKind::runtime, forward, ": its gradient operator ", op.gradient,
         " is not registered; define it with tile::op(\"", op.gradient, "(…) -> …\")");
  const c10::FunctionSchema& schema = handle->schema();
  const auto mismatch = [&](const auto&... parts) { fail(ErrorKind::type, op.gradient, ": ", parts...); };
  std::vector<std::string> known;
  for (size_t k = 0; k < op.results; ++k) known.push_back("grad_" + result_name(op.schema, k));
  for (const c10::Argument& argument : op.schema.arguments()) known.push_back(argument.name());
  for (size_t k = 0; k < op.results; ++k) known.push_back(result_name(op.schema, k));

  const auto incoming_count =
      std::count_if(schema.arguments().begin(), schema.arguments().end(), [&](const c10::Argument& argument) {
        return std::find(known.begin(), known.begin() + op.results, argument.name()) !=
               known.begin() + op.results;
      });
  for (const c10::Argument& argument : schema.arguments()) {
    const std::string &name = argument.name(), type = type_text(argument);
    std::optional<GradientPlan::Input> input;
    std::string source;  // the type of that value
    // Tested first: an operator that is itself a gradient has an argument of that name, which is a different
    // mask.
    if (name == "output_mask") {
      input = {GradientPlan::Role::mask, 0};
      source = str("bool[", schema.returns().size(), "]");
    }
    for (size_t i = 0; i < op.arguments && !input; ++i)
      if (op.schema.arguments()[i].name() == name) {
        input = {GradientPlan::Role::argument, i};
        source = type_text(op.schema.arguments()[i]);
      }
    for (size_t k = 0; k < op.results && !input; ++k) {
      const std::string result = result_name(op.schema, k);
      source = type_text(op.schema.returns()[k]);
      if (result == name) input = {GradientPlan::Role::result, k};
      if ("grad_" + result == name) {
        input = {GradientPlan::Role::gradient, k};
        source = source == "Tensor[]" ? "Tensor?[]" : "Tensor?";
      }
    }
    if (!input)
      mismatch("argument '", name, "' is nothing of ", forward, "; the names it can have are ", join(known),
               ", output_mask");
    // A single incoming gradient is always defined.
    const bool only = input->role == GradientPlan::Role::gradient && type == "Tensor" && incoming_count == 1;
    if (type != source && type != source + "?" && !only)
      mismatch("argument '", name, "' is ", type, ", but ", forward, " gives it ", source, "; write '",
               source, " ", name, "'");
    plan->inputs.push_back(*input);
  }
  std::vector<std::string> names;
  for (const c10::Argument& argument : op.schema.arguments())
    if (type_text(argument).starts_with("Tensor")) names.push_back("grad_" + argument.name());
  if (names.size() > 1) names.push_back(names[0] + "_and_" + names[1].substr(5) + " and the like");
  std::vector<std::string> result_of(op.arguments);
  for (size_t k = 0; k < schema.returns().size(); ++k) {
    const std::string name = result_name(schema, k);
    plan->slots.push_back(slots_of(op, name));
    if (plan->slots.back().empty())
      mismatch("result '", name, "' is not a gradient of ", forward, "; the names it can have are ",
               join(names));
    for (const size_t slot : plan->slots.back()) {
      if (!result_of[slot].empty())
        mismatch("results '", result_of[slot], "' and '", name, "' are both the gradient of '",
                 op.schema.arguments()[slot].name(), "'; name it in one of them, once");
      result_of[slot] = name;
    }
  }
  return plan;
}

}  // namespace

std::shared_ptr<const GradientPlan> gradient_plan(OperatorRecord& op) {
  std::lock_guard lock(op.plan_mutex);
  if (!op.plan || op.plan->made != definitions()) op.plan = match(op);
  return op.plan;
}

}  // namespace tile
