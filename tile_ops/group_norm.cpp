// group_norm with an optional SiLU, in the operator's own memory order, and its gradient.
#include "norm.h"
#include "partials.h"

namespace tile {
namespace {

// Statistics of two parts, of `count` and `n` values, become those of both (Chan). A mean is the sum of two tiles, the
// second what rounding took from the first: a mean of thousands of deviations would else be off by a part of one.
struct Moments {
  Tile count, mean, low, square;
  void merge(const Tile& n, const Tile& m, const Tile& l, const Tile& q) {
    Tile total = count + n, part = n / total, delta = (m - mean) + (l - low);
    square += q + delta * delta * (count * part);
    Tile step = (m - mean) * part, next = mean + step;
    low += (l - low) * part + (step - (next - mean));
    mean = next;
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
  Moments all{zeros({}, at.dtype), zeros(at.one(), at.dtype), zeros(at.one(), at.dtype), zeros(at.one(), at.dtype)};
  for (Tile k : range(low, high)) {
    Tile v = x.load(tile, k).astype(at.dtype), n = min(pixels - k * at.pixels, at.pixels).astype(at.dtype);
    Tile m = v.sum(at.axis, true) / n;
    Tile d = inside_row(v - m, k, at.pixels, at.axis, pixels);
    Tile l = d.sum(at.axis, true) / n;
    all.merge(n, m, l, (d * d).sum(at.axis, true) - l * l * n);
  }
  return all;
}

// Adds a tile of channels, of `pixels` values each, to the statistics of their group; channels past the end are 0.
void add_channels(Moments& group, const Tile& mean, const Tile& low, const Tile& square, const Tile& tile, const Tile& channels,
                  const Tile& pixels, int extent, DType dtype) {
  Tile n = min(channels - tile * extent, extent).astype(dtype);
  Tile m = mean.sum(0) / n;
  Tile d = where(arange(extent) + tile * extent < channels, (mean - m) + low, 0);
  Tile l = d.sum(0) / n;
  group.merge(n * pixels, m, l, square.sum(0) + ((d * d).sum(0) - l * l * n) * pixels);
}

void put(const Array& array, const Tile& n, const Tile& g, const Tile& value) {
  array.tiled_view({1, 1}).store({n, g}, value.reshape({1, 1}));
}

Tile affine(Tile x, const std::optional<Tile>& weight, const std::optional<Tile>& bias) {
  if (weight) x *= *weight;
  if (bias) x += *bias;
  return x;
}

// One block a group; arrays are [N, G, C / G, pixels], weight and bias [G, C / G].
void fused_kernel(Array x, std::optional<Array> weight, std::optional<Array> bias, Array y, std::optional<Array> mean,
                  std::optional<Array> rstd, Tile eps, bool silu, int channels, int pixels) {
  Layout at{channels, pixels, 1, compute_dtype(x.dtype())};
  Tile g = bid(0), n = bid(1), extent = x.dim(3);
  Array image = x[{n}], result = y[{n}];
  RowView in(image, g, channels, pixels, 1), out(result, g, channels, pixels, 1);
  Moments group{zeros({}, at.dtype), zeros({}, at.dtype), zeros({}, at.dtype), zeros({}, at.dtype)};
  for (Tile i : range(cdiv(x.dim(2), channels))) {
    Moments each = channel_moments(in, i, 0, in.steps(), extent, at);
    add_channels(group, each.mean.reshape({channels}), each.low.reshape({channels}), each.square.reshape({channels}), i, x.dim(2), extent.astype(at.dtype),
                 channels, at.dtype);
  }
  Tile r = 1 / sqrt(group.square / group.count + eps.astype(at.dtype));
  if (mean) put(*mean, n, g, group.mean + group.low);
  if (rstd) put(*rstd, n, g, r);
  for (Tile i : range(cdiv(x.dim(2), channels))) {
    Tile scale = weight ? at.load((*weight)[{g}], i) * r : full(at.one(), r, at.dtype);
    Tile shift = -(group.low * scale);
    if (bias) shift += at.load((*bias)[{g}], i);
    for (Tile k : range(in.steps())) {
      Tile z = (in.load(i, k).astype(at.dtype) - group.mean) * scale + shift;
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
  means[{bid(2)}].tiled_view({1, channels}).store({bid(0), bid(1)}, (all.mean + all.low).reshape({1, channels}));
  squares[{bid(2)}].tiled_view({1, channels}).store({bid(0), bid(1)}, all.square.reshape({1, channels}));
}

constexpr int merged_parts = 64, merged_channels = 64;

// Channels of a group in all parts, from an array [N, parts, G, C / G].
View parts_view(const Array& parts, const Tile& n, const Tile& g, int rows) {
  return parts.permute({0, 2, 1, 3})[{n, g}].tiled_view({rows, merged_channels});
}
Tile load_parts(const Array& parts, const Tile& n, const Tile& g, const Tile& i) {
  return parts_view(parts, n, g, merged_parts).load({0, i});
}

// Merges the parts of a group's channels; a part has `span` pixels, the last one what is left.
void merge_kernel(Array means, Array squares, Array mean, Array rstd, Tile pixels, Tile span, Tile eps) {
  DType dtype = means.dtype();
  Tile g = bid(0), n = bid(1), channels = means.dim(3);
  Tile all = pixels.astype(dtype);
  Tile count = max(min(pixels - arange(merged_parts) * span, span), 0).astype(dtype).expand_dims(1);
  Moments group{zeros({}, dtype), zeros({}, dtype), zeros({}, dtype), zeros({}, dtype)};
  for (Tile i : range(cdiv(channels, merged_channels))) {
    Tile m = load_parts(means, n, g, i);
    // Around the first part: the sum of means themselves would round in units of a large one.
    Tile pivot = parts_view(means, n, g, 1).load({0, i});
    Tile center = pivot + ((m - pivot) * count).sum(0, true) / all;
    Tile d = m - center;
    Tile square = load_parts(squares, n, g, i).sum(0) + (d * d * count).sum(0);
    add_channels(group, center.reshape({merged_channels}), zeros({merged_channels}, dtype), square, i, channels, all, merged_channels, dtype);
  }
  put(mean, n, g, group.mean + group.low);
  put(rstd, n, g, 1 / sqrt(group.square / group.count + eps.astype(dtype)));
}

// A tile of channels of any groups: their mean and rstd, weight and bias, along the tile.
struct Channels {
  Layout at;
  Tile mean, rstd;
  std::optional<Tile> weight, bias;

  Channels(const Array& means, const Array& rstds, const std::optional<Array>& weights, const std::optional<Array>& biases,
           const Tile& n, const Tile& tile, const Tile& group, Layout at)
      : at(at), mean(each(means, n, tile, group)), rstd(each(rstds, n, tile, group)) {
    if (weights) weight.emplace(at.load(*weights, tile));
    if (biases) bias.emplace(at.load(*biases, tile));
  }
  Tile each(const Array& of_groups, const Tile& n, const Tile& tile, const Tile& group) const {
    return at.vector(gather(of_groups[{n}], {floordiv(tile * at.channels + arange(at.channels), group)}));
  }
};

// act(x scale + shift): blocks of (pixel tile, channel tile, image).
void apply_kernel(Array x, Array mean, Array rstd, std::optional<Array> weight, std::optional<Array> bias, Array y, Tile group,
                  bool silu, int channels, int pixels, int axis) {
  Channels c(mean, rstd, weight, bias, bid(2), bid(1), group, {channels, pixels, axis, compute_dtype(x.dtype())});
  Tile scale = c.weight ? c.rstd * *c.weight : c.rstd;
  // The mean goes first: a shift of bias - mean * scale would round in units of a large mean.
  Tile z = (RowView(x, bid(2), channels, pixels, axis).load(bid(1), bid(0)).astype(c.at.dtype) - c.mean) * scale;
  if (c.bias) z += *c.bias;
  RowView(y, bid(2), channels, pixels, axis).store(bid(1), bid(0), silu ? z * sigmoid(z) : z);
}

// What comes in before the activation: grad silu'(z).
Tile grad_affine(const Tile& grad, const Tile& xhat, const Channels& c, bool silu) {
  if (!silu) return grad;
  Tile z = affine(xhat, c.weight, c.bias);
  Tile s = 1 / (1 + exp(-z));  // an ulp better than sigmoid(): a sum over pixels collects it
  return grad * (s * (1 + z * (1 - s)));
}

// Sums of channels over a part of the pixels, of dz xhat and of dz; blocks and parts as of moments_kernel.
void sums_kernel(Array g, Array x, Array mean, Array rstd, std::optional<Array> weight, std::optional<Array> bias, Array sums_w,
                 Array sums_b, Tile group, Tile tiles, bool silu, int channels, int pixels, int axis) {
  Channels c(mean, rstd, weight, bias, bid(2), bid(1), group, {channels, pixels, axis, compute_dtype(x.dtype())});
  RowView in(x, bid(2), channels, pixels, axis), grad(g, bid(2), channels, pixels, axis);
  Tile low = bid(0) * tiles, tile = bid(1);
  Tile sum_w = zeros(c.at.one(), c.at.dtype), sum_b = zeros(c.at.one(), c.at.dtype);
  for (Tile k : range(low, min(low + tiles, in.steps()))) {
    Tile xhat = (in.load(tile, k).astype(c.at.dtype) - c.mean) * c.rstd;
    Tile dz = grad_affine(grad.load(tile, k).astype(c.at.dtype), xhat, c, silu);
    sum_w += (dz * xhat).sum(axis, true);
    sum_b += dz.sum(axis, true);
  }
  sums_w[{bid(2)}].tiled_view({1, channels}).store({bid(0), tile}, sum_w.reshape({1, channels}));
  sums_b[{bid(2)}].tiled_view({1, channels}).store({bid(0), tile}, sum_b.reshape({1, channels}));
}

// A group's means of w dz xhat and of w dz, from the parts; and each channel's sums, [N, G, C / G].
void merge_sums_kernel(Array parts_w, Array parts_b, std::optional<Array> weight, Array mean_w, Array mean_b, Array sums_w,
                       Array sums_b, Tile pixels) {
  DType dtype = parts_w.dtype();
  Tile g = bid(0), n = bid(1), channels = parts_w.dim(3);
  Tile total_w = zeros({}, dtype), total_b = zeros({}, dtype);
  for (Tile i : range(cdiv(channels, merged_channels))) {
    Tile w = load_parts(parts_w, n, g, i).sum(0), b = load_parts(parts_b, n, g, i).sum(0);
    sums_w[{n, g}].tiled_view({merged_channels}).store({i}, w);
    sums_b[{n, g}].tiled_view({merged_channels}).store({i}, b);
    Tile scale = weight ? (*weight)[{g}].tiled_view({merged_channels}).load({i}).astype(dtype) : ones({merged_channels}, dtype);
    total_w += (w * scale).sum(0);
    total_b += (b * scale).sum(0);
  }
  Tile count = channels.astype(dtype) * pixels.astype(dtype);
  put(mean_w, n, g, total_w / count);
  put(mean_b, n, g, total_b / count);
}

// dx = rstd (w dz - mean(w dz) - xhat mean(w dz xhat)).
void apply_backward_kernel(Array g, Array x, Array mean, Array rstd, std::optional<Array> weight, std::optional<Array> bias,
                           Array mean_w, Array mean_b, Array dx, Tile group, bool silu, int channels, int pixels, int axis) {
  Tile n = bid(2), tile = bid(1), k = bid(0);
  Channels c(mean, rstd, weight, bias, n, tile, group, {channels, pixels, axis, compute_dtype(x.dtype())});
  Tile xhat = (RowView(x, n, channels, pixels, axis).load(tile, k).astype(c.at.dtype) - c.mean) * c.rstd;
  Tile dz = grad_affine(RowView(g, n, channels, pixels, axis).load(tile, k).astype(c.at.dtype), xhat, c, silu);
  // The means are taken off before rstd multiplies: it is large where a group is nearly constant.
  Tile wdz = c.weight ? dz * *c.weight : dz;
  Tile dv = wdz - c.each(mean_b, n, tile, group) - xhat * c.each(mean_w, n, tile, group);
  RowView(dx, n, channels, pixels, axis).store(tile, k, dv * c.rstd);
}

Kernel fused("group_norm", fused_kernel);
Kernel moments("group_norm_moments", moments_kernel);
Kernel merge("group_norm_merge", merge_kernel);
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
    if (axis) tile = pixels < 1024 ? Extents{128, 64} : Extents{8, 1024};
    else tile = channels <= 64 ? Extents{64, 256} : Extents{512, 32};
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

using Optional = std::optional<at::Tensor>;

void forward(const at::Tensor& input, int64_t groups, const Optional& weight, const Optional& bias, double eps, bool silu,
             const at::Tensor& out, const Optional& saved_mean, const Optional& saved_rstd) {
  if (out.numel() == 0) return;
  Images images({out, input});
  const auto [channels, pixels] = images.tile;
  const int group = static_cast<int>(images.channels / groups);
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
  moments.launch({split.blocks, images.tiles().y, images.images}, images[1], means, squares, static_cast<int>(split.tiles),
                 channels, pixels, images.axis);
  merge.launch({groups, images.images}, grouped(means, 2, groups), grouped(squares, 2, groups), mean, rstd,
               static_cast<int>(images.pixels), static_cast<int>(split.tiles * pixels), eps);
  apply.launch(images.tiles(), images[1], mean, rstd, weight, bias, images[0], group, silu, channels, pixels, images.axis);
  images.finish();
}

void backward(const at::Tensor& grad_out, const at::Tensor& input, int64_t groups, const Optional& weight, const Optional& bias,
              bool silu, const at::Tensor& mean, const at::Tensor& rstd, const Optional& grad_input, const Optional& grad_weight,
              const Optional& grad_bias) {
  const auto options = mean.options();
  // An empty image: the sums over no images are 0.
  const int64_t n = input.numel() ? input.size(0) : 0;
  const at::Tensor sums_w = at::empty({n, input.size(1)}, options), sums_b = at::empty_like(sums_w);
  if (n) {
    Images images({grad_input.value_or(input), grad_out, input});
    const auto [channels, pixels] = images.tile;
    const int group = static_cast<int>(images.channels / groups);
    const Parts split = images.split();
    const at::Tensor parts_w = at::empty({n, split.blocks, images.channels}, options), parts_b = at::empty_like(parts_w);
    const at::Tensor mean_w = at::empty_like(mean), mean_b = at::empty_like(mean);
    sums.launch({split.blocks, images.tiles().y, n}, images[1], images[2], mean, rstd, weight, bias, parts_w, parts_b, group,
                static_cast<int>(split.tiles), silu, channels, pixels, images.axis);
    merge_sums.launch({groups, n}, grouped(parts_w, 2, groups), grouped(parts_b, 2, groups),
                      weight ? std::optional(grouped(*weight, 0, groups)) : std::nullopt, mean_w, mean_b,
                      grouped(sums_w, 1, groups), grouped(sums_b, 1, groups), static_cast<int>(images.pixels));
    if (grad_input) {
      apply_backward.launch(images.tiles(), images[1], images[2], mean, rstd, weight, bias, mean_w, mean_b, images[0], group,
                            silu, channels, pixels, images.axis);
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
