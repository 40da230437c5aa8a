// softmax and log_softmax over one axis of any stride, and their gradients.
#include "../common/logsumexp.h"
#include "tile/rows.h"

namespace tile {
namespace {

// The input in the result's dtype, so rounded, then in the dtype of computing; padding is -inf.
Tile logits(const RowView& x, const Array& array, const Tile& row, Operand column, DType result, int columns,
            int axis) {
  const DType dtype = array.dtype(), compute = compute_dtype(result);
  if (is_floating(dtype)) return x.load(row, column, -inf).astype(result).astype(compute);
  Tile in_row = arange(columns) + column * columns < array.dim(2);
  return where(axis ? in_row.expand_dims(0) : in_row.expand_dims(1),
               x.load(row, column).astype(result).astype(compute), -inf);
}

// part / sum. The product with the inverse rounds twice, which a result of fewer bits does not show; else
// what is left of the part goes to the quotient.
Tile fraction(const Tile& part, const Tile& sum, const Tile& inverse, bool shows) {
  Tile quotient = part * inverse;
  return shows ? fma(fma(-quotient, sum, part), inverse, quotient) : quotient;
}

// group: this many neighbours are summed first, or looped over separately; 0: none.
void softmax_kernel(Array x, Array y, std::optional<Tile> tiles, bool log_of, int group, int rows,
                    int columns, bool holds_row, int axis) {
  // The logits wait for the logarithm of the sum: of several sums fewer threads are faster.
  if (log_of && has_short_rows(x, rows, columns)) hint_threads(-1);
  RowView in(x, bid(1), rows, columns, axis), out(y, bid(1), rows, columns, axis);
  DType result = y.dtype(), compute = compute_dtype(result);
  const auto sum_of = [&](const Tile& e) {
    if (!group) return e.sum(axis, true);
    return axis ? e.reshape({rows, columns / group, group}).sum(2).sum(1, true)
                : e.reshape({columns / group, group, rows}).sum(1).sum(0, true);
  };
  each_row_tile(x, tiles, rows, [&](const Tile& row) {
    auto load = [&](const Operand& k) { return logits(in, x, row, k, result, columns, axis); };
    if (holds_row) {
      Tile v = load(0);
      Tile d = v - detach(v.max(axis, true)), e = exp(d), sum = sum_of(e);
      out.store(row, 0, log_of ? d - log(sum) : fraction(e, sum, 1 / sum, result == compute));
      return;
    }
    const auto exponential = [](const Tile& v) { return exp(v); };
    const LogSumExp sum =
        looped_logsumexp(in.steps(), rows, columns, axis, group, compute, load, exponential);
    Tile last = log_of ? log(sum.total) : 1 / sum.total;
    for (Tile k : range(in.steps())) {
      Tile d = load(k) - sum.top;
      out.store(row, k, log_of ? d - last : fraction(exp(d), sum.total, last, result == compute));
    }
  });
}

// The gradient of y = softmax(x) is (g - sum(g y)) y, that of y = log_softmax(x) is g - exp(y) sum(g).
void softmax_backward_kernel(Array g, Array y, Array dx, std::optional<Tile> tiles, bool log_of, int rows,
                             int columns, bool holds_row, int axis) {
  RowView grad(g, bid(1), rows, columns, axis), out(y, bid(1), rows, columns, axis),
      result(dx, bid(1), rows, columns, axis);
  DType compute = compute_dtype(y.dtype());
  each_row_tile(y, tiles, rows, [&](const Tile& row) {
    auto dot = [&](const Operand& k) {
      Tile dy = grad.load(row, k).astype(compute);
      return (log_of ? dy : dy * out.load(row, k).astype(compute)).sum(axis, true);
    };
    Tile total = zeros(axis ? Shape{rows, 1} : Shape{1, rows}, compute);
    auto store = [&](const Operand& k) {
      Tile dy = grad.load(row, k).astype(compute);
      if (!log_of) dy -= total;
      Tile v = out.load(row, k).astype(compute);
      result.store(row, k, log_of ? dy - exp(v) * total : dy * v);
    };
    if (holds_row) {
      total = dot(0);
      store(0);
      return;
    }
    for (Tile k : range(out.steps())) total += dot(k);
    for (Tile k : range(out.steps())) store(k);
  });
}

Kernel softmax_forward("softmax", softmax_kernel), log_softmax_forward("log_softmax", softmax_kernel);
Kernel softmax_backward("softmax_backward", softmax_backward_kernel),
    log_softmax_backward("log_softmax_backward", softmax_backward_kernel);

// Axis as a bit; a scalar has one axis.
uint32_t axis_bit(const at::Tensor& tensor, int64_t dim) {
  return 1u << (dim < 0 ? dim + std::max<int64_t>(tensor.dim(), 1) : dim);
}

void check_dim(const at::Tensor& tensor, const char* name, int64_t dim) {
  const int64_t rank = std::max<int64_t>(tensor.dim(), 1);
  if (dim < -rank || dim >= rank)
    fail(ErrorKind::value, "dim ", dim, " is out of range for '", name, "' of rank ", tensor.dim(),
         "; give one in [", -rank, ", ", rank - 1, "]");
}

// An extra leading axis moves a dim that counts from the front; a scalar has no axis for it.
VmapCall::Results batched(VmapCall& call, const std::string& first, std::vector<std::string> arguments) {
  const bool scalar = call[first].toTensor().dim() == (call.batched(first) ? 1 : 0);
  const int64_t dim = call["dim"].toInt();
  if (scalar) return call.loop();
  if (dim >= 0) call["dim"] = dim + 1;
  return call.leading(arguments);
}

// The results, `name` being the operator that is called.
at::Tensor softmax_result(const char* name, const at::Tensor& input, int64_t dim,
                          std::optional<at::ScalarType> dtype) {
  check_dim(input, "input", dim);
  const at::ScalarType type = dtype.value_or(input.scalar_type());
  if (!at::isFloatingType(type) || to_dtype(type) == DType::f8e4m3 || to_dtype(type) == DType::f8e5m2)
    fail(ErrorKind::type, dtype ? "dtype" : "'input'", " is ", c10::toString(type), "; ", name,
         " is computed in Half, BFloat16, Float or Double, ",
         dtype ? "pass one of these" : "pass dtype=torch.float32");
  if (at::isComplexType(input.scalar_type()))
    fail(ErrorKind::type, "'input' is ", c10::toString(input.scalar_type()), "; pass a real tensor");
  return type == input.scalar_type() ? result_like(input)
                                     : at::empty_like(input, input.options().dtype(type));
}
at::Tensor softmax_gradient(const at::Tensor& grad_out, const at::Tensor& out, int64_t dim) {
  check_dim(out, "out", dim);
  if (!grad_out.sym_sizes().equals(out.sym_sizes()) || grad_out.scalar_type() != out.scalar_type())
    fail(ErrorKind::value, "'grad_out' is ", c10::toString(grad_out.scalar_type()), grad_out.sym_sizes(),
         ", but 'out' is ", c10::toString(out.scalar_type()), out.sym_sizes(), "; they must agree");
  return result_like(out);
}

// Calls launch(views, blocks, tile, axis of the columns) for tensors of one shape, the result first.
template <class F>
void on_rows(const at::Tensor& result, std::initializer_list<const at::Tensor*> read, int64_t dim,
             const F& launch) {
  c10::SmallVector<ArrayArgument, 4> arrays{to_array_argument(result)};
  for (const at::Tensor* tensor : read) arrays.push_back(to_array_argument(*tensor));
  Rows rows(arrays, axis_bit(result, dim));
  if (rows.empty()) return;
  const RowTile tile = row_tile_for_threads(rows);
  const RowBlocks blocks = row_blocks(rows, tile);
  rows.each([&](int64_t) { launch(rows, blocks, tile, rows.transposed() ? 0 : 1); });
}
void run_softmax(decltype(softmax_forward)& kernel, bool log_of, const at::Tensor& input, int64_t dim,
                 const at::Tensor& out) {
  on_rows(out, {&input}, dim, [&](const Rows& rows, const RowBlocks& blocks, RowTile tile, int axis) {
    // In sequence, a thread's sum would round at each element, which is visible in a float32 result.
    // In loops over a row, a maximum per thread saves the warps from waiting for each other at every tile.
    const bool apart = rows.on_gpu() && (out.scalar_type() == at::kFloat || !tile.holds_row());
    const int group = apart ? static_cast<int>(16 / out.element_size()) : 0;
    kernel.launch(blocks.grid, rows.view(1), rows.view(0), blocks.tiles, log_of, group, tile.rows,
                  tile.columns, tile.holds_row(), axis);
  });
}
void run_softmax_backward(decltype(softmax_backward)& kernel, bool log_of, const at::Tensor& grad_out,
                          const at::Tensor& out, int64_t dim, const at::Tensor& grad_input) {
  on_rows(grad_input, {&grad_out, &out}, dim,
          [&](const Rows& rows, const RowBlocks& blocks, RowTile tile, int axis) {
            kernel.launch(blocks.grid, rows.view(1), rows.view(2), rows.view(0), blocks.tiles, log_of,
                          tile.rows, tile.columns, tile.holds_row(), axis);
          });
}

const auto softmax_ =
    op("tile::softmax(Tensor input, int dim, ScalarType? dtype=None) -> Tensor out")
        .outputs([](const at::Tensor& input, int64_t dim, std::optional<at::ScalarType> dtype) {
          return softmax_result("softmax", input, dim, dtype);
        })
        .run([](const at::Tensor& input, int64_t dim, std::optional<at::ScalarType>, at::Tensor& out) {
          run_softmax(softmax_forward, false, input, dim, out);
        })
        .vmap([](VmapCall& call) { return batched(call, "input", {"input"}); })
        .autocast("keep", "fp32")
        .grad("tile::softmax_backward");

const auto softmax_backward_ =
    op("tile::softmax_backward(Tensor grad_out, Tensor out, int dim) -> Tensor grad_input")
        .outputs(softmax_gradient)
        .run([](const at::Tensor& grad_out, const at::Tensor& out, int64_t dim, at::Tensor& grad_input) {
          run_softmax_backward(softmax_backward, false, grad_out, out, dim, grad_input);
        })
        .vmap([](VmapCall& call) {
          return batched(call, "out", {"grad_out", "out"});
        })
        .grad_by_compiler();

const auto log_softmax_ =
    op("tile::log_softmax(Tensor input, int dim, ScalarType? dtype=None) -> Tensor out")
        .outputs([](const at::Tensor& input, int64_t dim, std::optional<at::ScalarType> dtype) {
          return softmax_result("log_softmax", input, dim, dtype);
        })
        .run([](const at::Tensor& input, int64_t dim, std::optional<at::ScalarType>, at::Tensor& out) {
          run_softmax(log_softmax_forward, true, input, dim, out);
        })
        .vmap([](VmapCall& call) { return batched(call, "input", {"input"}); })
        .autocast("keep", "fp32")
        .grad("tile::log_softmax_backward");

const auto log_softmax_backward_ =
    op("tile::log_softmax_backward(Tensor grad_out, Tensor out, int dim) -> Tensor grad_input")
        .outputs(softmax_gradient)
        .run([](const at::Tensor& grad_out, const at::Tensor& out, int64_t dim, at::Tensor& grad_input) {
          run_softmax_backward(log_softmax_backward, true, grad_out, out, dim, grad_input);
        })
        .vmap([](VmapCall& call) {
          return batched(call, "out", {"grad_out", "out"});
        })
        .grad_by_compiler();

}  // namespace
}  // namespace tile
