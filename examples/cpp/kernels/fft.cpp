// FFT of 512 to 4096 complex numbers as products of matrices: n = a b c, and a Fourier transform of length a
// is a product with the a x a matrix of roots of unity. Bailey, "FFTs in external or hierarchical memory",
// 1990.
#include <ATen/ops/view_as_real.h>

#include "tile/op.h"

namespace {
using namespace tile;  // NOLINT: this file is written in the kernel language

struct Complex {
  Tile re, im;
  template <class F>
  Complex map(F f) const {
    return {f(re), f(im)};
  }
};
Complex operator*(const Complex& x, const Complex& y) {
  return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

// exp(sign 2 pi i j k / n) for 0 <= j < rows, 0 <= k < columns. j k is reduced before it becomes a float.
Complex roots(int rows, int columns, int n, int sign) {
  Tile jk = arange(rows).expand_dims(1) * arange(columns).expand_dims(0) & (n - 1);
  Tile angle = jk.astype(f32) * (sign * 6.283185307179586 / n);
  return {cos(angle), sin(angle)};
}

// Returns x @ y. With dtype f32 the factors are not rounded; with tf32 they are rounded to 11 bits, and a
// GPU's tensor cores multiply them.
Complex product(const Complex& x, const Complex& y, DType dtype) {
  const auto rounded = [&](const Tile& t) { return t.astype(dtype); };
  const Complex a = x.map(rounded), b = y.map(rounded), minus = Complex{y.re, -y.im}.map(rounded);
  Tile zero = zeros({x.re.shape()[0], y.re.shape()[1]}, f32);
  return {mma(a.im, minus.im, mma(a.re, b.re, zero)), mma(a.im, b.re, mma(a.re, b.im, zero))};
}

// Element j of a signal is in row j / (b c) of its matrix [a, b c]. The steps are transforms along the
// columns, a multiplication by factors, then the transforms of length b c of the rows: the same with [b, c].
// All rows have the same factors and are transformed at once.
void fft_kernel(Array re, Array im, Array out_re, Array out_im, std::optional<Tile> signals, int a, int b,
                int c, int sign, DType dtype) {
  const int n = a * b * c;
  const auto transform = [&](const Tile& s) {
    const auto part = [&](Array array) { return array.tiled_view({1, n}).load({s, 0}).reshape({a, b * c}); };
    Complex x{part(re), part(im)};
    x = product(roots(a, a, a, sign), x, dtype) * roots(a, b * c, n, sign);
    // [a, b, c] to [b, a, c]: row k_b of the next product is a sum over b.
    x = x.map([&](const Tile& t) { return t.reshape({a, b, c}).permute({1, 0, 2}).reshape({b, a * c}); });
    x = product(roots(b, b, b, sign), x, dtype).map([&](const Tile& t) { return t.reshape({b, a, c}); });
    x = x * roots(b, c, b * c, sign).map([&](const Tile& t) { return t.expand_dims(1); });
    // [b, a, c] to [c, b, a]: the result has k_c as the first axis, and k_a, whose neighbours are neighbours
    // in memory, as the last.
    x = x.map([&](const Tile& t) { return t.permute({2, 0, 1}).reshape({c, b * a}); });
    x = product(roots(c, c, c, sign), x, dtype);
    const double scale = sign > 0 ? 1.0 / n : 1.0;
    out_re.tiled_view({1, n}).store({s, 0}, (x.re * scale).reshape({1, n}));
    out_im.tiled_view({1, n}).store({s, 0}, (x.im * scale).reshape({1, n}));
  };
  if (!signals) return transform(bid(0));
  for (Tile s : range(bid(0) * *signals, min((bid(0) + 1) * *signals, re.dim(0)))) transform(s);
}
Kernel transform("fft", fft_kernel);

const auto fft =
    op("kernels::fft(Tensor x, bool inverse, bool tf32) -> Tensor out")
        .outputs([](const at::Tensor& x, bool, bool) {
          if (x.dim() != 2 || x.scalar_type() != at::kComplexFloat)
            fail(ErrorKind::value, "x is ", x.scalar_type(), " ", x.sym_sizes(),
                 "; pass a matrix of complex64, a signal a row");
          for (int n : {512, 1024, 2048, 4096})
            if (x.sym_size(1) == n) return at::empty_symint(x.sym_sizes(), x.options());
          fail(ErrorKind::unsupported, "signals have ", x.sym_size(1),
               " numbers; pass 512, 1024, 2048 or 4096");
        })
        .run([](const at::Tensor& x, bool inverse, bool fast, at::Tensor& out) {
          const int n = static_cast<int>(x.size(1)), a = n >= 1024 ? 16 : 8,
                    b = n >= 2048 ? 16 : 8, c = n / (a * b);
          const at::Tensor from = at::view_as_real(x), to = at::view_as_real(out);
          // On a CPU a block transforms several signals, and computes the roots, which are the same for all,
          // before its loop. On a GPU the roots would occupy registers all the time.
          const std::optional<int> signals = x.is_cpu() ? std::optional(8) : std::nullopt;
          transform.launch({ceil_div(x.size(0), signals.value_or(1))}, from.select(2, 0),
                           from.select(2, 1), to.select(2, 0), to.select(2, 1), signals, a, b, c,
                           inverse ? 1 : -1, fast ? tf32 : f32);
        });

}  // namespace
