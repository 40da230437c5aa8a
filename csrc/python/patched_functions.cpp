// Products and attention of patched modules: each is one call from Python, computed by our operator or
// torch's.
#include <ATen/ops/addmm.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>

#include <string_view>

#include "python/plain_call.h"

namespace tile::python {
namespace {

// Bounds of products that are ours, as in python/tile_ops/_products.py.
struct Limits {
  int64_t least_rows, most_rows, depth, columns, weights;
  bool trains;
  int64_t most_columns;
};
// The limits for a device, a dtype and a kind of product, which Python has told.
struct KnownLimits {
  at::Device device;
  at::ScalarType dtype;
  std::string kind;  // of _products.py: "plain", "fused" or "pair"
  std::vector<Limits> limits;
};
std::vector<KnownLimits> known;
PyObject* limits_function = nullptr;  // limits(device as text, dtype, kind)
int64_t least_weights = 0;            // products with fewer are torch's

PyObject *weight_name = nullptr, *bias_name = nullptr;

std::string_view text_of(PyObject* value) {
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, &size) : nullptr;
  if (!text) PyErr_Clear();
  return {text ? text : "", static_cast<size_t>(size)};
}

// Appends what Python says. Returns null with an error set.
const KnownLimits* ask_limits(at::Device device, at::ScalarType dtype, std::string_view kind) {
  KnownLimits made{device, dtype, std::string(kind), {}};
  const Owned type(python_dtype(static_cast<int64_t>(dtype)));
  const Owned rows(
      PyObject_CallFunction(limits_function, "sOs", device.str().c_str(), type.get(), made.kind.c_str()));
  if (!rows) return nullptr;
  if (!PyTuple_Check(rows.get())) {
    PyErr_SetString(PyExc_TypeError, "limits of products are no tuple");
    return nullptr;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows.get()); ++i) {
    long long least, most, depth, columns, weights, most_columns;
    int trains;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(rows.get(), i), "(LL)LLLpL", &least, &most, &depth, &columns,
                          &weights, &trains, &most_columns))
      return nullptr;
    made.limits.push_back({least, most, depth, columns, weights, trains != 0, most_columns});
  }
  known.push_back(std::move(made));
  return &known.back();
}
const KnownLimits* limits_of(at::Device device, at::ScalarType dtype, std::string_view kind) {
  for (const KnownLimits& each : known)
    if (each.device == device && each.dtype == dtype && each.kind == kind) return &each;
  return ask_limits(device, dtype, kind);
}

// A layer's product, activation(input @ weight + bias), where weight is [depth, columns].
struct Product {
  at::Tensor input, weight, bias;
  int64_t depth = 0, columns = 0;
  std::string_view activation;
  PyObject* activation_text = nullptr;
  bool trains() const {
    return at::GradMode::is_enabled() && (weight.requires_grad() || input.requires_grad());
  }
};

enum class Choice { ours, torchs, unknown };

// Returns which operators compute the product; unknown with an error set, or where Python has to decide.
Choice choice(const Product& product, std::string_view kind, std::string_view products) {
  if (products == "tile") return Choice::ours;
  if (products != "measured") return products == "torch" ? Choice::torchs : Choice::unknown;
  if (product.depth * product.columns < least_weights) return Choice::torchs;
  const at::Device device = product.input.device();
  at::ScalarType dtype = product.input.scalar_type();
  if (dtype == at::kFloat && is_autocast_enabled(device.type())) dtype = autocast_dtype(device.type());
  const KnownLimits* const found = limits_of(device, dtype, kind);
  if (!found) return Choice::unknown;
  if (found->limits.empty()) return Choice::torchs;
  const int64_t rows = product.input.numel() / product.depth;
  for (const Limits& each : found->limits)
    if (rows >= each.least_rows && rows <= each.most_rows && product.depth >= each.depth &&
        product.columns >= each.columns && product.columns <= each.most_columns &&
        product.depth * product.columns >= each.weights && (each.trains || !product.trains()))
      return Choice::ours;
  return Choice::torchs;
}

// Returns an undefined tensor for an unknown activation.
at::Tensor activated(const at::Tensor& value, std::string_view activation) {
  if (activation == "none") return value;
  if (activation == "gelu") return at::gelu(value, "none");
  if (activation == "gelu_tanh") return at::gelu(value, "tanh");
  if (activation == "silu") return at::silu(value);
  if (activation == "relu") return at::relu(value);
  return {};
}

bool has_plain_sizes(const at::Tensor& tensor) {
  return !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

// Reads the product of a call (module, input, activation, products). Returns false if Python has to make it,
// with an error set if there is one.
bool read(PyObject* const* given, bool transposed, Product& product) {
  const at::Tensor* const input = plain_tensor(given[1]);
  if (!input) return false;
  const Attributes attributes(given[0]);
  const Owned weight_value = attributes[weight_name];
  const Owned bias_value = weight_value ? attributes[bias_name] : nullptr;
  if (!bias_value) return false;
  const at::Tensor* const weight = plain_tensor(weight_value.get());
  const at::Tensor* const bias = bias_value.get() == Py_None ? nullptr : plain_tensor(bias_value.get());
  if (!weight || (!bias && bias_value.get() != Py_None) || weight->dim() != 2) return false;
  if (!has_plain_sizes(*input) || !has_plain_sizes(*weight)) return false;
  product.input = *input;
  product.weight = *weight;
  if (bias) product.bias = *bias;
  product.depth = weight->size(transposed ? 0 : 1);
  product.columns = weight->size(transposed ? 1 : 0);
  product.activation_text = given[2];
  product.activation = text_of(given[2]);
  return product.depth != 0;
}

// The product as torch's layer computes it, transformers' Conv1D where the weight is [depth, columns].
// Returns an undefined tensor if that layer may compute it in another way.
at::Tensor torchs(const Product& product, bool transposed) {
  if (!transposed) return at::linear(product.input, product.weight, product.bias);
  const at::Tensor& input = product.input;
  if (input.dim() < 1 || input.size(-1) != product.depth || !input.is_contiguous() || !product.bias.defined())
    return {};
  std::vector<int64_t> sizes = input.sizes().vec();
  sizes.back() = product.columns;
  return at::addmm(product.bias, input.view({-1, product.depth}), product.weight).view(sizes);
}

CurrentPlan matmul_plan;

PyObject* ours(const Product& product, bool transposed) {
  Taken taken;
  for (const at::Tensor* each : {&product.input, &product.weight, &product.bias}) taken.add(*each);
  static const std::string name = "tile::matmul";
  const Plan* const plan = matmul_plan.of(name);
  const bool floating = at::isFloatingType(product.input.scalar_type()) &&
                        at::isFloatingType(product.weight.scalar_type()) &&
                        (!product.bias.defined() || at::isFloatingType(product.bias.scalar_type()));
  if (!plan || !floating || !taken || (product.bias.defined() && product.bias.dim() != 1))
    return left_to_python();
  BoxedValues stack;
  stack.reserve(plan->parameters.size() + plan->results);
  stack.emplace_back(product.input);
  stack.emplace_back(transposed ? product.weight : product.weight.t());
  stack.push_back(product.bias.defined() ? c10::IValue(product.bias) : c10::IValue());
  if (plan->parameters.size() < 4 || !push(plan->parameters[3], product.activation_text, stack))
    return left_to_python();
  for (size_t i = 4; i < plan->parameters.size(); ++i) {
    if (!plan->parameters[i].standard) return left_to_python();
    stack.push_back(*plan->parameters[i].standard);
  }
  return or_left_to_python([&] { return call_dispatcher(*plan, stack); });
}

PyObject* product_of(PyObject* const* given, Py_ssize_t count, bool transposed) {
  HANDLE_TH_ERRORS
  if (count != 4) {
    PyErr_SetString(PyExc_TypeError,
                    "a product takes a module, its input, an activation and patch's products");
    return nullptr;
  }
  Product product;
  if (is_seen_by_python()) return left_to_python();
  if (!read(given, transposed, product)) return PyErr_Occurred() ? nullptr : left_to_python();
  switch (choice(product, product.activation == "none" ? "plain" : "fused", text_of(given[3]))) {
    case Choice::unknown:
      return PyErr_Occurred() ? nullptr : left_to_python();
    case Choice::ours:
      return ours(product, transposed);
    case Choice::torchs:
      break;
  }
  if (!transposed && product.columns % 8 != 0) return left_to_python();  // which may be padded
  at::Tensor result;
  {
    const Released released(true);
    result = torchs(product, transposed);
    if (result.defined()) result = activated(result, product.activation);
  }
  return result.defined() ? python_tensor(std::move(result)) : left_to_python();
  END_HANDLE_TH_ERRORS
}

PyObject* linear(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return product_of(given, count, false);
}
PyObject* transposed_linear(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return product_of(given, count, true);
}

PyObject* is_ours(PyObject*, PyObject* const* given, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  if (count != 4) {
    PyErr_SetString(PyExc_TypeError,
                    "a choice takes a module, its input, a kind of product and patch's products");
    return nullptr;
  }
  Product product;
  if (is_seen_by_python()) return left_to_python();
  if (!read(given, false, product)) return PyErr_Occurred() ? nullptr : left_to_python();
  const Choice found = choice(product, text_of(given[2]), text_of(given[3]));
  if (found == Choice::unknown) return PyErr_Occurred() ? nullptr : left_to_python();
  return PyBool_FromLong(found == Choice::ours);
  END_HANDLE_TH_ERRORS
}

// products_by(limits, least): limits(device, dtype, kind) returns rows ((least, most), depth, columns,
// weights, trains, most columns); products with fewer weights than `least` are torch's.
PyObject* products_by(PyObject*, PyObject* arguments) {
  PyObject* function;
  long long least;
  if (!PyArg_ParseTuple(arguments, "OL", &function, &least)) return nullptr;
  Py_XSETREF(limits_function, Py_NewRef(function));
  least_weights = least;
  known.clear();
  Py_RETURN_NONE;
}

CurrentPlan attention_plan;

// attention(query, key, value, attn_mask, is_causal, scale, enable_gqa): all have four dimensions.
PyObject* attention(PyObject*, PyObject* const* given, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  if (count != 7) {
    PyErr_SetString(PyExc_TypeError, "attention takes seven arguments");
    return nullptr;
  }
  if (is_seen_by_python()) return left_to_python();
  const at::Tensor* tensors[3];
  Taken taken;
  for (int i = 0; i < 3; ++i) {
    tensors[i] = plain_tensor(given[i]);
    if (!tensors[i] || tensors[i]->dim() != 4 || !at::isFloatingType(tensors[i]->scalar_type()) ||
        !has_plain_sizes(*tensors[i]))
      return left_to_python();
    taken.add(*tensors[i]);
  }
  const auto& [query, key, value] = tensors;
  const bool grouped = given[6] == Py_True;
  if (!taken || query->size(3) > 256 || value->size(3) > 256 || (!grouped && given[6] != Py_False) ||
      !PyBool_Check(given[4]))
    return left_to_python();
  for (int axis = 0; axis < (grouped ? 1 : 2); ++axis)
    if (query->size(axis) != key->size(axis) || query->size(axis) != value->size(axis))
      return left_to_python();
  at::Tensor mask;
  if (given[3] != Py_None) {
    const at::Tensor* const found = plain_tensor(given[3]);
    if (!found || given[4] == Py_True || found->dim() != 4 || found->layout() != at::kStrided ||
        found->device() != query->device() ||
        (found->scalar_type() != at::kBool && found->scalar_type() != query->scalar_type()))
      return left_to_python();
    mask = *found;
  }
  if (given[5] != Py_None && !PyFloat_CheckExact(given[5])) return left_to_python();
  static const std::string name = "tile::attention";
  const Plan* const plan = attention_plan.of(name);
  if (!plan || plan->parameters.size() < 7) return left_to_python();
  static const c10::IValue top_left(std::string("top_left"));
  BoxedValues stack;
  stack.reserve(plan->parameters.size() + plan->results);
  for (const at::Tensor* each : tensors) stack.emplace_back(*each);
  stack.push_back(mask.defined() ? c10::IValue(mask) : c10::IValue());
  stack.emplace_back(given[4] == Py_True);
  stack.push_back(top_left);
  stack.push_back(given[5] == Py_None ? c10::IValue() : c10::IValue(PyFloat_AS_DOUBLE(given[5])));
  for (size_t i = 7; i < plan->parameters.size(); ++i) {
    if (!plan->parameters[i].standard) return left_to_python();
    stack.push_back(*plan->parameters[i].standard);
  }
  return or_left_to_python([&]() -> PyObject* {
    const Owned results(call_dispatcher(*plan, stack));
    if (!results || !PyTuple_Check(results.get()) || PyTuple_GET_SIZE(results.get()) == 0) return nullptr;
    return Py_NewRef(PyTuple_GET_ITEM(results.get(), 0));
  });
  END_HANDLE_TH_ERRORS
}

template <PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)>
constexpr PyMethodDef fast(const char* name, const char* doc) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)), METH_FASTCALL, doc};
}

PyMethodDef methods[] = {
    fast<linear>(
        "patched_linear",
        "patched_linear(module, input, activation, products): the product of a Linear, or NotImplemented "
        "where Python has to make the call."),
    fast<transposed_linear>(
        "patched_transposed_linear",
        "patched_transposed_linear(module, input, activation, products): the same of a layer "
        "whose weight is [in, out]."),
    fast<is_ours>(
        "is_product_ours",
        "is_product_ours(module, input, kind, products): whether the product of a Linear is ours, or "
        "NotImplemented."),
    fast<attention>(
        "patched_attention",
        "patched_attention(query, key, value, attn_mask, is_causal, scale, enable_gqa): attention as "
        "torch's function computes it, or NotImplemented."),
    {"products_by", guarded<products_by>, METH_VARARGS,
     "products_by(limits, least): the function that knows which products are ours."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_patched_functions(PyObject* module) {
  weight_name = PyUnicode_InternFromString("weight");
  bias_name = PyUnicode_InternFromString("bias");
  if (!weight_name || !bias_name) return -1;
  return PyModule_AddFunctions(module, methods);
}

}  // namespace tile::python
