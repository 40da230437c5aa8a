// The step on a GPU: a kernel takes the arrays of up to 16 parameters, and a block finds its own by its
// number.
#include <cmath>

#include "step.h"

namespace tile::adamw {
namespace {

using std::optional;

template <class T, class I>
struct Repeated;
template <class T, size_t... I>
struct Repeated<T, std::index_sequence<I...>> {
  template <size_t>
  using Each = T;
  using Tuple = std::tuple<Each<I>...>;
};
// As many parameters of a kind as a group has tensors.
template <class T, size_t N>
using Many = typename Repeated<T, std::make_index_sequence<N>>::Tuple;

template <class... T>
auto listed(const std::tuple<T...>& values) {
  return std::apply([](const auto&... each) { return std::vector{each...}; }, values);
}

// f(i) in the branch of the tensor that block `block` belongs to: the last one that begins at or before it.
void in_branch_of(const Tile& block, const std::vector<Tile>& begins, size_t low, size_t high,
                  const std::function<void(size_t)>& f) {
  if (high - low == 1) return f(low);
  const size_t middle = (low + high) / 2;
  when(
      block < begins[middle], [&] { in_branch_of(block, begins, low, middle, f); },
      [&] { in_branch_of(block, begins, middle, high, f); });
}

Tile scalar(Array array) { return array.tiled_view({1}).load({0}).reshape({}); }

// Block b takes `tiles` tiles of the parameter whose blocks begin at or before it. What depends on the step
// is computed in f64: 1 - beta^step cancels.
template <class Lists, class Begins, class Array, class Tile>
struct GroupOf {
  Lists params, grads, exp_avgs, exp_avg_sqs;
  optional<Lists> max_exp_avg_sqs;
  Lists steps;
  Begins begins;  // the first block of each
  Tile lr, beta1, beta2, log_beta1, log_beta2, eps, weight_decay;
  Tile sign;                                         // of gradients: -1 climbs
  optional<Array> lr_tensor, grad_scale, found_inf;  // of one element each
  int tiles, size;
};
template <size_t N>
void adamw_kernel(const GroupOf<Many<Array, N>, Many<Tile, N>, Array, Tile>& of) {
  const auto& [params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, begins, lr, beta1, beta2,
               log_beta1, log_beta2, eps, weight_decay, sign, lr_tensor, grad_scale, found_inf, tiles, size] =
      of;
  const auto param = listed(params), grad = listed(grads), mean = listed(exp_avgs),
             square = listed(exp_avg_sqs), step = listed(steps);
  const auto begin = listed(begins);
  const auto most = max_exp_avg_sqs ? listed(*max_exp_avg_sqs) : std::vector<Array>();
  const auto run = [&] {
    Tile block = bid(0), rate = lr_tensor ? scalar(*lr_tensor).astype(f64) : lr;
    Tile grad_factor = grad_scale ? sign / scalar(*grad_scale).astype(f64) : sign;
    Tile count = zeros({}, f64), first = 0;
    in_branch_of(block, begin, 0, N, [&](size_t i) {
      count = scalar(step[i]).astype(f64);
      first = begin[i];
    });
    const auto narrow = [&](const Tile& value) { return value.astype(compute_dtype(param[0].dtype())); };
    const Coefficients c{narrow(rate / expm1(count * log_beta1)),
                         narrow(1 / sqrt(-expm1(count * log_beta2))),
                         narrow(-rate * weight_decay),
                         narrow(1 - beta1),
                         narrow(beta2),
                         narrow(1 - beta2),
                         narrow(eps),
                         narrow(grad_factor)};
    Tile from = (block - first) * tiles;
    in_branch_of(block, begin, 0, N, [&](size_t i) {
      for (Tile k : range(from, min(from + tiles, cdiv(param[i].dim(0), size))))
        update(param[i], grad[i], mean[i], square[i], most.empty() ? std::nullopt : optional(most[i]), k,
               size, c);
    });
  };
  // The steps of a GradScaler that found an infinity do nothing.
  if (!found_inf) return run();
  when(scalar(*found_inf) == 0.0, run);
}

// More parameters are more code, and fewer launches.
Kernel adamw_of_1("adamw_1", adamw_kernel<1>);
Kernel adamw_of_4("adamw_4", adamw_kernel<4>);
Kernel adamw_of_16("adamw_16", adamw_kernel<16>);

// One launch for jobs[from] and up to N - 1 after it; missing jobs have no blocks.
template <size_t N, class K>
void launch(K& kernel, const std::vector<Job>& jobs, size_t from, bool amsgrad, const Options& options) {
  constexpr int size = 4096, tiles = 4;
  const size_t count = std::min(N, jobs.size() - from);
  std::array<int, N> begins;
  int64_t blocks = 0;
  for (size_t i = 0; i < N; ++i) {
    begins[i] = static_cast<int>(i < count ? blocks : std::numeric_limits<int32_t>::max());
    if (i < count) blocks += ceil_div(jobs[from + i].elements, int64_t{size} * tiles);
  }
  [&]<size_t... I>(std::index_sequence<I...>) {
    const auto job = [&](size_t i) -> const Job& { return jobs[from + std::min(i, count - 1)]; };
    const auto list = [&](size_t k) { return std::tuple(job(I).arrays[k]...); };
    const auto if_there = [](const optional<at::Tensor>& t) {
      return t ? optional(number(*t)) : std::nullopt;
    };
    kernel.launch({blocks}, {.params = list(0),
                             .grads = list(1),
                             .exp_avgs = list(2),
                             .exp_avg_sqs = list(3),
                             .max_exp_avg_sqs = amsgrad ? optional(list(4)) : std::nullopt,
                             .steps = std::tuple(job(I).step...),
                             .begins = std::tuple(begins[I]...),
                             .lr = options.lr,
                             .beta1 = options.beta1,
                             .beta2 = options.beta2,
                             .log_beta1 = std::log(options.beta1),
                             .log_beta2 = std::log(options.beta2),
                             .eps = options.eps,
                             .weight_decay = options.weight_decay,
                             .sign = options.maximize ? -1.0 : 1.0,
                             .lr_tensor = if_there(options.lr_tensor),
                             .grad_scale = if_there(options.grad_scale),
                             .found_inf = if_there(options.found_inf),
                             .tiles = tiles,
                             .size = size});
  }
  (std::make_index_sequence<N>{});
}

}  // namespace

void launch_groups(const std::vector<Job>& jobs, bool amsgrad, const Options& options) {
  for (size_t from = 0; from < jobs.size(); from += 16) {
    const size_t left = jobs.size() - from;
    if (left == 1)
      launch<1>(adamw_of_1, jobs, from, amsgrad, options);
    else if (left <= 4)
      launch<4>(adamw_of_4, jobs, from, amsgrad, options);
    else
      launch<16>(adamw_of_16, jobs, from, amsgrad, options);
  }
}

}  // namespace tile::adamw
