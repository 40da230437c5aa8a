// group_norm with an optional SiLU, in the operator's own memory order, and its gradient.
#include "../common/arguments.h"
#include "../common/derivation.h"
#include "../common/partial_sums.h"
#include "group_norm/cpu_kernels.h"
#include "group_norm/gpu_kernels.h"
#include "group_norm/images.h"
#include "group_norm/kernels.h"
#include "group_norm/passes.h"
#include "norm.h"
#include "statistics_again.h"

namespace tile {
namespace {

using namespace group_norm;

Kernel fused("group_norm", fused_kernel);
Kernel fused_backward("group_norm_fused_backward", fused_backward_kernel);
Kernel one_tile("group_norm_tile", one_tile_kernel);
Kernel one_tile_backward("group_norm_tile_backward", one_tile_backward_kernel);
Kernel moments("group_norm_moments", moments_kernel);
Kernel coefficients("group_norm_coefficients", coefficients_kernel);
Kernel apply("group_norm_apply", apply_kernel);
Kernel sums("group_norm_sums", sums_kernel);
Kernel merge_sums("group_norm_merge_sums", merge_sums_kernel);

// The same array with the channel axis as [G, C / G].
ArrayArgument grouped(ArrayArgument array, int axis, int64_t groups) {
  for (int i = array.rank++; i > axis; --i)
    array.sizes[i] = array.sizes[i - 1], array.strides[i] = array.strides[i - 1];
  array.sizes[axis + 1] = array.sizes[axis] / groups;
  array.sizes[axis] = groups;
  array.strides[axis] = array.strides[axis + 1] * array.sizes[axis + 1];
  return array;
}
ArrayArgument grouped(const at::Tensor& tensor, int axis, int64_t groups) {
  return grouped(to_array_argument(tensor), axis, groups);
}

std::optional<ArrayArgument> by_group(const std::optional<at::Tensor>& parameter, int64_t groups) {
  return parameter ? std::optional(grouped(*parameter, 0, groups)) : std::nullopt;
}

// On a GPU a block for each group is worth more than full tiles; few parts where they are blocks enough.
Merged merged_tile(const Images& images, int64_t groups) {
  if (!images.on_gpu) return cpu_rows;
  constexpr int few = 16;
  const auto channels = static_cast<int>(
      std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(images.channels / groups, 4, 64))));
  const bool enough = images.images * images.tiles().y * few >= tuning::group_parts;
  return {enough ? few : 4096 / channels, 1, channels};
}
// Blocks of (groups, image, channel tile), of which those that loop over the channels leave out the last.
Grid merging_grid(const Images& images, int64_t groups, const Merged& tile, bool loops = true) {
  return {ceil_div(groups, tile.groups), images.images,
          loops ? 1 : ceil_div(images.channels / groups, tile.channels)};
}

using Optional = std::optional<at::Tensor>;

// Statistics, of which a block takes one or few.
ArrayArgument scalars(const at::Tensor& tensor) {
  ArrayArgument array = to_array_argument(tensor);
  array.scalars = true;
  return array;
}
std::optional<ArrayArgument> scalars(const Optional& tensor) {
  return tensor ? std::optional(scalars(*tensor)) : std::nullopt;
}

// Every image is read twice: f(first, count) for as many at a time as the last cache of a CPU holds. On a GPU
// all at once, in few launches.
template <class F>
void in_batches(const at::Tensor& input, F f) {
  constexpr int64_t cache_bytes = int64_t{32} << 20;
  const int64_t images = input.numel() ? input.size(0) : 0;
  if (images == 0) return;
  const int64_t bytes = input.numel() / images * static_cast<int64_t>(input.element_size());
  const int64_t most = input.is_cpu() ? std::max<int64_t>(1, cache_bytes / bytes) : images;
  for (int64_t first = 0; first < images; first += most) f(first, std::min(most, images - first));
}

// The parameters of both directions; statistics are [N, G].
struct Problem {
  at::Tensor input;
  int64_t groups;
  Optional weight, bias;
  bool silu;
  at::Tensor mean, rstd;

  Problem part(int64_t first, int64_t count) const {
    Problem part = *this;
    for (at::Tensor* tensor : {&part.input, &part.mean, &part.rstd})
      *tensor = tensor->narrow(0, first, count);
    return part;
  }
  int64_t channels() const { return input.size(1); }
  at::Tensor per_channel(int64_t images) const { return at::empty({images, channels()}, mean.options()); }
  auto affine_by_group() const { return std::tuple(by_group(weight, groups), by_group(bias, groups)); }
  auto statistics() const { return std::tuple(scalars(mean), scalars(rstd)); }
};

// An array of channels, [N, C], as [N, G, C / G]; of several, a tuple.
template <class... T>
auto channels_by_group(int64_t groups, const T&... tensors) {
  return std::tuple(grouped(tensors, 1, groups)...);
}

void forward(const Problem& problem, double eps, const at::Tensor& out) {
  Images images({out, problem.input}, true);
  images.fit_channels();
  const int64_t groups = problem.groups, n = images.images;
  const Merged merged = merged_tile(images, groups);
  const Parts split = images.split(merged, tuning::group_parts);
  const at::Tensor means = at::empty({n, split.blocks, images.channels}, problem.mean.options());
  const at::Tensor squares = result_like(means);
  const at::Tensor centers = problem.per_channel(n), scales = result_like(centers),
                   shifts = result_like(centers);
  const auto tiles = static_cast<int>(split.tiles), all = static_cast<int>(images.pixels);
  moments.launch({split.blocks, images.tiles().y, n}, images[1], std::tie(means, squares), tiles,
                 images.on_gpu, images.on_gpu && images.pixels % images.tile.pixels == 0, images.size());
  const std::tuple sizes(all, tiles * images.tile.pixels, eps);
  const auto finish = [&](const auto& parts, const auto& of_channels, const Merged& tile) {
    coefficients.launch(merging_grid(images, groups, tile), parts, of_channels, problem.affine_by_group(),
                        problem.statistics(), channels_by_group(groups, centers, scales, shifts), sizes,
                        tile);
  };
  const auto parts = [&](int64_t g) { return std::tuple(grouped(means, 2, g), grouped(squares, 2, g)); };
  if (images.on_gpu) {
    finish(parts(groups), std::nullopt, merged);
  } else {
    const at::Tensor mean = result_like(centers), low = result_like(centers), square = result_like(centers);
    coefficients.launch(merging_grid(images, 1, merged, false), parts(1),
                        channels_by_group(1, mean, low, square), std::tuple(std::nullopt, std::nullopt),
                        std::nullopt, std::nullopt, sizes, merged);
    finish(std::nullopt, channels_by_group(groups, mean, low, square), cpu_groups);
  }
  images.each_pixel_tile([&](const Grid& grid, std::optional<int> block_tiles) {
    apply.launch(grid, std::nullopt, images[1], std::tie(centers, scales, shifts), std::nullopt, images[0],
                 block_tiles, problem.silu, false, images.size());
  });
  images.finish();
}

void forward(const at::Tensor& input, int64_t groups, const Optional& weight, const Optional& bias,
             double eps, bool silu, const at::Tensor& out, const Optional& mean, const Optional& rstd) {
  if (out.numel() == 0) return;
  const int64_t n = input.size(0);
  Images images({out, input});
  // An array whose groups are runs of memory.
  const auto flat = [&](size_t i) {
    ArrayArgument run = grouped(images[i], 1, groups);
    run.rank = 3;
    run.sizes[2] *= run.sizes[3];
    run.strides[2] = 1;
    return run;
  };
  const auto saved = std::tuple(scalars(mean), scalars(rstd));
  if (const int64_t together = images.groups_a_tile(groups, 1)) {
    one_tile.launch({groups / together, n}, images.in_tiles(1, groups), std::tie(weight, bias),
                    images.in_tiles(0, groups), saved, eps, silu, images.thread_hint(groups),
                    images.groups_size(groups, together));
    images.finish();
    return;
  }
  if (images.fits_blocks(groups)) {
    const bool single = images.holds_group(groups), runs = images.on_gpu && images.dense() && !single;
    fused.launch({groups, n}, runs ? std::optional(flat(1)) : std::nullopt, grouped(images[1], 1, groups),
                 std::tuple(by_group(weight, groups), by_group(bias, groups)), grouped(images[0], 1, groups),
                 saved, eps, single, silu, images.size());
    images.finish();
    return;
  }
  const auto or_new = [&](const Optional& statistic) {
    return statistic ? *statistic
                     : at::empty({n, groups}, input.options().dtype(compute_dtype(input.scalar_type())));
  };
  const Problem problem{input, groups, weight, bias, silu, or_new(mean), or_new(rstd)};
  in_batches(input, [&](int64_t first, int64_t count) {
    forward(problem.part(first, count), eps, out.narrow(0, first, count));
  });
}

// Without grad_input the input is passed instead of it, and only read. Gradients of weight and bias
// are those of each image.
void backward(const Problem& problem, const at::Tensor& grad_out, const Optional& grad_input,
              const at::Tensor& grad_weight, const at::Tensor& grad_bias) {
  Images images({grad_input.value_or(problem.input), grad_out, problem.input}, true, grad_input.has_value());
  if (const int64_t together = images.groups_a_tile(problem.groups, 2)) {
    const std::optional<ArrayArgument> out =
        grad_input ? std::optional(images.in_tiles(0, problem.groups)) : std::nullopt;
    one_tile_backward.launch({problem.groups / together, images.images}, images.in_tiles(1, problem.groups),
                             images.in_tiles(2, problem.groups), std::tie(problem.weight, problem.bias),
                             problem.statistics(), out, std::tie(grad_weight, grad_bias), problem.silu,
                             images.groups_size(problem.groups, together));
    if (grad_input) images.finish();
    return;
  }
  const int64_t n = images.images, groups = problem.groups;
  if (images.fuses_backward(groups) && !is_recorded()) {  // it reads what it has written
    const auto array = [&](size_t i) { return grouped(images[i], 1, groups); };
    fused_backward.launch({groups, n}, array(1), array(2), problem.affine_by_group(), problem.statistics(),
                          grad_input ? std::optional(array(0)) : std::nullopt,
                          channels_by_group(groups, grad_weight, grad_bias), problem.silu, images.size());
    if (grad_input) images.finish();
    return;
  }
  const at::Tensor means = problem.per_channel(n), scales = problem.per_channel(n);
  const at::Tensor biases = problem.per_channel(n), slopes = problem.per_channel(n),
                   shifts = problem.per_channel(n);
  coefficients.launch(merging_grid(images, groups, saved_groups, false), std::nullopt, std::nullopt,
                      problem.affine_by_group(), problem.statistics(),
                      channels_by_group(groups, means, scales, biases), std::nullopt, saved_groups);
  const Merged merged = merged_tile(images, groups);
  // Half as many of these blocks run at once.
  const Parts split = images.split(merged, tuning::group_parts / 2);
  const at::Tensor parts_d =
      at::empty({n, split.blocks, images.channels}, problem.mean.options().dtype(at::kDouble));
  const at::Tensor parts = result_like(parts_d);
  // SiLU's gradient, as by torch's two operators; not where gradients of parameters are wider.
  const bool rounded =
      images.on_gpu && (!problem.weight || problem.weight->scalar_type() == problem.input.scalar_type());
  sums.launch({split.blocks, images.tiles().y, n}, images[1], images[2], std::tie(means, scales, biases),
              std::tie(parts_d, parts), static_cast<int>(split.tiles), problem.silu, rounded, images.on_gpu,
              images.size());
  const auto finish_sums = [&](const at::Tensor& of_d, const at::Tensor& of_dz, const Merged& tile) {
    merge_sums.launch(
        merging_grid(images, groups, tile), std::tuple(grouped(of_d, 2, groups), grouped(of_dz, 2, groups)),
        grouped(scales, 1, groups), scalars(problem.rstd), channels_by_group(groups, grad_weight, grad_bias),
        channels_by_group(groups, slopes, shifts), static_cast<int>(images.pixels), tile);
  };
  if (images.on_gpu) {
    finish_sums(parts_d, parts, merged);
  } else {
    const at::Tensor sum_d = at::empty({n, images.channels}, parts.options()), sum = result_like(sum_d);
    sum_partials({{parts_d, sum_d}, {parts, sum}});
    finish_sums(sum_d.unsqueeze(1), sum.unsqueeze(1), cpu_groups);
  }
  if (!grad_input) return;
  images.each_pixel_tile([&](const Grid& grid, std::optional<int> block_tiles) {
    apply.launch(grid, images[1], images[2], std::tie(means, scales, biases), std::tie(slopes, shifts),
                 images[0], block_tiles, problem.silu, rounded, images.size());
  });
  images.finish();
}

// Each group is a row.
Problem with_statistics_again(Problem problem) {
  if (problem.input.numel() == 0) return problem;
  const int64_t rows = problem.mean.numel();
  const auto again = statistics_again(1, problem.input.reshape({rows, -1}),
                                      {problem.mean.view({rows, 1}), problem.rstd.view({rows, 1})});
  problem.mean = again.mean->view(problem.mean.sizes()), problem.rstd = again.rstd.view(problem.rstd.sizes());
  return problem;
}

void backward(const at::Tensor& grad_out, const Problem& given, const Optional& grad_input,
              const Optional& grad_weight, const Optional& grad_bias) {
  const Problem problem = is_recorded() ? with_statistics_again(given) : given;
  // No image with a pixel: the sums are 0.
  const int64_t n = problem.input.numel() ? problem.input.size(0) : 0;
  const at::Tensor weight_parts = problem.per_channel(n), bias_parts = problem.per_channel(n);
  in_batches(problem.input, [&](int64_t first, int64_t count) {
    const auto part = [&](const at::Tensor& tensor) { return tensor.narrow(0, first, count); };
    backward(problem.part(first, count), part(grad_out),
             grad_input ? Optional(part(*grad_input)) : std::nullopt, part(weight_parts), part(bias_parts));
  });
  std::vector<PartialSum> sums;
  if (grad_weight) sums.push_back({weight_parts, *grad_weight});
  if (grad_bias) sums.push_back({bias_parts, *grad_bias});
  sum_partials(std::move(sums));
}

void check(const at::Tensor& input, int64_t num_groups, const Optional& weight, const Optional& bias,
           const std::string& activation) {
  check_floating("input", input);
  if (input.dim() < 2 || input.dim() > 5)
    fail(ErrorKind::value, "'input' has ", input.dim(), " dimensions; it must have 2 to 5: [N, C, …]");
  const c10::SymInt channels = input.sym_size(1);
  if (num_groups < 1) fail(ErrorKind::value, "num_groups is ", num_groups, "; it must be at least 1");
  if (channels % num_groups != 0)
    fail(ErrorKind::value, "'input' has ", channels, " channels, which num_groups=", num_groups,
         " does not divide; give a divisor");
  if (activation != "none" && activation != "silu")
    fail(ErrorKind::value, "activation is '", activation, "'; it must be 'none' or 'silu'");
  check_parameters(weight, bias, input, {channels}, "the channels of 'input' are");
}

const auto group_norm_ =
    op("tile::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float "
       "eps=1e-5, *, "
       "str activation=\"none\") -> Tensor out")
        .saves("Tensor mean, Tensor rstd")
        .outputs([](const at::Tensor& input, int64_t num_groups, const Optional& weight, const Optional& bias,
                    double, const std::string& activation) {
          check(input, num_groups, weight, bias, activation);
          return result_like(input);
        })
        .saved_outputs([](const at::Tensor& input, int64_t num_groups, const Optional&, const Optional&,
                          double, const std::string&) {
          const auto statistics = [&] {
            return at::empty_symint({input.sym_size(0), num_groups},
                                    input.options().dtype(compute_dtype(input.scalar_type())));
          };
          return std::tuple(statistics(), statistics());
        })
        .run([](const at::Tensor& input, int64_t num_groups, const Optional& weight, const Optional& bias,
                double eps, const std::string& activation, at::Tensor& out, const Optional& mean,
                const Optional& rstd) {
          forward(input, num_groups, weight, bias, eps, activation == "silu", out, mean, rstd);
        })
        .fold({"input"})
        .autocast("keep", "fp32")
        .grad("tile::group_norm_backward");

const auto group_norm_backward_ =
    op("tile::group_norm_backward(Tensor grad_out, Tensor input, int num_groups, Tensor? weight, Tensor? "
       "bias, str activation, "
       "Tensor mean, Tensor rstd, bool[3] output_mask) -> (Tensor grad_input, Tensor grad_weight, Tensor "
       "grad_bias)")
        .outputs([](const at::Tensor& grad_out, const at::Tensor& input, int64_t num_groups,
                    const Optional& weight, const Optional& bias, const std::string& activation,
                    const at::Tensor& mean, const at::Tensor& rstd, std::array<bool, 3> output_mask) {
          check(input, num_groups, weight, bias, activation);
          require_agrees("grad_out", grad_out, input.sym_sizes(), input.scalar_type(), of_result);
          const c10::SymInt sizes[] = {input.sym_size(0), num_groups};
          for (const auto& [name, saved] : {std::pair("mean", &mean), std::pair("rstd", &rstd)})
            require_agrees(name, *saved, sizes, compute_dtype(input.scalar_type()), as_saved);
          return std::tuple(output_mask[0] ? result_like(input) : at::Tensor(),
                            parameter_gradient(output_mask[1], weight),
                            parameter_gradient(output_mask[2], bias));
        })
        .run([](const at::Tensor& grad_out, const at::Tensor& input, int64_t num_groups,
                const Optional& weight, const Optional& bias, const std::string& activation,
                const at::Tensor& mean, const at::Tensor& rstd, std::array<bool, 3>,
                const Optional& grad_input, const Optional& grad_weight, const Optional& grad_bias) {
          backward(grad_out, {input, num_groups, weight, bias, activation == "silu", mean, rstd}, grad_input,
                   grad_weight, grad_bias);
        })
        .fold({"grad_out", "input", "mean", "rstd"}, {"grad_weight", "grad_bias"})
        .grad_by_compiler({"mean", "rstd"});

}  // namespace
}  // namespace tile
