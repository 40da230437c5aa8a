// group_norm with an optional SiLU, in the operator's own memory order, and its gradient.
#include "group_norm/kernels.h"
#include "norm.h"
#include "partials.h"

namespace tile {
namespace {

using namespace group_norm;

Kernel fused("group_norm", fused_kernel);
Kernel moments("group_norm_moments", moments_kernel);
Kernel merge("group_norm_merge", merge_kernel);
Kernel coefficients("group_norm_coefficients", coefficients_kernel);
Kernel apply("group_norm_apply", apply_kernel);
Kernel sums("group_norm_sums", sums_kernel);
Kernel merge_sums("group_norm_merge_sums", merge_sums_kernel);
Kernel apply_backward("group_norm_apply_backward", apply_backward_kernel);

// Tensors as [N, C, pixels], the result first; contiguous copies where the pixels are no single axis.
class Images {
 public:
  explicit Images(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)), result_(tensors_[0]) {
    if (!view()) {
      for (at::Tensor& tensor : tensors_)
        tensor = tensor.is_same(result_) ? at::empty_like(tensor, at::MemoryFormat::Contiguous)
                                         : tensor.contiguous();
      view();
    }
    const ArrayArgument& whole = views_[0];
    images = whole.sizes[0], channels = whole.sizes[1], pixels = whole.sizes[2];
    axis = pixels == 1 || (channels > 1 && whole.strides[1] < whole.strides[2]) ? 0 : 1;
    if (axis)
      tile = pixels <= 1024 ? Extents{64, 1024} : Extents{16, 4096};
    else
      tile = {512, 128};  // more pixels: sums along them that round more than torch's
  }
  const ArrayArgument& operator[](size_t i) const { return views_[i]; }
  // To be called after the last launch.
  void finish() {
    if (!tensors_[0].is_same(result_)) result_.copy_(tensors_[0]);
  }

  struct Extents {
    int channels, pixels;
  };
  int64_t images, channels, pixels;
  int axis;
  Extents tile;
  Grid tiles() const { return {ceil_div(pixels, tile.pixels), ceil_div(channels, tile.channels), images}; }
  // Blocks that each add up some pixel tiles.
  Parts split() const { return parts(tiles().x, images * tiles().y); }

 private:
  bool view() {
    views_.clear();
    for (const at::Tensor& tensor : tensors_) views_.push_back(to_array_argument(tensor));
    return merge_axes(views_, 2);
  }
  std::vector<at::Tensor> tensors_;
  std::vector<ArrayArgument> views_;
  at::Tensor result_;
};

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

Grid coefficient_grid(const Images& images, int64_t groups) {
  return {ceil_div(images.channels / groups, merged_channels), ceil_div(groups, merged_groups),
          images.images};
}

using Optional = std::optional<at::Tensor>;

void forward(const at::Tensor& input, int64_t groups, const Optional& weight, const Optional& bias,
             double eps, bool silu, const at::Tensor& out, const Optional& saved_mean,
             const Optional& saved_rstd) {
  if (out.numel() == 0) return;
  Images images({out, input});
  const auto [channels, pixels] = images.tile;
  const int64_t group = images.channels / groups;
  const auto split_vector = [&](const Optional& vector) {
    return vector ? std::optional(grouped(*vector, 0, groups)) : std::nullopt;
  };
  if (images.axis && (images.images * groups >= 8 || group * images.pixels <= 32768)) {
    fused.launch({groups, images.images}, grouped(images[1], 1, groups), split_vector(weight),
                 split_vector(bias), grouped(images[0], 1, groups), saved_mean, saved_rstd, eps, silu,
                 channels, pixels);
    images.finish();
    return;
  }
  const auto options = input.options().dtype(compute_dtype(input.scalar_type()));
  const at::Tensor mean = saved_mean ? *saved_mean : at::empty({images.images, groups}, options);
  const at::Tensor rstd = saved_rstd ? *saved_rstd : at::empty({images.images, groups}, options);
  const Parts split = images.split();
  const at::Tensor means = at::empty({images.images, split.blocks, images.channels}, options),
                   squares = at::empty_like(means);
  const at::Tensor centers = at::empty({images.images, images.channels}, options),
                   scales = at::empty_like(centers);
  moments.launch({split.blocks, images.tiles().y, images.images}, images[1], means, squares,
                 static_cast<int>(split.tiles), channels, pixels, images.axis);
  merge.launch({ceil_div(groups, merged_groups), images.images}, grouped(means, 2, groups),
               grouped(squares, 2, groups), mean, rstd, static_cast<int>(images.pixels),
               static_cast<int>(split.tiles * pixels), eps);
  coefficients.launch(coefficient_grid(images, groups), mean, rstd, split_vector(weight),
                      grouped(centers, 1, groups), grouped(scales, 1, groups));
  apply.launch(images.tiles(), images[1], centers, scales, bias, images[0], silu, channels, pixels,
               images.axis);
  images.finish();
}

void backward(const at::Tensor& grad_out, const at::Tensor& input, int64_t groups, const Optional& weight,
              const Optional& bias, bool silu, const at::Tensor& mean, const at::Tensor& rstd,
              const Optional& grad_input, const Optional& grad_weight, const Optional& grad_bias) {
  // No image with a pixel: the sums are 0.
  const int64_t n = input.numel() ? input.size(0) : 0;
  const auto per_channel = [&] { return at::empty({n, input.size(1)}, mean.options()); };
  const at::Tensor weight_parts = per_channel(), bias_parts = per_channel();
  if (n) {
    Images images({grad_input.value_or(input), grad_out, input});
    const auto [channels, pixels] = images.tile;
    const auto by_group = [&](const at::Tensor& tensor) { return grouped(tensor, 1, groups); };
    const auto weights = weight ? std::optional(grouped(*weight, 0, groups)) : std::nullopt;
    const at::Tensor means = per_channel(), scales = per_channel(), slopes = per_channel(),
                     shifts = per_channel();
    coefficients.launch(coefficient_grid(images, groups), mean, rstd, weights, by_group(means),
                        by_group(scales));
    const Parts split = images.split();
    const at::Tensor parts_d =
        at::empty({n, split.blocks, images.channels}, mean.options().dtype(at::kDouble));
    const at::Tensor parts = at::empty_like(parts_d);
    sums.launch({split.blocks, images.tiles().y, n}, images[1], images[2], means, scales, bias, parts_d,
                parts, static_cast<int>(split.tiles), silu, channels, pixels, images.axis);
    merge_sums.launch({ceil_div(groups, merged_groups), n}, grouped(parts_d, 2, groups),
                      grouped(parts, 2, groups), weights, rstd, by_group(weight_parts), by_group(bias_parts),
                      by_group(slopes), by_group(shifts), static_cast<int>(images.pixels));
    if (grad_input) {
      apply_backward.launch(images.tiles(), images[1], images[2], means, scales, bias, slopes, shifts,
                            images[0], silu, channels, pixels, images.axis);
      images.finish();
    }
  }
  if (grad_weight) sum_parts(weight_parts, *grad_weight);
  if (grad_bias) sum_parts(bias_parts, *grad_bias);
}

const auto group_norm_ =
    op("tile::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float "
       "eps=1e-5, *, "
       "str activation=\"none\") -> Tensor out")
        .saves("Tensor mean, Tensor rstd")
        .outputs([](const at::Tensor& input, int64_t num_groups, const Optional& weight, const Optional& bias,
                    double, const std::string& activation) {
          check_floating("input", input);
          if (input.dim() < 2 || input.dim() > 5)
            fail(ErrorKind::value, "'input' has ", input.dim(),
                 " dimensions; it must have 2 to 5: [N, C, …]");
          const c10::SymInt channels = input.sym_size(1);
          if (num_groups < 1) fail(ErrorKind::value, "num_groups is ", num_groups, "; it must be at least 1");
          if (channels % num_groups != 0)
            fail(ErrorKind::value, "'input' has ", channels, " channels, which num_groups=", num_groups,
                 " does not divide; give a divisor");
          if (activation != "none" && activation != "silu")
            fail(ErrorKind::value, "activation is '", activation, "'; it must be 'none' or 'silu'");
          check_parameters(weight, bias, input, {channels}, "the channels of 'input' are");
          return at::empty_like(input);
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
        .outputs([](const at::Tensor&, const at::Tensor& input, int64_t, const Optional& weight,
                    const Optional& bias, const std::string&, const at::Tensor&, const at::Tensor&,
                    std::array<bool, 3> output_mask) {
          return std::tuple(output_mask[0] ? at::empty_like(input) : at::Tensor(),
                            parameter_gradient(output_mask[1], weight),
                            parameter_gradient(output_mask[2], bias));
        })
        .run([](const at::Tensor& grad_out, const at::Tensor& input, int64_t num_groups,
                const Optional& weight, const Optional& bias, const std::string& activation,
                const at::Tensor& mean, const at::Tensor& rstd, std::array<bool, 3>,
                const Optional& grad_input, const Optional& grad_weight, const Optional& grad_bias) {
          backward(grad_out, input, num_groups, weight, bias, activation == "silu", mean, rstd, grad_input,
                   grad_weight, grad_bias);
        })
        .fold({"grad_out", "input", "mean", "rstd"}, {"grad_weight", "grad_bias"});

}  // namespace
}  // namespace tile
