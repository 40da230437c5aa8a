// Tensors of group_norm as [N, C, pixels], and the tiles that suit them.
#pragma once
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "../../common/partial_sums.h"
#include "../../common/tuning.h"
#include "gpu_kernels.h"
#include "passes.h"

namespace tile::group_norm {

// A CPU merges parts in rows of all channels, since a group's are few, then the channels of some groups.
inline constexpr Merged cpu_rows{64, 1, 64}, cpu_groups{1, 32, 16};
// The channels of saved statistics, which have no parts.
inline constexpr Merged saved_groups{1, 8, 64};

struct Extents {
  int channels, pixels;
};
// Returns the extents of a tile that registers hold.
inline Extents gpu_tile(int64_t pixels, int axis) {
  if (!axis) return {64, 128};
  if (pixels <= 64) return {256, 64};
  if (pixels <= 256) return {64, 256};
  if (pixels <= 1024) return {16, 1024};
  return pixels <= 4096 ? Extents{1, 4096} : Extents{1, 16384};
}

// The tile of kernels that pass over an image: 4096 elements, 16 for each of 256 threads.
inline Extents stream_tile(int64_t pixels, int axis) {
  if (!axis || pixels <= 64) return {64, 64};
  if (pixels <= 256) return {16, 256};
  return pixels <= 1024 ? Extents{4, 1024} : Extents{1, 4096};
}

// Tensors as [N, C, pixels], the result first (unless `writes` is false: then all are only read); contiguous
// copies where the pixels are no single axis.
class Images {
 public:
  explicit Images(std::vector<at::Tensor> tensors, bool streams = false, bool writes = true)
      : tensors_(std::move(tensors)), result_(tensors_[0]) {
    if (!view()) {
      for (at::Tensor& tensor : tensors_) {
        const bool result = writes && &tensor == &tensors_[0];
        tensor = result ? at::empty_like(tensor, at::MemoryFormat::Contiguous) : tensor.contiguous();
      }
      view();
    }
    const ArrayArgument& first = views_[0];
    images = first.sizes[0], channels = first.sizes[1], pixels = first.sizes[2];
    axis = pixels == 1 || (channels > 1 && first.strides[1] < first.strides[2]) ? 0 : 1;
    on_gpu = first.device == DeviceKind::cuda;
    if (on_gpu)
      tile = streams ? stream_tile(pixels, axis) : gpu_tile(pixels, axis);
    else if (axis)
      tile = pixels <= 1024 ? Extents{64, 1024} : Extents{16, 4096};
    else
      tile = {512, 128};  // more pixels: sums along them that round more than torch's
  }
  // Takes a CPU's tile of adjacent channels beyond which none of a U-Net's lies. No more widths than that, so
  // that kernels stay few.
  void fit_channels() {
    if (!on_gpu && axis == 0 && channels % tuning::unet_channels == 0) tile.channels = tuning::unet_channels;
  }
  TileSize size() const { return {tile.channels, tile.pixels, axis}; }
  bool holds_group(int64_t groups) const {
    return channels / groups <= tile.channels && pixels <= tile.pixels;
  }
  // Returns true if the channels of all are one run of memory.
  bool dense() const {
    return std::all_of(views_.begin(), views_.end(),
                       [&](const ArrayArgument& a) { return a.strides[2] == 1 && a.strides[1] == pixels; });
  }
  // Groups that are a tile of a kernel which keeps `count` tensors of them in registers; 0: these hold none.
  // A power of two, so that the number of kernels is bounded and no tile has an edge.
  int64_t groups_a_tile(int64_t groups, int64_t count) const {
    if (!on_gpu || !std::has_single_bit(static_cast<uint64_t>(pixels))) return 0;
    const int64_t elements = channels / groups * pixels;
    const int64_t bytes = count * elements * info(views_[0].dtype).bytes, most = most_tile_bytes(views_[0]);
    if (axis)
      return dense() && elements % 256 == 0 &&
             (bytes <= most || count * elements <= tuning::group_kept_elements);
    // Rows of at least two sectors of memory, in whole vectors; of one, where blocks would have twice the
    // threads.
    const int64_t row = channels / groups * info(views_[0].dtype).bytes;
    // An odd number of channels leaves lanes idle: distributed over a cluster that takes longer than three
    // launches.
    constexpr int64_t block_bytes = 64 * 1024;
    const bool even = std::has_single_bit(static_cast<uint64_t>(channels / groups));
    int64_t best = 0;
    for (int64_t n = 1; n <= groups && n * bytes <= (best ? most / 2 : most) && best * row < 64; n *= 2)
      if (groups % n == 0 && (even || n * bytes <= block_bytes) && n * row % 16 == 0 &&
          (n * row >= 32 || n == groups))
        best = n;
    return best;
  }
  // Returns the argument of hint_threads: half as many for a long group, whose blocks wait for each
  // other at every sum. Where clusters are small, registers would spill.
  int thread_hint(int64_t groups) const {
    constexpr int64_t large_cluster_bytes = int64_t{1} << 20;
    const bool halves = info(views_[0].dtype).bytes == 2 && channels / groups * pixels > tuning::long_group;
    return axis && halves && most_tile_bytes(views_[0]) >= large_cluster_bytes ? -1 : 0;
  }
  GroupSize groups_size(int64_t groups, int64_t together) const {
    return {static_cast<int>(together), static_cast<int>(channels / groups), static_cast<int>(pixels),
            axis ? 2 : 0};
  }
  // The arrays of such a kernel: [N, G, elements of a group], of channels_last [N, pixels, C].
  ArrayArgument in_tiles(size_t i, int64_t groups) const {
    ArrayArgument array = views_[i];
    if (axis) {
      array.sizes[1] = groups;
      array.sizes[2] = channels / groups * pixels;
      array.strides[1] = array.sizes[2];
    } else {
      std::swap(array.sizes[1], array.sizes[2]);
      std::swap(array.strides[1], array.strides[2]);
    }
    return array;
  }
  // Calls f(grid, tiles) to launch a kernel over all pixel tiles: a GPU's blocks loop over some each.
  template <class F>
  void each_pixel_tile(F f) const {
    if (!on_gpu) return f(tiles(), std::nullopt);
    const Parts looped = parts(tiles().x, images * tiles().y, tuning::group_loop_blocks);
    f({looped.blocks, tiles().y, images}, static_cast<int>(looped.tiles));
  }
  // Returns true if a block a group is blocks enough, and the group small enough for one.
  bool fits_blocks(int64_t groups) const {
    const int64_t elements = channels / groups * pixels;
    const int64_t blocks = images * groups;
    return axis && (elements <= tuning::small_group ||
                    (on_gpu ? blocks >= tuning::enough_gpu_groups && elements <= tuning::large_gpu_group
                            : blocks >= tuning::enough_cpu_groups));
  }
  // Returns true if fused_backward_kernel takes less time than the three kernels: a block's fixed cost is
  // small beside its group, and its kept values fit in registers.
  bool fuses_backward(int64_t groups) const {
    const bool wide = compute_dtype(views_[0].dtype) == views_[0].dtype;
    return !on_gpu && fits_blocks(groups) && channels / groups * pixels >= tuning::fused_gradient_group &&
           (wide || holds_group(groups));
  }
  const ArrayArgument& operator[](size_t i) const { return views_[i]; }
  // To be called after the last launch.
  void finish() {
    if (!tensors_[0].is_same(result_)) result_.copy_(tensors_[0]);
  }

  int64_t images, channels, pixels;
  int axis;
  bool on_gpu;
  Extents tile;
  Grid tiles() const { return {ceil_div(pixels, tile.pixels), ceil_div(channels, tile.channels), images}; }
  // Blocks that each add up some pixel tiles, no more than the kernel that merges them takes; on a CPU about
  // so many.
  Parts split(const Merged& merged, int64_t wanted_on_gpu) const {
    const Parts split = parts(tiles().x, images * tiles().y, on_gpu ? wanted_on_gpu : merged.parts);
    const int64_t each = std::max(split.tiles, ceil_div(tiles().x, merged.parts));
    return {ceil_div(tiles().x, each), each};
  }

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

}  // namespace tile::group_norm
