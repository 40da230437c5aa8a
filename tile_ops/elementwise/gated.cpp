// swiglu and geglu: the activation of one tensor times another, elementwise, and the gradients. A block has a
// tile of rows and columns.
#include "gated.h"

#include "../common/arguments.h"
#include "../common/overlap.h"
#include "tile/elements.h"

namespace tile {
namespace {

struct GatedTiles {
  int rows, columns;
  DType compute;
  Tile load(const Array& array) const { return view(array).load({bid(1), bid(0)}).astype(compute); }
  void store(const Array& array, const Tile& tile) const { view(array).store({bid(1), bid(0)}, tile); }

 private:
  View view(const Array& array) const { return array[{bid(2)}].tiled_view({rows, columns}); }
};

void gated_kernel(Array gate, Array up, Array out, Activation activation, int rows, int columns) {
  GatedTiles in{rows, columns, compute_dtype(gate.dtype())};
  in.store(out, activate(activation, in.load(gate)) * in.load(up));
}

// over: the gradient of gate replaces g.
void gated_backward_kernel(Array g, Array gate, Array up, std::optional<Array> dgate,
                           std::optional<Array> dup, bool over, Activation activation, int rows,
                           int columns) {
  hint_threads(1);  // five arrays: with fewer elements a thread none spills
  GatedTiles in{rows, columns, compute_dtype(gate.dtype())};
  Tile dy = in.load(g), x = in.load(gate), u = in.load(up);
  if (dup) in.store(*dup, dy * activate_beside_gradient(activation, x));
  if (dgate || over) in.store(over ? g : *dgate, activation_gradient(activation, x, dy * u));
}

Kernel gated_forward("gated", gated_kernel);
Kernel gated_backward("gated_backward", gated_backward_kernel);

void check_operands(const at::Tensor& gate, const at::Tensor& up) {
  require_floating("gate", gate);
  require_same_dtype("gate", gate, "up", up);
  if (!gate.sym_sizes().equals(up.sym_sizes()))
    fail(ErrorKind::value, "gate is ", gate.sym_sizes(), " and up is ", up.sym_sizes(),
         "; give them one shape, neither is broadcast");
}

at::Tensor gated_result(const at::Tensor& gate, const at::Tensor& up) {
  check_operands(gate, up);
  return result_like(gate);
}

void run_gated(Activation activation, const at::Tensor& gate, const at::Tensor& up, const at::Tensor& out) {
  each_element_tile({to_array_argument(out), to_array_argument(gate), to_array_argument(up)},
                    [&](const Rows& views, const Grid& grid, ElementTile tile) {
                      gated_forward.launch(grid, views.view(1), views.view(2), views.view(0), activation,
                                           tile.rows, tile.columns);
                    });
}

using Mask = std::array<bool, 2>;

std::tuple<at::Tensor, at::Tensor> empty_gradients(const at::Tensor& grad_out, const at::Tensor& gate,
                                                   const at::Tensor& up, Mask wanted) {
  check_operands(gate, up);
  if (!grad_out.sym_sizes().equals(gate.sym_sizes()) || grad_out.scalar_type() != gate.scalar_type())
    fail(ErrorKind::value, "grad_out is ", dtype_name(grad_out.scalar_type()), grad_out.sym_sizes(),
         ", but gate is ", dtype_name(gate.scalar_type()), gate.sym_sizes(), "; they must agree");
  return {wanted[0] ? result_like(gate) : at::Tensor(), wanted[1] ? result_like(up) : at::Tensor()};
}

}  // namespace

void gated_gradients(Activation activation, const at::Tensor& grad_out, const at::Tensor& gate,
                     const at::Tensor& up, const std::optional<at::Tensor>& grad_gate,
                     const std::optional<at::Tensor>& grad_up) {
  ElementArrays arrays;
  const bool over = grad_gate && grad_gate->is_same(grad_out);
  for (const auto* result : {&grad_gate, &grad_up})
    if (*result && !(over && result == &grad_gate)) arrays.push_back(to_array_argument(**result));
  const size_t results = arrays.size();
  if (results == 0 && !over) return;
  for (const at::Tensor* tensor : {&grad_out, &gate, &up}) arrays.push_back(to_array_argument(*tensor));
  each_element_tile(std::move(arrays), [&](const Rows& views, Grid grid, ElementTile tile) {
    const auto result = [&](bool there, size_t k) {
      return there ? std::optional(views.view(k)) : std::nullopt;
    };
    gated_backward.launch(grid, views.view(results), views.view(results + 1), views.view(results + 2),
                          result(grad_gate && !over, 0), result(grad_up.has_value(), results - 1), over,
                          activation, tile.rows, tile.columns);
  });
}

namespace {

Activation gelu_of(const std::string& approximate) {
  if (approximate == "none") return Activation::gelu;
  if (approximate == "tanh") return Activation::gelu_tanh;
  fail(ErrorKind::value, "unknown approximate '", approximate, "'; it is none or tanh");
}

const auto swiglu = op("tile::swiglu(Tensor gate, Tensor up) -> Tensor out")
                        .outputs(gated_result)
                        .run([](const at::Tensor& gate, const at::Tensor& up, at::Tensor& out) {
                          run_gated(Activation::silu, gate, up, out);
                        })
                        .leading({"gate", "up"})
                        .grad("tile::swiglu_backward", "tile::_swiglu_backward_");

const auto swiglu_backward =
    op("tile::swiglu_backward(Tensor grad_out, Tensor gate, Tensor up, bool[2] output_mask) "
       "-> (Tensor grad_gate, Tensor grad_up)")
        .outputs(empty_gradients)
        .run([](const at::Tensor& grad_out, const at::Tensor& gate, const at::Tensor& up, Mask,
                const std::optional<at::Tensor>& grad_gate, const std::optional<at::Tensor>& grad_up) {
          gated_gradients(Activation::silu, grad_out, gate, up, grad_gate, grad_up);
        })
        .leading({"grad_out", "gate", "up"})
        .grad_by_compiler();

// The gradient of gate is written over grad_out, that of up into grad_up.
void check_over(const at::Tensor& grad_out, const at::Tensor& grad_up, const at::Tensor& gate,
                const at::Tensor& up) {
  empty_gradients(grad_out, gate, up, {false, false});
  require_agrees("grad_up", grad_up, up.sym_sizes(), up.scalar_type(), "that of up");
}
void gated_gradients_over(Activation activation, const at::Tensor& grad_out, const at::Tensor& grad_up,
                          const at::Tensor& gate, const at::Tensor& up) {
  for (const at::Tensor* other : {&gate, &up, &grad_up})
    require_no_overlap("grad_out", grad_out, "another argument", *other);
  for (const at::Tensor* other : {&gate, &up})
    require_no_overlap("grad_up", grad_up, "another argument", *other);
  gated_gradients(activation, grad_out, gate, up, grad_out, grad_up);
}

const auto swiglu_backward_over =
    op("tile::_swiglu_backward_(Tensor(a!) grad_out, Tensor(b!) grad_up, Tensor gate, Tensor up) -> ()")
        .outputs(check_over)
        .run([](const at::Tensor& grad_out, const at::Tensor& grad_up, const at::Tensor& gate,
                const at::Tensor& up) {
          gated_gradients_over(Activation::silu, grad_out, grad_up, gate, up);
        });

const auto geglu_backward_over =
    op("tile::_geglu_backward_(Tensor(a!) grad_out, Tensor(b!) grad_up, Tensor gate, Tensor up, "
       "str approximate) -> ()")
        .outputs([](const at::Tensor& grad_out, const at::Tensor& grad_up, const at::Tensor& gate,
                    const at::Tensor& up, const std::string& approximate) {
          gelu_of(approximate);
          check_over(grad_out, grad_up, gate, up);
        })
        .run([](const at::Tensor& grad_out, const at::Tensor& grad_up, const at::Tensor& gate,
                const at::Tensor& up, const std::string& approximate) {
          gated_gradients_over(gelu_of(approximate), grad_out, grad_up, gate, up);
        });

const auto geglu =
    op("tile::geglu(Tensor gate, Tensor up, *, str approximate=\"none\") -> Tensor out")
        .outputs([](const at::Tensor& gate, const at::Tensor& up, const std::string& approximate) {
          gelu_of(approximate);
          return gated_result(gate, up);
        })
        .run([](const at::Tensor& gate, const at::Tensor& up, const std::string& approximate,
                at::Tensor& out) { run_gated(gelu_of(approximate), gate, up, out); })
        .leading({"gate", "up"})
        .grad("tile::geglu_backward", "tile::_geglu_backward_");

const auto geglu_backward =
    op("tile::geglu_backward(Tensor grad_out, Tensor gate, Tensor up, str approximate, bool[2] output_mask) "
       "-> (Tensor grad_gate, Tensor grad_up)")
        .outputs([](const at::Tensor& grad_out, const at::Tensor& gate, const at::Tensor& up,
                    const std::string& approximate, Mask wanted) {
          gelu_of(approximate);
          return empty_gradients(grad_out, gate, up, wanted);
        })
        .run([](const at::Tensor& grad_out, const at::Tensor& gate, const at::Tensor& up,
                const std::string& approximate, Mask, const std::optional<at::Tensor>& grad_gate,
                const std::optional<at::Tensor>& grad_up) {
          gated_gradients(gelu_of(approximate), grad_out, gate, up, grad_gate, grad_up);
        })
        .leading({"grad_out", "gate", "up"})
        .grad_by_compiler();

}  // namespace
}  // namespace tile
