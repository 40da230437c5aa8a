// Elementwise operators and reductions from expressions, as a C++ user writes them.
#include "tile/elementwise.h"
#include "tile/reduction.h"

namespace {

using namespace tile;  // NOLINT: expressions are written in the language

const auto swish = elementwise("tt::swish(Tensor x, float beta=1.0) -> Tensor",
                               [](Tile x, Tile beta) { return x * sigmoid(beta * x); });

const auto sides =
    elementwise("tt::sides(Tensor x, Tensor y, int n, bool swap=False, str unit='rad') -> (Tensor, Tensor)",
                [](Tile x, Tile y, Tile n, bool swap, const std::string& unit) {
                  Tile angle = unit == "deg" ? atan2(y, x) * 57.29577951308232 : atan2(y, x);
                  Tile length = sqrt(x * x + y * y) * n;
                  return swap ? std::tuple(angle, length) : std::tuple(length, angle);
                });

const auto above =
    elementwise("tt::above(Tensor x, Tensor y) -> Tensor", [](Tile x, Tile y) { return x > y; });

// Calls any primitive by name, to test its derivative.
const auto any_primitive = elementwise("tt::primitive(Tensor x, Tensor y, Tensor z, str name) -> Tensor",
                                       [](Tile x, Tile y, Tile z, const std::string& name) {
                                         const Primitive& found = primitive(name);
                                         std::vector<Value*> operands{x.value(), y.value(), z.value()};
                                         operands.resize(static_cast<size_t>(found.operands));
                                         return Tile(emit(found, operands, {}, Location::current()));
                                       });

const auto no_expression =
    elementwise("tw::no_expression(Tensor x, int[] n) -> Tensor", [](Tile x) { return x; });
const auto wrong_count =
    elementwise("tw::wrong_count(Tensor x, Tensor y) -> Tensor", [](Tile x) { return x; });
const auto not_elementwise =
    elementwise("tw::not_elementwise(Tensor x) -> Tensor", [](Tile x) { return x - x.sum(); });

// Mean and variance of the elements that are not masked.
const auto moments =
    reduction("tt::moments(Tensor x, Tensor mask, float shift=0.0) -> (Tensor mean, Tensor variance)",
              {.map = expression([](Tile x, Tile mask, Tile shift) {
                 Tile one = mask.astype(x.dtype()), value = (x - shift) * one;
                 return std::tuple(one, value, value * value);
               }),
               .kind = Reduction::Kind::sum,
               .finish =
                   [](std::vector<Tile> totals, const Tile&) {
                     Tile mean = totals[1] / totals[0];
                     return std::vector<Tile>{mean, totals[2] / totals[0] - mean * mean};
                   },
               .totals = 3});

const auto total = reduction("tt::total(Tensor x) -> Tensor", {.kind = Reduction::Kind::sum});
const auto largest = reduction("tt::largest(Tensor x) -> Tensor", {.kind = Reduction::Kind::max});
const auto smallest = reduction("tt::smallest(Tensor x) -> Tensor", {.kind = Reduction::Kind::min});
const auto multiplied = reduction("tt::multiplied(Tensor x) -> Tensor", {.kind = Reduction::Kind::prod});

// log(sum(exp(x))) from pairs of a maximum and a scaled sum.
const auto log_sum_exp =
    reduction("tt::log_sum_exp(Tensor x) -> Tensor",
              {.map = expression([](Tile x) { return std::tuple(x, full({}, 1, x.dtype())); }),
               .kind = Reduction::Kind::own,
               .combine =
                   [](std::vector<Tile> a, std::vector<Tile> b) {
                     Tile top = maximum(a[0], b[0]);
                     Tile safe = where(top == -inf, 0, top);
                     return std::vector<Tile>{top, a[1] * exp(a[0] - safe) + b[1] * exp(b[0] - safe)};
                   },
               .identity = {-inf, 0},
               .finish = [](std::vector<Tile> totals,
                            const Tile&) { return std::vector<Tile>{totals[0] + log(totals[1])}; },
               .totals = 2});

}  // namespace
