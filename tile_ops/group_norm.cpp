// group_norm with an optional SiLU, in the operator's own memory order, and its gradient.
#include "norm.h"
#include "partials.h"

namespace tile {
namespace {

// Statistics of two parts, of `count` and `n` values, become those of both (Chan); exact for large means.
struct Moments {
  Tile count, mean, square;
  void merge(const Tile& n, const Tile& m, const Tile& q) {
    Tile total = count + n, delta = m - mean;
    mean += delta * (n / total);
    square += q + delta * delta * (count * n / total);
    count = total;
  }
};

struct Layout {
  int channels, pixels, axis;  // of a tile; the axis of its pixels
  DType dtype;
  Shape one() const { return axis ? Shape{channels, 1} : Shape{1, channels}; }
  Tile vector(const Tile& v) const { return axis ? v.expand_dims(1) : v.expand_dims(0); }
  Tile load(const Array& of_channels, const Tile& tile) const {
    return vector(of_channels.tiled_view({channels}).load({tile}).astype(dtype));
  }
};

// Mean and sum of squared deviations of each channel over the pixel tiles low … high - 1.
Moments channel_moments(const RowView& x, const Tile& tile, Operand low, Operand high, const Tile& pixels, Layout at) {
  Moments all{zeros({}, at.dtype), zeros(at.one(), at.dtype), zeros(at.one(), at.dtype)};
  for (Tile k : range(low, high)) {
    Tile v = x.load(tile, k).astype(at.dtype), n = min(pixels - k * at.pixels, at.pixels).astype(at.dtype);
    Tile m = v.sum(at.axis, true) / n;
    Tile d = fma(inside_row(k, at.pixels, at.axis, pixels, at.dtype), -m, v);
    all.merge(n, m, (d * d).sum(at.axis, true));
  }
  return all;
}

// Adds the channels along the last axis, of `pixels` values each, to the statistics of their groups (a scalar, or one
// an element of the axis before); channels past the end are 0.
void add_channels(Moments& group, const Tile& mean, const Tile& square, const Tile& tile, const Tile& channels,
                  const Tile& pixels, DType dtype) {
  int extent = static_cast<int>(mean.shape(-1)), axis = mean.rank() - 1;
  Tile n = min(channels - tile * extent, extent).astype(dtype);
  Tile m = mean.sum(axis) / n;
  Tile inside = where(arange(extent) + tile * extent < channels, mean - m.expand_dims(axis), 0);
  group.merge(n * pixels, m, square.sum(axis) + (inside * inside).sum(axis) * pixels);
}

void put(const Array& array, const Tile& n, const Tile& g, const Tile& value) {
  array.tiled_view({1, 1}).store({n, g}, value.reshape({1, 1}));
}

// One block a group; arrays are [N, G, C / G, pixels], weight and bias [G, C / G].
void fused_kernel(Array x, std::optional<Array> weight, std::optional<Array> bias, Array y, std::optional<Array> mean,
                  std::optional<Array> rstd, Tile eps, bool silu, int channels, int pixels) {
  Layout at{channels, pixels, 1, compute_dtype(x.dtype())};
  Tile g = bid(0), n = bid(1), extent = x.dim(3);
  Array image = x[{n}], result = y[{n}];
  RowView in(image, g, channels, pixels, 1), out(result, g, channels, pixels, 1);
  Moments group{zeros({}, at.dtype), zeros({}, at.dtype), zeros({}, at.dtype)};
  for (Tile i : range(cdiv(x.dim(2), channels))) {
    Moments each = channel_moments(in, i, 0, in.steps(), extent, at);
    add_channels(group, each.mean.reshape({channels}), each.square.reshape({channels}), i, x.dim(2), extent.astype(at.dtype),
                 at.dtype);
  }
  Tile r = 1 / sqrt(group.square / group.count + eps.astype(at.dtype));
  if (mean) put(*mean, n, g, group.mean);
  if (rstd) put(*rstd, n, g, r);
  for (Tile i : range(cdiv(x.dim(2), channels))) {
    Tile scale = weight ? at.load((*weight)[{g}], i) * r : full(at.one(), r, at.dtype);
    Tile shift = -(scale * group.mean);
    if (bias) shift += at.load((*bias)[{g}], i);
    for (Tile k : range(in.steps())) {
      Tile z = fma(in.load(i, k).astype(at.dtype), scale, shift);
      out.store(i, k, silu ? z * sigmoid(z) : z);
    }
  }
}

// Statistics of channels over a part of the pixels: blocks of (part, channel tile, image), parts [N, parts, C].
void moments_kernel(Array x, Array means, Array squares, Tile tiles, int channels, int pixels, int axis) {
  Layout at{channels, pixels, axis, compute_dtype(x.dtype())};
  RowView in(x, bid(2), channels, pixels, axis);
  Tile low = bid(0) * tiles;
  Moments all = channel_moments(in, bid(1), low, min(low + tiles, in.steps()), x.dim(2), at);
  means[{bid(2)}].tiled_view({1, channels}).store({bid(0), bid(1)}, all.mean.reshape({1, channels}));
  squares[{bid(2)}].tiled_view({1, channels}).store({bid(0), bid(1)}, all.square.reshape({1, channels}));
}

constexpr int merged_parts = 64, merged_groups = 8, merged_channels = 64;
const Shape merged_shape = {merged_groups, merged_channels};

// Channels of some groups in all parts, from an array [N, parts, G, C / G].
Tile load_parts(const Array& parts, const Tile& n, const Tile& g, const Tile& i) {
  return parts[{n}].tiled_view({merged_parts, merged_groups, merged_channels}).load({0, g, i});
}
// A value a group, from and to an array [N, G].
Tile load_groups(const Array& array, const Tile& n, const Tile& g) {
  return array[{n}].tiled_view({merged_groups}).load({g});
}
void store_groups(const Array& array, const Tile& n, const Tile& g, const Tile& values) {
  array[{n}].tiled_view({merged_groups}).store({g}, values);
}

// Merges the parts of some groups' channels; a part has `span` pixels, the last one what is left.
void merge_kernel(Array means, Array squares, Array mean, Array rstd, Tile pixels, Tile span, Tile eps) {
  DType dtype = means.dtype();
  Tile g = bid(0), n = bid(1), channels = means.dim(3), all = pixels.astype(dtype);
  Tile count = max(min(pixels - arange(merged_parts) * span, span), 0).astype(dtype).reshape({merged_parts, 1, 1});
  Moments group{zeros({}, dtype), zeros({merged_groups}, dtype), zeros({merged_groups}, dtype)};
  for (Tile i : range(cdiv(channels, merged_channels))) {
    Tile m = load_parts(means, n, g, i);
    Tile center = (m * count).sum(0) / all;
    Tile d = m - center.expand_dims(0);
    add_channels(group, center, load_parts(squares, n, g, i).sum(0) + (d * d * count).sum(0), i, channels, all, dtype);
  }
  store_groups(mean, n, g, group.mean);
  store_groups(rstd, n, g, 1 / sqrt(group.square / group.count + eps.astype(dtype)));
}

// What turns x into act's argument, x scale + shift, and into xhat, x rstd + center: [N, G, C / G] of each.
void coefficients_kernel(Array mean, Array rstd, std::optional<Array> weight, std::optional<Array> bias, Array scales,
                         Array shifts, std::optional<Array> rstds, std::optional<Array> centers) {
  DType dtype = mean.dtype();
  Tile i = bid(0), g = bid(1), n = bid(2);
  auto parameter = [&](const Array& array) { return array.tiled_view(merged_shape).load({g, i}).astype(dtype); };
  auto store = [&](const Array& array, const Tile& values) { array[{n}].tiled_view(merged_shape).store({g, i}, values); };
  Tile r = load_groups(rstd, n, g).expand_dims(1).broadcast_to(merged_shape), m = load_groups(mean, n, g).expand_dims(1);
  Tile scale = weight ? r * parameter(*weight) : r;
  store(scales, scale);
  store(shifts, bias ? parameter(*bias) - m * scale : -(m * scale));
  if (rstds) store(*rstds, r);
  if (centers) store(*centers, -(m * r));
}

// act(x scale + shift): blocks of (pixel tile, channel tile, image).
void apply_kernel(Array x, Array scales, Array shifts, Array y, bool silu, int channels, int pixels, int axis) {
  Layout at{channels, pixels, axis, compute_dtype(x.dtype())};
  Tile k = bid(0), tile = bid(1), n = bid(2);
  Tile v = RowView(x, n, channels, pixels, axis).load(tile, k).astype(at.dtype);
  Tile z = fma(v, at.load(scales[{n}], tile), at.load(shifts[{n}], tile));
  RowView(y, n, channels, pixels, axis).store(tile, k, silu ? z * sigmoid(z) : z);
}

// What comes in before the activation: grad silu'(x scale + shift).
Tile grad_affine(const Tile& grad, const Tile& x, const Tile& scale, const Tile& shift, bool silu) {
  if (!silu) return grad;
  Tile z = fma(x, scale, shift);
  Tile s = sigmoid(z);
  return grad * s * fma(z, 1 - s, ones({}, z.dtype()));
}

// Sums of channels over a part of the pixels, of dz xhat and of dz; blocks and parts as of moments_kernel.
void sums_kernel(Array g, Array x, Array scales, Array shifts, Array rstds, Array centers, Array sums_w, Array sums_b, Tile tiles,
                 bool silu, int channels, int pixels, int axis) {
  Layout at{channels, pixels, axis, compute_dtype(x.dtype())};
  Tile tile = bid(1), n = bid(2);
  auto load = [&](const Array& array) { return at.load(array[{n}], tile); };
  Tile scale = load(scales), shift = load(shifts), rstd = load(rstds), center = load(centers);
  RowView in(x, n, channels, pixels, axis), grad(g, n, channels, pixels, axis);
  Tile low = bid(0) * tiles;
  Tile sum_w = zeros(at.one(), at.dtype), sum_b = zeros(at.one(), at.dtype);
  for (Tile k : range(low, min(low + tiles, in.steps()))) {
    Tile v = in.load(tile, k).astype(at.dtype);
    Tile dz = grad_affine(grad.load(tile, k).astype(at.dtype), v, scale, shift, silu);
    sum_w += (dz * fma(v, rstd, center)).sum(axis, true);
    sum_b += dz.sum(axis, true);
  }
  sums_w[{n}].tiled_view({1, channels}).store({bid(0), tile}, sum_w.reshape({1, channels}));
  sums_b[{n}].tiled_view({1, channels}).store({bid(0), tile}, sum_b.reshape({1, channels}));
}

// Each channel's sums from the parts, and dx = dz scale + x slope + center of its group, all [N, G, C / G]:
// dx = rstd (w dz - mean(w dz) - xhat mean(w dz xhat)).
void merge_sums_kernel(Array parts_w, Array parts_b, std::optional<Array> weight, Array mean, Array rstd, Array sums_w,
                       Array sums_b, Array slopes, Array centers, Tile pixels) {
  DType dtype = parts_w.dtype();
  Tile g = bid(0), n = bid(1), channels = parts_w.dim(3);
  auto store = [&](const Array& array, const Tile& i, const Tile& values) {
    array[{n}].tiled_view(merged_shape).store({g, i}, values);
  };
  Tile total_w = zeros({merged_groups}, dtype), total_b = zeros({merged_groups}, dtype);
  for (Tile i : range(cdiv(channels, merged_channels))) {
    Tile w = load_parts(parts_w, n, g, i).sum(0), b = load_parts(parts_b, n, g, i).sum(0);
    store(sums_w, i, w);
    store(sums_b, i, b);
    Tile scale = weight ? weight->tiled_view(merged_shape).load({g, i}).astype(dtype) : ones(merged_shape, dtype);
    total_w += (w * scale).sum(1);
    total_b += (b * scale).sum(1);
  }
  Tile count = channels.astype(dtype) * pixels.astype(dtype), r = load_groups(rstd, n, g);
  Tile slope = -(r * r * (total_w / count));
  Tile center = -(r * (total_b / count)) - slope * load_groups(mean, n, g);
  for (Tile i : range(cdiv(channels, merged_channels))) {
    store(slopes, i, slope.expand_dims(1));
    store(centers, i, center.expand_dims(1));
  }
}

void apply_backward_kernel(Array g, Array x, Array scales, Array shifts, Array slopes, Array centers, Array dx, bool silu,
                           int channels, int pixels, int axis) {
  Layout at{channels, pixels, axis, compute_dtype(x.dtype())};
  Tile k = bid(0), tile = bid(1), n = bid(2);
  auto load = [&](const Array& array) { return at.load(array[{n}], tile); };
  Tile scale = load(scales), v = RowView(x, n, channels, pixels, axis).load(tile, k).astype(at.dtype);
  Tile dz = grad_affine(RowView(g, n, channels, pixels, axis).load(tile, k).astype(at.dtype), v, scale, load(shifts), silu);
  RowView(dx, n, channels, pixels, axis).store(tile, k, fma(dz, scale, fma(v, load(slopes), load(centers))));
}

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
      for (at::Tensor& tensor : tensors_) tensor = tensor.is_same(result_) ? at::empty_like(tensor, at::MemoryFormat::Contiguous) : tensor.contiguous();
      view();
    }
    const ArrayArgument& whole = views_[0];
    images = whole.sizes[0], channels = whole.sizes[1], pixels = whole.sizes[2];
    axis = pixels == 1 || (channels > 1 && whole.strides[1] < whole.strides[2]) ? 0 : 1;
    if (axis) tile = pixels <= 1024 ? Extents{64, 1024} : Extents{16, 4096};
    else tile = channels <= 64 ? Extents{64, 1024} : Extents{512, 128};
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
  for (int i = array.rank++; i > axis; --i) array.sizes[i] = array.sizes[i - 1], array.strides[i] = array.strides[i - 1];
  array.sizes[axis + 1] = array.sizes[axis] / groups;
  array.sizes[axis] = groups;
  array.strides[axis] = array.strides[axis + 1] * array.sizes[axis + 1];
  return array;
}
ArrayArgument grouped(const at::Tensor& tensor, int axis, int64_t groups) {
  return grouped(to_array_argument(tensor), axis, groups);
}

Grid coefficient_grid(const Images& images, int64_t groups) {
  return {ceil_div(images.channels / groups, merged_channels), ceil_div(groups, merged_groups), images.images};
}

using Optional = std::optional<at::Tensor>;

void forward(const at::Tensor& input, int64_t groups, const Optional& weight, const Optional& bias, double eps, bool silu,
             const at::Tensor& out, const Optional& saved_mean, const Optional& saved_rstd) {
  if (out.numel() == 0) return;
  Images images({out, input});
  const auto [channels, pixels] = images.tile;
  const int64_t group = images.channels / groups;
  const auto split_vector = [&](const Optional& vector) {
    return vector ? std::optional(grouped(*vector, 0, groups)) : std::nullopt;
  };
  if (images.axis && (images.images * groups >= 8 || group * images.pixels <= 32768)) {
    fused.launch({groups, images.images}, grouped(images[1], 1, groups), split_vector(weight), split_vector(bias),
                 grouped(images[0], 1, groups), saved_mean, saved_rstd, eps, silu, channels, pixels);
    images.finish();
    return;
  }
  const auto options = input.options().dtype(compute_dtype(input.scalar_type()));
  const at::Tensor mean = saved_mean ? *saved_mean : at::empty({images.images, groups}, options);
  const at::Tensor rstd = saved_rstd ? *saved_rstd : at::empty({images.images, groups}, options);
  const Parts split = images.split();
  const at::Tensor means = at::empty({images.images, split.blocks, images.channels}, options), squares = at::empty_like(means);
  const at::Tensor scales = at::empty({images.images, images.channels}, options), shifts = at::empty_like(scales);
  moments.launch({split.blocks, images.tiles().y, images.images}, images[1], means, squares, static_cast<int>(split.tiles),
                 channels, pixels, images.axis);
  merge.launch({ceil_div(groups, merged_groups), images.images}, grouped(means, 2, groups), grouped(squares, 2, groups), mean,
               rstd, static_cast<int>(images.pixels), static_cast<int>(split.tiles * pixels), eps);
  coefficients.launch(coefficient_grid(images, groups), mean, rstd, split_vector(weight), split_vector(bias),
                      grouped(scales, 1, groups), grouped(shifts, 1, groups), std::nullopt, std::nullopt);
  apply.launch(images.tiles(), images[1], scales, shifts, images[0], silu, channels, pixels, images.axis);
  images.finish();
}

void backward(const at::Tensor& grad_out, const at::Tensor& input, int64_t groups, const Optional& weight, const Optional& bias,
              bool silu, const at::Tensor& mean, const at::Tensor& rstd, const Optional& grad_input, const Optional& grad_weight,
              const Optional& grad_bias) {
  // No image with a pixel: the sums are 0.
  const int64_t n = input.numel() ? input.size(0) : 0;
  const auto per_channel = [&] { return at::empty({n, input.size(1)}, mean.options()); };
  const at::Tensor sums_w = per_channel(), sums_b = per_channel();
  if (n) {
    Images images({grad_input.value_or(input), grad_out, input});
    const auto [channels, pixels] = images.tile;
    const auto by_group = [&](const at::Tensor& tensor) { return grouped(tensor, 1, groups); };
    const auto split_vector = [&](const Optional& vector) {
      return vector ? std::optional(grouped(*vector, 0, groups)) : std::nullopt;
    };
    const at::Tensor scales = per_channel(), shifts = per_channel(), rstds = per_channel(), centers = per_channel();
    coefficients.launch(coefficient_grid(images, groups), mean, rstd, split_vector(weight), split_vector(bias), by_group(scales),
                        by_group(shifts), by_group(rstds), by_group(centers));
    const Parts split = images.split();
    const at::Tensor parts_w = at::empty({n, split.blocks, images.channels}, mean.options()), parts_b = at::empty_like(parts_w);
    sums.launch({split.blocks, images.tiles().y, n}, images[1], images[2], scales, shifts, rstds, centers, parts_w, parts_b,
                static_cast<int>(split.tiles), silu, channels, pixels, images.axis);
    const at::Tensor slopes = per_channel();
    merge_sums.launch({ceil_div(groups, merged_groups), n}, grouped(parts_w, 2, groups), grouped(parts_b, 2, groups),
                      split_vector(weight), mean, rstd, by_group(sums_w), by_group(sums_b), by_group(slopes), by_group(centers),
                      static_cast<int>(images.pixels));
    if (grad_input) {
      apply_backward.launch(images.tiles(), images[1], images[2], scales, shifts, slopes, centers, images[0], silu, channels,
                            pixels, images.axis);
      images.finish();
    }
  }
  if (grad_weight) sum_parts(sums_w, *grad_weight);
  if (grad_bias) sum_parts(sums_b, *grad_bias);
}

const auto group_norm_ =
    op("tile::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-5, *, "
       "str activation=\"none\") -> Tensor out")
        .saves("Tensor mean, Tensor rstd")
        .outputs([](const at::Tensor& input, int64_t num_groups, const Optional& weight, const Optional& bias, double,
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
          return at::empty_like(input);
        })
        .saved_outputs([](const at::Tensor& input, int64_t num_groups, const Optional&, const Optional&, double,
                          const std::string&) {
          const auto statistics = [&] {
            return at::empty_symint({input.sym_size(0), num_groups}, input.options().dtype(compute_dtype(input.scalar_type())));
          };
          return std::tuple(statistics(), statistics());
        })
        .run([](const at::Tensor& input, int64_t num_groups, const Optional& weight, const Optional& bias, double eps,
                const std::string& activation, at::Tensor& out, const Optional& mean, const Optional& rstd) {
          forward(input, num_groups, weight, bias, eps, activation == "silu", out, mean, rstd);
        })
        .fold({"input"})
        .autocast("keep", "fp32")
        .grad("tile::group_norm_backward");

const auto group_norm_backward_ =
    op("tile::group_norm_backward(Tensor grad_out, Tensor input, int num_groups, Tensor? weight, Tensor? bias, str activation, "
       "Tensor mean, Tensor rstd, bool[3] output_mask) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)")
        .outputs([](const at::Tensor&, const at::Tensor& input, int64_t, const Optional& weight, const Optional& bias,
                    const std::string&, const at::Tensor&, const at::Tensor&, std::array<bool, 3> output_mask) {
          return std::tuple(output_mask[0] ? at::empty_like(input) : at::Tensor(), parameter_gradient(output_mask[1], weight),
                            parameter_gradient(output_mask[2], bias));
        })
        .run([](const at::Tensor& grad_out, const at::Tensor& input, int64_t num_groups, const Optional& weight,
                const Optional& bias, const std::string& activation, const at::Tensor& mean, const at::Tensor& rstd,
                std::array<bool, 3>, const Optional& grad_input, const Optional& grad_weight, const Optional& grad_bias) {
          backward(grad_out, input, num_groups, weight, bias, activation == "silu", mean, rstd, grad_input, grad_weight, grad_bias);
        })
        .fold({"grad_out", "input", "mean", "rstd"}, {"grad_weight", "grad_bias"});

}  // namespace
}  // namespace tile
