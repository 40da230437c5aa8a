// Operators over 3 and 10 tensors, and bench::time_calls, which measures their calls from C++.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/add.h>
#include <ATen/ops/softmax.h>
#include <torch/library.h>

#include <chrono>
#include <tuple>

#include "tile/op.h"

namespace {
using namespace tile;  // NOLINT: kernels are written in the kernel language

// The operands are matrices; a block adds one tile of them.
constexpr int rows = 16, columns = 128;

Tile load(Array array) { return array.tiled_view({rows, columns}).load({bid(1), bid(0)}); }
void store(Array array, Tile tile) { array.tiled_view({rows, columns}).store({bid(1), bid(0)}, tile); }
Grid blocks(const at::Tensor& x) { return {ceil_div(x.size(1), columns), ceil_div(x.size(0), rows)}; }

void add_kernel(Array x, Array y, Array out) { store(out, load(x) + load(y)); }
Kernel add_tiles("bench_add", add_kernel);

const auto add = op("bench::add(Tensor x, Tensor y) -> Tensor out")
                     .outputs([](const at::Tensor& x, const at::Tensor&) { return result_like(x); })
                     .run([](const at::Tensor& x, const at::Tensor& y, at::Tensor& out) {
                       add_tiles.launch(blocks(x), x, y, out);
                     })
                     .grad("bench::add_backward");
const auto add_backward =
    op("bench::add_backward(Tensor grad_out) -> (Tensor grad_x, Tensor grad_y)")
        .outputs([](const at::Tensor& grad) { return std::tuple(result_like(grad), result_like(grad)); })
        .run([](const at::Tensor& grad, at::Tensor& grad_x, at::Tensor& grad_y) {
          grad_x.copy_(grad);
          grad_y.copy_(grad);
        });

void add9_kernel(Array a, Array b, Array c, Array d, Array e, Array f, Array g, Array h, Array i, Array out) {
  store(out, load(a) + load(b) + load(c) + load(d) + load(e) + load(f) + load(g) + load(h) + load(i));
}
Kernel add9_tiles("bench_add9", add9_kernel);

using T = at::Tensor;
const auto add9 = op("bench::add9(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, Tensor f, Tensor g, "
                     "Tensor h, Tensor i) -> Tensor out")
                      .outputs([](const T& a, const T&, const T&, const T&, const T&, const T&, const T&,
                                  const T&, const T&) { return result_like(a); })
                      .run([](const T& a, const T& b, const T& c, const T& d, const T& e, const T& f,
                              const T& g, const T& h, const T& i,
                              T& out) { add9_tiles.launch(blocks(a), a, b, c, d, e, f, g, h, i, out); })
                      .grad("bench::add9_backward");
const auto add9_backward =
    op("bench::add9_backward(Tensor grad_out) -> (Tensor grad_a, Tensor grad_b, Tensor grad_c, "
       "Tensor grad_d, Tensor grad_e, Tensor grad_f, Tensor grad_g, Tensor grad_h, Tensor grad_i)")
        .outputs([](const T& grad) {
          const auto one = [&] { return result_like(grad); };
          return std::tuple(one(), one(), one(), one(), one(), one(), one(), one(), one());
        })
        .run([](const T& grad, T& a, T& b, T& c, T& d, T& e, T& f, T& g, T& h, T& i) {
          for (T* each : {&a, &b, &c, &d, &e, &f, &g, &h, &i}) each->copy_(grad);
        });

template <class Call>
double nanoseconds(int64_t count, Call call) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  for (int64_t i = 0; i < count; ++i) call();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / static_cast<double>(count);
}

// Returns a registered operator, looked up once, as C++ calls it without a header.
template <class Signature>
auto registered(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// Returns the host's nanoseconds for each of `count` consecutive calls. x and y are matrices of one size.
double time_calls(const std::string& what, const at::Tensor& x, const at::Tensor& y, int64_t count) {
  if (what == "at::add") return nanoseconds(count, [&] { return at::add(x, y); });
  if (what == "add") return nanoseconds(count, [&] { return add.call(x, y); });
  if (what == "add9") return nanoseconds(count, [&] { return add9.call(x, y, y, y, y, y, y, y, y); });
  if (what == "at::softmax") return nanoseconds(count, [&] { return at::softmax(x, 1); });
  if (what == "softmax") {
    const auto softmax =
        registered<at::Tensor(const at::Tensor&, int64_t, std::optional<at::ScalarType>)>("tile::softmax");
    return nanoseconds(count, [&] { return softmax.call(x, 1, std::nullopt); });
  }
  if (what == "rms_norm") {
    const auto rms_norm =
        registered<at::Tensor(const at::Tensor&, c10::SymIntArrayRef, const std::optional<at::Tensor>&,
                              std::optional<double>)>("tile::rms_norm");
    const std::vector<c10::SymInt> shape = {x.sym_size(1)};
    const std::optional<at::Tensor> weight = y.select(0, 0).contiguous();
    return nanoseconds(count, [&] { return rms_norm.call(x, shape, weight, 1e-5); });
  }
  fail(ErrorKind::value, "no call is named ", what, "; look at host_costs.cpp");
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(bench, library) {
  library.def("time_calls(str what, Tensor x, Tensor y, int count) -> float", time_calls);
}
