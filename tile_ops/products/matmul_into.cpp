// tile::_matmul_into: values of texts over input @ other and further operands, written into given tensors
// from the launch of the product.
#include "../common/overlap.h"
#include "gemm.h"
#include "product_operands.h"

namespace {

using at::Tensor;
using std::optional;
using namespace tile;  // NOLINT: an operator's file is written in the kernel language
using Operands = ProductOperands;
using Sizes = ProductSizes;

// With the products' own arrays they fit in the memory of a GPU kernel's parameters.
constexpr size_t most_tensors = 16, most_outs = 8;

struct Into {
  at::TensorList operands, outs;
  const std::string& epilogue;
  const optional<Tensor>& second;
  const std::string& names;
};

// "x0,x1" and so on.
const std::string& names_by_number(size_t count) {
  static const std::vector<std::string> table = [] {
    std::vector<std::string> all{""};
    for (size_t k = 0; k < most_tensors; ++k) all.push_back(str(all.back(), k ? "," : "", "x", k));
    return all;
  }();
  return table[count];
}

void require_count(const char* name, size_t count, size_t most) {
  if (count > most)
    fail(ErrorKind::value, name, " has ", count, " tensors; the most is ", most,
         ", so compute some of the text elsewhere");
}
bool is_element(at::ScalarType type) {
  return type == at::kBool || at::isIntegralType(type, false) || type == at::kFloat || type == at::kDouble ||
         type == at::kHalf || type == at::kBFloat16;
}
// name: (…) -> its text, which is made for an error alone.
template <class F>
void require_element(const Tensor& tensor, const F& name) {
  if (!is_element(tensor.scalar_type()))
    fail(ErrorKind::type, name(), " is ", dtype_name(tensor.scalar_type()),
         "; it must be bool, an integer, float16, bfloat16, float32 or float64");
}

EpilogueText text_of(const Into& into) {
  require_count("operands", into.operands.size(), most_tensors);
  const std::string& names = into.names.empty() ? names_by_number(into.operands.size()) : into.names;
  const size_t named = names.empty() ? 0 : std::count(names.begin(), names.end(), ',') + 1;
  if (named != into.operands.size())
    fail(ErrorKind::value, "names has ", named, named == 1 ? " name" : " names", ", but operands ",
         into.operands.size(), into.operands.size() == 1 ? " tensor" : " tensors", "; name each of them");
  uint64_t conditions = 0;
  for (size_t k = 0; k < into.operands.size(); ++k)
    if (into.operands[k].scalar_type() == at::kBool) conditions |= uint64_t{1} << k;
  return parsed_epilogue({.text = into.epilogue,
                          .names = names,
                          .several = true,
                          .second = into.second.has_value(),
                          .conditions = conditions});
}

void check(const Operands& of, const Into& into) {
  const Sizes sizes = product_sizes(of.input, of.other);
  if (into.second) {
    require_same_dtype("other", of.other, "second", *into.second);
    if (!into.second->sym_sizes().equals(of.other.sym_sizes()))
      fail(ErrorKind::value, "second has shape ", into.second->sym_sizes(), " and other ",
           of.other.sym_sizes(), "; they must have one shape");
  }
  require_count("outs", into.outs.size(), most_outs);
  const EpilogueText text = text_of(into);
  const size_t before = into.second ? 2 : 1;
  for (size_t k = 0; k < into.operands.size(); ++k) {
    const std::string& name = text->names()[before + k];
    require_element(into.operands[k], [&] { return name; });
    require_fits(name, into.operands[k], sizes);
  }
  if (text->results() != into.outs.size())
    fail(ErrorKind::value, "epilogue '", into.epilogue, "' has ", text->results(),
         text->results() == 1 ? " result" : " results", " and outs ", into.outs.size(),
         into.outs.size() == 1 ? " tensor" : " tensors", "; pass one for each result");
  for (size_t k = 0; k < into.outs.size(); ++k) {
    const Tensor& out = into.outs[k];
    require_element(out, [k] { return str("outs[", k, "]"); });
    if (!out.sym_sizes().equals(sizes))
      fail(ErrorKind::value, "outs[", k, "] has shape ", out.sym_sizes(), " and the product ",
           c10::SymIntArrayRef(sizes), "; they must be alike");
    const bool condition = text->is_condition(k);
    if (condition != (out.scalar_type() == at::kBool))
      fail(ErrorKind::type, "outs[", k, "] is ", dtype_name(out.scalar_type()), ", and its text gives ",
           condition ? "conditions; write float32(c) for 1 and 0" : "numbers; write x != 0 for a bool");
  }
}

// Throws an error if a result overlaps another tensor. An operand may be the same view as a result.
void require_apart(const Operands& of, const Into& into) {
  for (size_t k = 0; k < into.outs.size(); ++k) {
    const Tensor& out = into.outs[k];
    const auto require = [&](const Tensor& other, const auto& name) {
      if (overlap(out, other)) [[unlikely]]
        require_no_overlap(str("outs[", k, "]"), out, name(), other);
    };
    require(of.input, [] { return std::string("input"); });
    require(of.other, [] { return std::string("other"); });
    if (into.second) require(*into.second, [] { return std::string("second"); });
    for (size_t i = 0; i < into.operands.size(); ++i)
      if (!is_same_view(out, into.operands[i]))
        require(into.operands[i], [i] { return str("operands[", i, "]"); });
    for (size_t i = k + 1; i < into.outs.size(); ++i)
      require(into.outs[i], [i] { return str("outs[", i, "]"); });
  }
}

void run(const Operands& of, const Into& into) {
  require_apart(of, into);
  const Matrices as(of.input, of.other);
  ProductExpression expression{.text = text_of(into)};
  for (const Tensor& operand : into.operands) {
    const auto* place = std::find_if(into.outs.begin(), into.outs.end(),
                                     [&](const Tensor& out) { return is_same_view(operand, out); });
    const bool is_result = place != into.outs.end();
    expression.places.push_back(is_result ? static_cast<Place>(place - into.outs.begin()) : elsewhere);
    if (!is_result) expression.tensors.push_back(as.out(operand));
  }
  for (const Tensor& out : into.outs.slice(1)) expression.outs.push_back(as.out(out));
  multiply(as.input(of.input), as.other(of.other), as.out(into.outs[0]),
           {.may_copy = true,
            .other = into.second ? as.other(*into.second) : Tensor(),
            .second = into.second ? Second::factor : Second::none,
            .expression = std::move(expression)});
}

const auto matmul_into =
    op("tile::_matmul_into(Tensor input, Tensor other, Tensor[] operands, Tensor(a!)[] outs, *, str "
       "epilogue, Tensor? second=None, str names=\"\") -> ()")
        .outputs([](const Operands& of, const Into& into) { check(of, into); })
        .run([](const Operands& of, const Into& into) { run(of, into); });

}  // namespace
