// Computes extents and cursors and merges axes.
#include "cpu/exec/fused_loop_space.h"

#include <algorithm>

namespace tile::cpu {

bool FusedLoopSpace::prepare(const FusedLoop& fused_loop, Frame& frame) {
  rank_ = static_cast<int>(fused_loop.shape.size());
  ready_ = false;
  inputs = memory_.take_array<Cursor>(fused_loop.inputs.size());
  outputs = memory_.take_array<Cursor>(fused_loop.outputs.size());
  stores = memory_.take_array<Cursor>(fused_loop.stores.size());
  reductions = memory_.take_array<Accumulator>(fused_loop.reductions.size());
  output_tiles = memory_.take_array<TileRef>(fused_loop.outputs.size());
  sources_ = memory_.take_array<TileRef>(fused_loop.inputs.size());
  targets_ = memory_.take_array<TileRef>(fused_loop.stores.size());
  copied_ = memory_.take_array<bool>(fused_loop.inputs.size());
  copy_ = memory_.take_array<TileRef>(fused_loop.inputs.size());
  varies_ = memory_.take_array<uint32_t>(fused_loop.lanes.size());
  if (!find_extents(fused_loop, frame)) return false;
  locate_inputs(fused_loop, frame);
  locate_results(fused_loop, frame);
  collapse(fused_loop);
  return true;
}

bool FusedLoopSpace::fits(const FusedLoop& fused_loop, const Frame& frame) {
  if (!ready_) return false;
  for (size_t k = 0; k < fused_loop.inputs.size(); ++k) {
    const TileRef& tile = frame.tiles[static_cast<size_t>(fused_loop.inputs[k])];
    if (!tile.same_form(sources_[k]) || (copied_[k] && !tile.lanes && tile.data != sources_[k].data))
      return false;
    if (!copied_[k]) inputs[k].data = tile.data;
  }
  for (size_t k = 0; k < fused_loop.stores.size(); ++k) {
    const TileRef tile = target(fused_loop, k, frame);
    if (!tile.same_form(targets_[k])) return false;
    stores[k].data = tile.data;
  }
  for (size_t k = 0; k < fused_loop.inputs.size(); ++k) {
    if (!copied_[k] || !sources_[k].lanes) continue;
    int64_t extents[max_rank];
    for (int i = 0; i < rank_; ++i) extents[i] = copy_[k].axes[i].extent;
    copy_lanes(frame.tiles[static_cast<size_t>(fused_loop.inputs[k])], rank_, extents, copy_[k].data);
  }
  for (size_t k = 0; k < fused_loop.outputs.size(); ++k)
    outputs[k].data = output_tiles[k].data = frame.slots[static_cast<size_t>(fused_loop.outputs[k].slot)];
  for (size_t k = 0; k < fused_loop.reductions.size(); ++k)
    reductions[k].cursor.data = reductions[k].tile.data =
        frame.slots[static_cast<size_t>(fused_loop.reductions[k].slot)];
  return true;
}

TileRef FusedLoopSpace::target(const FusedLoop& fused_loop, size_t store, const Frame& frame) const {
  TileRef tile = fused_loop.stores[store].address.resolve(frame);
  for (int i = 0; i < rank_; ++i)  // a store has no padding element
    tile.axes[i].extent = std::min(tile.axes[i].valid, fused_loop.shape[static_cast<size_t>(i)]);
  return tile;
}

bool FusedLoopSpace::find_extents(const FusedLoop& fused_loop, Frame& frame) {
  std::fill(extent, extent + max_rank + 2, 1);
  for (size_t k = 0; k < fused_loop.stores.size(); ++k) targets_[k] = target(fused_loop, k, frame);
  for (size_t k = 0; k < fused_loop.inputs.size(); ++k)
    sources_[k] = frame.tiles[static_cast<size_t>(fused_loop.inputs[k])];
  if (fused_loop.outputs.empty() &&
      fused_loop.reductions.empty()) {  // only stored elements have to be computed
    bool any = false;
    int64_t most[max_rank] = {};
    for (size_t k = 0; k < fused_loop.stores.size(); ++k) {
      bool empty = false;
      for (int i = 0; i < rank_; ++i) empty |= targets_[k].axes[i].extent <= 0;
      if (empty) continue;
      any = true;
      for (int i = 0; i < rank_; ++i) most[i] = std::max(most[i], targets_[k].axes[i].extent);
    }
    std::copy(most, most + rank_, extent);
    return any;
  }
  for (int i = 0; i < rank_; ++i) {
    for (size_t k = 0; k < fused_loop.inputs.size(); ++k)
      extent[i] = std::max(extent[i], sources_[k].axes[i].extent);
    for (size_t k = 0; k < fused_loop.stores.size(); ++k)
      extent[i] = std::max(extent[i], targets_[k].axes[i].extent);
    extent[i] = std::min(extent[i], fused_loop.shape[static_cast<size_t>(i)]);
  }
  return true;
}

namespace {
FusedLoopSpace::Cursor cursor_of(const TileRef& tile) {
  FusedLoopSpace::Cursor cursor;
  cursor.outside = false;
  cursor.data = tile.data;
  cursor.dtype = tile.dtype;
  cursor.lanes = tile.lanes;
  cursor.streams = tile.streams;
  cursor.pad = tile.pad;
  for (int i = 0; i < tile.rank; ++i) {
    cursor.stride[i] = tile.axes[i].stride;
    cursor.first[i] = tile.axes[i].first;
    cursor.valid[i] = tile.axes[i].valid;
  }
  return cursor;
}
}  // namespace

void FusedLoopSpace::locate_inputs(const FusedLoop& fused_loop, Frame& frame) {
  std::fill(varies_, varies_ + fused_loop.lanes.size(), 0u);
  ready_ = true;
  copies_ = false;
  for (size_t k = 0; k < fused_loop.inputs.size(); ++k) {
    TileRef tile = sources_[k];
    int64_t wanted[max_rank];
    bool copy = false;
    int64_t repeats = 1;
    for (int i = 0; i < rank_; ++i) {
      bool limited = tile.axes[i].valid != unlimited || tile.axes[i].first > 0;
      bool varying = limited || tile.axes[i].extent > 1;
      if (varying && extent[i] > 1) varies_[k] |= 1u << i;
      wanted[i] = varying ? extent[i] : 1;
      if (!varying) repeats *= extent[i];
      copy |= varying && !limited && tile.axes[i].extent < extent[i];
    }
    // Repeated elements are converted once instead of for each repeat.
    copy |= !tile.lanes && repeats > 1;
    copied_[k] = copy;
    copies_ |= copy && !tile.lanes;
    if (copy) {
      // Elements that are still in memory belong to an array that the kernel only reads.
      copy_[k] = tile = materialise(tile, rank_, wanted, keeps_ ? memory_ : frame.scratch);
      ready_ &= keeps_;
    }
    inputs[k] = cursor_of(tile);
    for (int i = 0; i < rank_; ++i) {
      if (!(varies_[k] >> i & 1)) {
        if (wanted[i] == 1 && extent[i] == 1 && (inputs[k].first[i] > 0 || inputs[k].valid[i] < 1))
          inputs[k].outside = true;
        inputs[k].stride[i] = 0;
        inputs[k].first[i] = 0;
        inputs[k].valid[i] = unlimited;
      }
    }
  }
  for (const FusedLoopStep& step : fused_loop.steps)
    for (int k = 0; k < step.arity; ++k) varies_[step.out] |= varies_[step.in[k]];
}

void FusedLoopSpace::locate_results(const FusedLoop& fused_loop, Frame& frame) {
  auto extents_of = [&](uint32_t varies, int64_t* extents) {
    for (int i = 0; i < rank_; ++i) extents[i] = varies >> i & 1 ? extent[i] : 1;
  };
  for (size_t k = 0; k < fused_loop.outputs.size(); ++k) {
    int64_t extents[max_rank];
    extents_of(varies_[fused_loop.outputs[k].value], extents);
    char* const data = frame.slots[static_cast<size_t>(fused_loop.outputs[k].slot)];
    output_tiles[k] = (fused_loop.outputs[k].elements ? dense_elements : dense_lanes)(
        data, fused_loop.outputs[k].dtype, rank_, extents);
    outputs[k] = cursor_of(output_tiles[k]);
    for (int i = 0; i < rank_; ++i)
      if (extents[i] == 1) outputs[k].stride[i] = 0;
  }
  for (size_t k = 0; k < fused_loop.stores.size(); ++k) {
    stores[k] = cursor_of(targets_[k]);
    for (int i = 0; i < rank_; ++i)
      if (extent[i] == 1 && (stores[k].first[i] > 0 || stores[k].valid[i] < 1)) stores[k].outside = true;
  }
  for (size_t k = 0; k < fused_loop.reductions.size(); ++k) {
    const FusedLoopReduction& reduction = fused_loop.reductions[k];
    Accumulator& into = reductions[k];
    int64_t extents[max_rank], kept[max_rank];
    extents_of(summed(reduction), extents);
    int axes = 0;
    for (int i = 0; i < rank_; ++i)
      if (!reduction.reduced[static_cast<size_t>(i)]) kept[axes++] = extents[i];
    into.tile = dense_lanes(frame.slots[static_cast<size_t>(reduction.slot)], reduction.dtype, axes, kept);
    into.cursor = cursor_of(into.tile);
    into.count = 1;
    std::fill(into.cursor.first, into.cursor.first + max_rank, 0);
    std::fill(into.cursor.valid, into.cursor.valid + max_rank, unlimited);
    for (int i = rank_ - 1; i >= 0; --i) {
      bool reduced = reduction.reduced[static_cast<size_t>(i)];
      if (!reduced) into.count *= kept[--axes];
      into.cursor.stride[i] = reduced || extents[i] == 1 ? 0 : into.tile.axes[axes].stride;
      into.reduced[i] = reduced;
      into.last[i] = extents[i] - 1;
      into.weight[i] = reduced ? fused_loop.shape[static_cast<size_t>(i)] - extents[i] + 1 : 1;
    }
  }
}

// Removes axes of extent 1 and merges adjacent axes that every participant traverses like one axis.
void FusedLoopSpace::collapse(const FusedLoop& fused_loop) {
  int map[max_rank];  // for each dimension so far, the innermost of its merged axes
  int64_t length[max_rank + 2];
  int count = 0;
  auto bounded = [](const Cursor& cursor, int i) {
    return cursor.first[i] > 0 || cursor.valid[i] != unlimited;
  };
  auto merges = [&](int outer, int inner) {
    auto even = [&](const Cursor& cursor) {
      return cursor.stride[outer] == cursor.stride[inner] * extent[inner] && !bounded(cursor, outer) &&
             !bounded(cursor, inner);
    };
    for (size_t k = 0; k < fused_loop.inputs.size(); ++k)
      if (!even(inputs[k]) || (varies_[k] >> outer & 1) != (varies_[k] >> inner & 1)) return false;
    for (size_t k = 0; k < fused_loop.outputs.size(); ++k)
      if (!even(outputs[k])) return false;
    for (size_t k = 0; k < fused_loop.stores.size(); ++k)
      if (!even(stores[k])) return false;
    for (size_t k = 0; k < fused_loop.reductions.size(); ++k) {
      const Accumulator& into = reductions[k];
      if (!even(into.cursor) || into.reduced[outer] != into.reduced[inner] || into.weight[outer] > 1 ||
          into.weight[inner] > 1)
        return false;
    }
    return true;
  };
  for (int i = 0; i < rank_; ++i) {
    bool weighed = false;  // keeps an axis that only has a weight
    for (size_t k = 0; k < fused_loop.reductions.size(); ++k) weighed |= reductions[k].weight[i] > 1;
    if (extent[i] == 1 && !weighed) continue;
    if (count && merges(map[count - 1], i)) {
      length[count - 1] *= extent[i];
      map[count - 1] = i;
    } else {
      map[count] = i;
      length[count++] = extent[i];
    }
  }
  // There are always rows and columns.
  const int lead = std::max(0, 2 - count);
  dims = count + lead;
  auto rearrange = [&](Cursor& cursor) {
    int64_t stride[max_rank + 2], first[max_rank + 2], valid[max_rank + 2];
    for (int d = 0; d < dims; ++d) {
      bool real = d >= lead;
      int axis = real ? map[d - lead] : 0;
      stride[d] = real ? cursor.stride[axis] : 0;
      first[d] = real ? cursor.first[axis] : 0;
      valid[d] = real ? cursor.valid[axis] : unlimited;
    }
    std::copy(stride, stride + dims, cursor.stride);
    std::copy(first, first + dims, cursor.first);
    std::copy(valid, valid + dims, cursor.valid);
  };
  for (size_t k = 0; k < fused_loop.inputs.size(); ++k) rearrange(inputs[k]);
  for (size_t k = 0; k < fused_loop.outputs.size(); ++k) rearrange(outputs[k]);
  for (size_t k = 0; k < fused_loop.stores.size(); ++k) rearrange(stores[k]);
  for (size_t k = 0; k < fused_loop.reductions.size(); ++k) {
    Accumulator& into = reductions[k];
    rearrange(into.cursor);
    bool reduced[max_rank + 2];
    int64_t last[max_rank + 2], weight[max_rank + 2];
    for (int d = 0; d < dims; ++d) {
      bool real = d >= lead;
      int axis = real ? map[d - lead] : 0;
      reduced[d] = real && into.reduced[axis];
      weight[d] = real ? into.weight[axis] : 1;
      last[d] = !real ? 0 : weight[d] > 1 ? into.last[axis] : length[d - lead] - 1;
    }
    std::copy(reduced, reduced + dims, into.reduced);
    std::copy(last, last + dims, into.last);
    std::copy(weight, weight + dims, into.weight);
  }
  for (size_t v = 0; v < fused_loop.lanes.size(); ++v) {
    uint32_t by_dim = 0;
    for (int d = lead; d < dims; ++d) by_dim |= (varies_[v] >> map[d - lead] & 1) << d;
    varies_[v] = by_dim;
  }
  for (int d = 0; d < dims; ++d) extent[d] = d < lead ? 1 : length[d - lead];
}

}  // namespace tile::cpu
