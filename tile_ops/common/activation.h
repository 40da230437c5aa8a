// Activations that operators fuse: their names, and value and gradient as tiles.
#pragma once
#include "tile/op.h"

namespace tile {

enum class Activation { none, relu, gelu, gelu_tanh, silu };

inline Activation parse_activation(const std::string& name) {
  static constexpr std::pair<std::string_view, Activation> names[] = {{"none", Activation::none},
                                                                      {"relu", Activation::relu},
                                                                      {"gelu", Activation::gelu},
                                                                      {"gelu_tanh", Activation::gelu_tanh},
                                                                      {"silu", Activation::silu}};
  for (const auto& [text, activation] : names)
    if (text == name) return activation;
  fail(ErrorKind::value, "unknown activation '", name, "'; it is none, relu, gelu, gelu_tanh or silu");
}

namespace activation_detail {
inline constexpr double sqrt_half = 0.70710678118654752440, sqrt_2_over_pi = 0.79788456080286535588;
inline constexpr double inverse_sqrt_2_pi = 0.39894228040143267794, cubic = 0.044715;
inline Tile tanh_argument(Tile x) { return x * fma(x * x, sqrt_2_over_pi * cubic, sqrt_2_over_pi); }
// sigmoid(x) and 1 - sigmoid(x), neither by a difference.
struct Sigmoids {
  Tile s, rest;
};
inline Sigmoids sigmoids(Tile x) {
  Tile e = exp(-abs(x)), large = 1.0 / (e + 1.0), small = e * large;
  return {where(x < 0, small, large), where(x < 0, large, small)};
}
}  // namespace activation_detail

inline Tile activate(Activation activation, Tile x) {
  using namespace activation_detail;
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return where(x < 0, 0, x);  // keeps NaN, as maximum would not
    case Activation::gelu: {
      Tile half = x * 0.5;
      return fma(half, erf(x * sqrt_half), half);
    }
    case Activation::gelu_tanh: {
      Tile half = x * 0.5;
      return fma(half, tanh(tanh_argument(x)), half);
    }
    case Activation::silu:
      return silu(x);
  }
  return x;
}

// The same in a kernel that computes the gradient too, from what both have in common.
inline Tile activate_beside_gradient(Activation activation, Tile x) {
  return activation == Activation::silu ? x * activation_detail::sigmoids(x).s : activate(activation, x);
}

// grad times the derivative at x.
inline Tile activation_gradient(Activation activation, Tile x, Tile grad) {
  using namespace activation_detail;
  switch (activation) {
    case Activation::none:
      return grad;
    case Activation::relu:
      return where(x <= 0, 0, grad);
    case Activation::gelu: {
      Tile below = fma(erf(x * sqrt_half), 0.5, 0.5), density = exp(x * x * -0.5) * inverse_sqrt_2_pi;
      return grad * fma(x, density, below);
    }
    case Activation::gelu_tanh: {
      Tile t = tanh(tanh_argument(x)), slope = fma(x * x, 3 * sqrt_2_over_pi * cubic, sqrt_2_over_pi);
      return grad * (fma(t, 0.5, 0.5) + x * 0.5 * (1.0 - t * t) * slope);
    }
    case Activation::silu: {
      const auto [s, rest] = sigmoids(x);
      return grad * s * fma(x, rest, 1.0);
    }
  }
  return grad;
}

}  // namespace tile
