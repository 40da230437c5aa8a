// tile::matmul_epilogue: a text over input @ other and further operands, computed where the product is, and
// its gradient.
#include <map>

#include "../common/chunks.h"
#include "../common/derivation.h"
#include "../common/tuning.h"
#include "gemm.h"
#include "product_operands.h"
#include "recorded_product.h"
#include "tile/expression_text.h"
#include "tile/matmul.h"

namespace {

using at::Tensor;
using std::optional;
using namespace tile;  // NOLINT: an operator's file is written in the kernel language
using Operands = ProductOperands;
constexpr size_t most_operands = 6;
using Sizes = ProductSizes;

struct EpilogueTensors {
  const optional<Tensor>&operand0, &operand1, &operand2, &operand3, &operand4, &operand5;
  std::array<const optional<Tensor>*, most_operands> given() const {
    return {&operand0, &operand1, &operand2, &operand3, &operand4, &operand5};
  }
  std::array<Tensor, most_operands> all() const {
    return {defined(operand0), defined(operand1), defined(operand2),
            defined(operand3), defined(operand4), defined(operand5)};
  }
};
struct EpilogueArguments {
  const std::string& epilogue;
  EpilogueTensors tensors;
  std::vector<double> numbers;
  const std::string& names;
};

// The parsed text, after everything that an epilogue must be holds for a result of these extents.
EpilogueText checked_epilogue(const EpilogueArguments& of, const Sizes& sizes) {
  const std::array<const optional<Tensor>*, most_operands> tensors = of.tensors.given();
  const auto count = static_cast<size_t>(
      std::count_if(tensors.begin(), tensors.end(), [](const auto* tensor) { return tensor->has_value(); }));
  for (size_t k = 0; k < count; ++k)
    if (!*tensors[k])
      fail(ErrorKind::value, "operand", k, " is not given, but one after it is; give them in order");
  if (of.numbers.size() > most_operands)
    fail(ErrorKind::value, "numbers has ", of.numbers.size(), " numbers; the most is ", most_operands);
  const auto commas = static_cast<size_t>(std::count(of.names.begin(), of.names.end(), ','));
  if (const size_t names = of.names.empty() ? 0 : commas + 1; names != count + of.numbers.size())
    fail(ErrorKind::value, "names has ", names, names == 1 ? " name" : " names", ", but ", count,
         count == 1 ? " tensor and " : " tensors and ", of.numbers.size(),
         of.numbers.size() == 1 ? " number are" : " numbers are", " given; name each of them");
  EpilogueText text = parsed_epilogue({of.epilogue, of.names});
  for (size_t k = 0; k < count; ++k) require_broadcasts(text->names()[k + 1].c_str(), *tensors[k], sizes);
  return text;
}

const auto matmul_epilogue =
    op("tile::matmul_epilogue(Tensor input, Tensor other, str epilogue, *, Tensor? operand0=None, Tensor? "
       "operand1=None, Tensor? operand2=None, Tensor? operand3=None, Tensor? operand4=None, Tensor? "
       "operand5=None, float[] numbers=[], str names=\"\") -> Tensor out")
        .outputs([](const Operands& of, const EpilogueArguments& then) {
          const Sizes sizes = product_sizes(of.input, of.other);
          checked_epilogue(then, sizes);
          return at::empty_symint(sizes, of.input.options());
        })
        .saves("Tensor pre")
        .saved_outputs([](const Operands& of, const EpilogueArguments& then) {
          const Sizes sizes = product_sizes(of.input, of.other);
          const bool read = checked_epilogue(then, sizes)->derivatives_read(0);
          return read ? at::empty_symint(sizes, of.input.options()) : Tensor();
        })
        .run([](const Operands& of, const EpilogueArguments& then, Tensor& out, Tensor& pre) {
          const Matrices as(of.input, of.other);
          ProductExpression expression{.text = parsed_epilogue({then.epilogue, then.names}),
                                       .numbers = then.numbers};
          for (const Tensor& tensor : then.tensors.all())
            if (tensor.defined()) expression.tensors.push_back(as.out(tensor));
          expression.places.assign(expression.tensors.size(), elsewhere);
          multiply(as.input(of.input), as.other(of.other), as.out(out),
                   {.pre = as.out(pre), .may_copy = true, .expression = std::move(expression)});
        })
        .grad("tile::matmul_epilogue_backward")
        .vmap([](VmapCall& call) {
          return batched_product(
              call,
              {"input", "other", "operand0", "operand1", "operand2", "operand3", "operand4", "operand5"},
              {""});
        })
        .autocast("lower");

ExpressionKernel epilogue_gradient("matmul_epilogue_gradient", Location::current());

// The arguments of a kernel that computes gradients of an epilogue's values. Value 0 is acc, the others are
// the tensors.
struct EpilogueGradient {
  EpilogueText text;
  const EpilogueArguments& of;
  DType compute;
  size_t tensors;
  uint64_t wanted;  // bits of the values
  bool pre;         // acc is given

  // gradients: of the wanted values, of one shape. given: grad_out, acc where it is given, and the tensors,
  // which broadcast to that shape.
  void run(const std::vector<Tensor>& gradients, const std::vector<Tensor>& given) const {
    const at::IntArrayRef shape = gradients.front().sizes();
    ElementArrays arrays;
    for (const Tensor& each : gradients) arrays.push_back(at::to_array_argument(each));
    for (const Tensor& each : given) arrays.push_back(broadcast_array(each, shape));
    std::vector<ScalarArgument> numbers;
    for (const double number : of.numbers) numbers.push_back(scalar_argument(number));
    launch_elements({epilogue_gradient,
                     [&](LaunchKey& key) {
                       key_words(key, text);
                       key.add(wanted << 1 | static_cast<uint64_t>(pre));
                     },
                     [&](std::vector<ArgumentRef>& passed) {
                       for (const ScalarArgument& number : numbers) passed.emplace_back(number);
                     },
                     [&](Tracer& tracer, const std::vector<Array>& all, ElementTile tile) {
                       trace(tracer, all, gradients.size(), tile);
                     }},
                    arrays);
  }

 private:
  void trace(Tracer& tracer, const std::vector<Array>& all, size_t gradients, ElementTile tile) const {
    const auto load = [&](size_t k) { return load_element_tile(all[k], tile).astype(compute); };
    std::vector<Tile> numbers;
    for (size_t k = 0; k < of.numbers.size(); ++k)
      numbers.emplace_back(detail::add_scalar_parameter(tracer, f64));
    std::map<size_t, Tile> values;
    const Tile result = (*text.parsed)(compute, [&](size_t name) {
                          if (name > tensors) return numbers[name - tensors - 1].astype(compute);
                          // Where no derivative reads acc, any value of it gives them.
                          const Tile value = name == 0 && !pre ? full({tile.rows, tile.columns}, 0, compute)
                                                               : load(gradients + pre + name);
                          values.emplace(name, value);
                          return value;
                        }).broadcast_to({tile.rows, tile.columns});
    const Tile incoming = load(gradients);
    std::vector<Tile> inputs;
    for (size_t k = 0; k <= tensors; ++k)
      if (wanted >> k & 1) inputs.push_back(values.at(k));
    const std::vector<optional<Tile>> found = derivatives({result}, {incoming}, inputs);
    for (size_t k = 0; k < found.size(); ++k)
      store_element_tile(all[k], tile, found[k] ? *found[k] : full({tile.rows, tile.columns}, 0, compute));
  }
};

struct EpilogueGradients {
  const Tensor &input, &other, &operand0, &operand1, &operand2, &operand3, &operand4, &operand5;
  std::array<Tensor, most_operands> operands() const {
    return {operand0, operand1, operand2, operand3, operand4, operand5};
  }
};

// Computes the gradients of acc and of the tensors in one launch, then the products and the sums over what
// was broadcast. What is not a gradient itself is made in chunks.
void run_epilogue_gradients(const Tensor& grad_out, const Operands& of, const EpilogueArguments& then,
                            const optional<Tensor>& pre, const EpilogueGradients& grads) {
  const auto& [input, other] = of;
  const Matrices as(input, other);
  const Tensor x = as.input(input), y = as.other(other), incoming = as.out(grad_out);
  Tensor before = as.out(defined(pre));
  if (before.defined() && is_recorded()) before = product_again(before, x, y);
  const at::IntArrayRef whole = incoming.sizes();
  const std::array<Tensor, most_operands> tensors = then.tensors.all(), gradients_of = grads.operands();
  const at::ScalarType compute = compute_dtype(input.scalar_type());
  EpilogueGradient kernel{
      parsed_epilogue({then.epilogue, then.names}), then, to_dtype(compute), 0, 0, before.defined()};

  struct Part {
    Tensor gradient;  // of the whole's shape: written by the kernel; otherwise a sum
    Tensor values;    // of a chunk
    at::ScalarType dtype;
  };
  std::vector<Part> parts;
  parts.reserve(most_operands + 1);
  std::vector<Tensor> operands;
  std::vector<ChunkGradient> sums;
  // The gradient of x in acc + x is that of acc, of which it is a sum.
  const auto as_acc = [&](size_t tensor, const Tensor& gradient) {
    return gradient.defined() && !gradient.sizes().equals(whole) &&
           kernel.text->one_derivative(0, tensor + 1);
  };
  bool of_acc = grads.input.defined() || grads.other.defined();
  for (size_t k = 0; k < most_operands; ++k) of_acc |= as_acc(k, as.out(gradients_of[k]));
  if (of_acc) {
    kernel.wanted |= 1;
    parts.push_back({Tensor(), Tensor(), input.scalar_type()});
  }
  if (grads.input.defined())
    sums.push_back({as.input(grads.input), -1, [&](const Chunk& chunk, const Tensor& out, bool accumulate) {
                      multiply(parts[0].values, transposed(chunk.of(y, whole, -2)), out,
                               {.accumulate = accumulate});
                    }});
  if (grads.other.defined())
    sums.push_back({as.other(grads.other), -2, [&](const Chunk& chunk, const Tensor& out, bool accumulate) {
                      multiply(transposed(chunk.of(x, whole, -1)), parts[0].values, out,
                               {.accumulate = accumulate});
                    }});
  for (; kernel.tensors < most_operands && tensors[kernel.tensors].defined(); ++kernel.tensors) {
    operands.push_back(as.out(tensors[kernel.tensors]));
    const Tensor gradient = as.out(gradients_of[kernel.tensors]);
    if (!gradient.defined()) continue;
    if (as_acc(kernel.tensors, gradient)) {
      sums.push_back({gradient, 0, [&](const Chunk&, const Tensor& out, bool accumulate) {
                        sum_to(parts[0].values, out, accumulate);
                      }});
      continue;
    }
    kernel.wanted |= uint64_t{2} << kernel.tensors;
    const size_t part = parts.size();
    if (gradient.sizes().equals(whole)) {
      parts.push_back({gradient, Tensor(), gradient.scalar_type()});
      continue;
    }
    parts.push_back({Tensor(), Tensor(), compute});
    sums.push_back({gradient, 0, [&, part](const Chunk&, const Tensor& out, bool accumulate) {
                      sum_to(parts[part].values, out, accumulate);
                    }});
  }
  if (parts.empty()) return;
  int64_t element = 0;
  for (const Part& part : parts)
    if (!part.gradient.defined()) element += static_cast<int64_t>(c10::elementSize(part.dtype));
  const int64_t most = element == 0 ? 0 : std::min(incoming.numel(), most_chunk_elements(element));
  for (Part& part : parts)
    if (!part.gradient.defined()) part.values = at::empty({most}, x.options().dtype(part.dtype));
  std::vector<Tensor> memory;
  for (const Part& part : parts) memory.push_back(part.values);
  const auto make = [&](const Chunk& chunk) {
    std::vector<Tensor> results, given{chunk.of(incoming, whole)};
    for (size_t k = 0; k < parts.size(); ++k)
      results.push_back(parts[k].values = parts[k].gradient.defined()
                                              ? chunk.of(parts[k].gradient, whole)
                                              : memory[k].narrow(0, 0, chunk.elements()).view(chunk.count));
    if (before.defined()) given.push_back(chunk.of(before, whole));
    for (const Tensor& operand : operands) given.push_back(chunk.of(operand, whole));
    if (chunk.elements() != 0) kernel.run(results, given);
  };
  if (sums.empty())
    make(Chunk(whole));
  else
    in_chunks(whole, element, sums, make);
}

const auto matmul_epilogue_backward =
    op("tile::matmul_epilogue_backward(Tensor grad_out, Tensor input, Tensor other, str epilogue, Tensor? "
       "operand0, Tensor? operand1, Tensor? operand2, Tensor? operand3, Tensor? operand4, Tensor? operand5, "
       "float[] numbers, str names, Tensor? pre, bool[8] output_mask) -> (Tensor grad_input, Tensor "
       "grad_other, Tensor grad_operand0, Tensor grad_operand1, Tensor grad_operand2, Tensor grad_operand3, "
       "Tensor grad_operand4, Tensor grad_operand5)")
        .outputs([](const Tensor& grad_out, const Operands& of, const EpilogueArguments& then,
                    const optional<Tensor>& pre, std::array<bool, 8> wanted) {
          const Sizes sizes = product_sizes(of.input, of.other);
          const auto text = checked_epilogue(then, sizes);
          require_agrees("grad_out", grad_out, sizes, of.input.scalar_type(), of_result);
          if (text->derivatives_read(0) && !pre)
            fail(ErrorKind::value, "the derivative of epilogue '", then.epilogue,
                 "' reads acc, and 'pre' is not given; pass the product");
          if (pre) require_agrees("pre", *pre, sizes, of.input.scalar_type(), as_saved);
          const std::array<Tensor, most_operands> tensors = then.tensors.all();
          std::vector<Tensor> results{wanted[0] ? result_like(of.input) : Tensor(),
                                      wanted[1] ? result_like(of.other) : Tensor()};
          for (size_t k = 0; k < most_operands; ++k) {
            if (wanted[k + 2] && !tensors[k].defined())
              fail(ErrorKind::value, "output_mask asks for the gradient of 'operand", k,
                   "', which is not given; clear its bit");
            results.push_back(wanted[k + 2] ? result_like(tensors[k]) : Tensor());
          }
          return results;
        })
        .run([](const Tensor& grad_out, const Operands& of, const EpilogueArguments& then,
                const optional<Tensor>& pre, std::array<bool, 8>,
                const EpilogueGradients& grads) { run_epilogue_gradients(grad_out, of, then, pre, grads); })
        .vmap([](VmapCall& call) {
          return batched_product(
              call,
              {"grad_out", "input", "other", "operand0", "operand1", "operand2", "operand3", "operand4",
               "operand5", "pre"},
              {"input", "other", "operand0", "operand1", "operand2", "operand3", "operand4", "operand5"});
        })
        .grad_by_compiler({"pre"});

}  // namespace

namespace tile {

at::Tensor matmul(const at::Tensor& input, const at::Tensor& other, const ProductEpilogue& epilogue) {
  const auto& [text, operands, numbers] = epilogue;
  const auto refuse = [](const auto&... parts) { fail(ErrorKind::value, "tile::matmul: ", parts...); };
  if (operands.size() > most_operands)
    refuse(operands.size(), " operands are tensors, and the most is ", most_operands,
           "; combine some of them before the call");
  // Commas separate names below.
  const auto check = [&](const std::string& name) {
    if (name.find(',') != std::string::npos)
      refuse("an operand is named '", name, "'; a name is a letter or _, then letters, digits and _");
  };
  std::array<optional<Tensor>, most_operands> tensors;
  std::vector<std::string> names;
  std::vector<double> values;
  for (const auto& [name, tensor] : operands) {
    tensors[names.size()] = tensor;
    check(names.emplace_back(name));
  }
  for (const auto& [name, number] : numbers) {
    check(names.emplace_back(name));
    values.push_back(number);
  }
  return matmul_epilogue.call(input, other, text, tensors[0], tensors[1], tensors[2], tensors[3], tensors[4],
                              tensors[5], values, join(names, ","));
}

}  // namespace tile
