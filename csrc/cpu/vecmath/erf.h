// erf, a template over a vector type. float <= 2.5 ulp, double lane by lane.
#pragma once
#include "cpu/vecmath/exp.h"

namespace tile::cpu::TILE_ISA {

// An odd polynomial below 1, and 1 - exp(q(|x|)) above.
template <FloatVector V>
TILE_INLINE V erf(V x) {
  if constexpr (in_double<V>) {
    return map_lanes([](double a) { return __builtin_erf(a); }, x);
  } else {
    const V magnitude = clear_sign(x);
    const V small = fma(polynomial(x * x, fitted::erf_small), x, x);
    const V q = polynomial(min(V(3.95f), magnitude) - V(2.f), fitted::erf_large);
    return select(magnitude < V(1.f), small, with_sign(V(1.f) - exp_normal(q), x));  // -18 < q < -1.8
  }
}

}  // namespace tile::cpu::TILE_ISA
