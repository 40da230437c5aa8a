// Prices of call options by Monte Carlo: random paths in antithetic pairs, and a sum that does not depend on
// the order of blocks. Glasserman, "Monte Carlo Methods in Financial Engineering", 2003.
#include "tile/op.h"

namespace {
using namespace tile;  // NOLINT: this file is written in the kernel language

// The payoff depends on the price at the end, or on its mean over the steps; the geometric mean has a price
// in closed form.
enum class Kind { european, asian, geometric_asian };

// log(price / spot) of a path.
struct Path {
  Tile at, sum;
  void move(Tile by, Kind kind) {
    at += by;
    if (kind != Kind::european) sum += kind == Kind::asian ? exp(at) : at;
  }
  Tile mean(Tile steps, Kind kind) {
    return kind == Kind::european ? exp(at) : kind == Kind::asian ? sum / steps : exp(sum / steps);
  }
};

// Each pair of paths draws its numbers by its own number, and the step is the stream, so that the paths do
// not depend on the tiles.
void paths_kernel(Array seed, Array sums, Tile pairs, Tile spot, Tile strike, Tile drift, Tile deviation,
                  Tile steps, Kind kind, int size) {
  Tile pair = bid(0).astype(i64) * size + arange(size).astype(i64);
  Tile key = gather(seed, {0}), zero = zeros({size}, f32);
  Path up{zero, zero}, down{zero, zero};
  for (Tile step : range(steps)) {
    Tile z = normal({size}, key, pair, f32, step) * deviation;
    up.move(drift + z, kind);
    down.move(drift - z, kind);
  }
  const auto payoff = [&](Path& path) {
    return max(spot * path.mean(steps.astype(f32), kind) - strike, 0.0);
  };
  Tile paid = where(pair < pairs, 0.5 * (payoff(up) + payoff(down)), 0.0).astype(f64);
  scatter(sums, {bid(0), 0}, paid.sum());
  scatter(sums, {bid(0), 1}, (paid * paid).sum());
}
Kernel simulate("option_paths", paths_kernel);

// out: the price, and its standard error.
void price_kernel(Array sums, Array out, Tile pairs, Tile discount, int size) {
  View parts = sums.tiled_view({size, 2});
  Tile total = zeros({size, 2}, f64);
  for (Tile i : range(parts.num_tiles(0))) total += parts.load({i, 0});
  Tile sum = total.sum(0), n = pairs.astype(f64);
  Tile mean = extract(sum, {0}, {}) / n, variance = extract(sum, {1}, {}) / n - mean * mean;
  scatter(out, {0}, discount * mean);
  scatter(out, {1}, discount * sqrt(max(variance, 0.0) / n));
}
Kernel price("option_price", price_kernel);

const auto option_price =
    op("kernels::option_price(Tensor seed, float spot, float strike, float rate, float volatility, float "
       "years, int steps, "
       "int pairs, str kind) -> Tensor out")
        .outputs([](const at::Tensor& seed, double, double, double, double, double, int64_t steps,
                    int64_t pairs, const std::string& kind) {
          if (seed.scalar_type() != at::kLong || seed.dim() != 1 || seed.sym_size(0) != 1)
            fail(ErrorKind::value, "seed is ", seed.scalar_type(), " ", seed.sym_sizes(), "; pass int64[1]");
          if (steps < 1 || pairs < 1)
            fail(ErrorKind::value, "steps is ", steps, " and pairs ", pairs, "; pass at least 1");
          if (kind != "european" && kind != "asian" && kind != "geometric_asian")
            fail(ErrorKind::value, "kind is '", kind, "'; pass 'european', 'asian' or 'geometric_asian'");
          return at::empty_symint({2}, seed.options().dtype(at::kDouble));
        })
        .run([](const at::Tensor& seed, double spot, double strike, double rate, double volatility,
                double years, int64_t steps, int64_t pairs, const std::string& name, at::Tensor& out) {
          const Kind kind = name == "european" ? Kind::european
                            : name == "asian"  ? Kind::asian
                                               : Kind::geometric_asian;
          if (kind == Kind::european) steps = 1;  // the end of a path is drawn directly
          const double dt = years / static_cast<double>(steps),
                       drift = (rate - 0.5 * volatility * volatility) * dt;
          const int size = seed.is_cpu() ? 16384 : 1024;
          const int64_t blocks = ceil_div(pairs, size);
          const at::Tensor sums = at::empty({blocks, 2}, out.options());
          simulate.launch({blocks}, seed, sums, pairs, static_cast<float>(spot), static_cast<float>(strike),
                          static_cast<float>(drift), static_cast<float>(volatility * std::sqrt(dt)),
                          static_cast<int>(steps), kind, size);
          price.launch({1}, sums, out, pairs, std::exp(-rate * years), 1024);
        });

}  // namespace
