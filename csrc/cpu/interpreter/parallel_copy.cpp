// Parallel copies of scalars and tiles.
#include "cpu/interpreter/parallel_copy.h"

#include <algorithm>

namespace tile::cpu {

ParallelCopy::ParallelCopy(LoweringContext& lower, const Block* source, const std::vector<Value*>& from,
                           const std::vector<const Value*>& to) {
  std::vector<int> exchanged;
  for (size_t i = 0; i < from.size(); ++i) {
    const Value *value = from[i], *target = to[i];
    if (value == target) continue;
    if (value->type.is_scalar()) {
      scalars_.push_back({lower.scalar(value), lower.scalar(target)});
      continue;
    }
    TileMove move{TileMove::Kind::copy,     lower.tile(value), lower.tile(target), -1,
                  lower.owned_slot(target), value->type.rank()};
    int slot = lower.slot_or_none(value);
    if (slot == move.to_slot && slot >= 0) {
      move.kind = TileMove::Kind::rename;
    } else if (slot >= 0 && source && value->owner == source && value->definition &&
               lower.exchangeable(slot, move.to_slot) &&
               std::find(exchanged.begin(), exchanged.end(), slot) == exchanged.end()) {
      move.kind = TileMove::Kind::exchange;
      move.from_slot = slot;
      exchanged.push_back(slot);
    } else {
      move.from_slot = lower.new_slot(value->type);  // a spare slot
    }
    tiles_.push_back(move);
  }
}

void ParallelCopy::run(Frame& frame) const {
  // Everything is read before anything is written.
  Scalar few[16];
  std::vector<Scalar> many;
  Scalar* values = few;
  if (scalars_.size() > 16) {
    many.resize(scalars_.size());
    values = many.data();
  }
  for (size_t i = 0; i < scalars_.size(); ++i)
    values[i] = frame.scalars[static_cast<size_t>(scalars_[i].from)];

  size_t mark = frame.scratch.mark();
  auto* refs = frame.scratch.take_array<TileRef>(tiles_.size());
  for (size_t i = 0; i < tiles_.size(); ++i) {
    const TileMove& move = tiles_[i];
    refs[i] = frame.tiles[static_cast<size_t>(move.from)];
    if (move.kind != TileMove::Kind::copy) continue;
    char* spare = frame.slots[static_cast<size_t>(move.from_slot)];
    int64_t extents[max_rank];
    for (int a = 0; a < move.rank; ++a) extents[a] = refs[i].axes[a].extent;
    copy_lanes(refs[i], move.rank, extents, spare);
    refs[i] = dense_lanes(spare, refs[i].dtype, move.rank, extents);
  }
  for (size_t i = 0; i < tiles_.size(); ++i) {
    const TileMove& move = tiles_[i];
    frame.tiles[static_cast<size_t>(move.to)] = refs[i];
    if (move.kind != TileMove::Kind::rename)
      std::swap(frame.slots[static_cast<size_t>(move.from_slot)],
                frame.slots[static_cast<size_t>(move.to_slot)]);
  }
  frame.scratch.release(mark);
  // Scalars are written last, because a tile may be a view of a scalar.
  for (size_t i = 0; i < scalars_.size(); ++i) frame.scalars[static_cast<size_t>(scalars_[i].to)] = values[i];
}

}  // namespace tile::cpu
