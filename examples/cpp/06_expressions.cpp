// Operators of one expression each, which include broadcasting, promotion, strides and gradients.
#include "tile/elementwise.h"
#include "tile/reduction.h"

namespace {

using namespace tile;  // NOLINT: expressions are written in the language

const auto swish = elementwise("examples::swish(Tensor x, float beta=1.0) -> Tensor",
                               [](Tile x, Tile beta) { return x * sigmoid(beta * x); });

const auto root_mean_square =
    reduction("examples::root_mean_square(Tensor x) -> Tensor",
              {.map = expression([](Tile x) { return x * x; }), .finish = [](std::vector<Tile> total, Tile count) {
                 return std::vector<Tile>{sqrt(total[0] / count)};
               }});

}  // namespace
