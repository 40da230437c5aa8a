// Gradients of the operands of a text of scores.
#include "score_gradients.h"

namespace tile::attention {
namespace {

void add_to_elements(const Array& table, const std::vector<Tile>& at, const Tile& values, MemoryScope scope) {
  std::vector<Operand> places;
  for (const Tile& index : at) places.push_back(index);
  atomic_add(table, places, values, {.order = MemoryOrder::relaxed, .scope = scope});
}

}  // namespace

void backward_operands(const BackwardOperands<Array, Tile>& of) {
  const auto& [from, sums, operands, rule, tiles, over, tile, operand, heads_first] = of;
  const auto [rows, cols, depth] = tile;
  const Array& query = from.in.query;
  const std::vector<Varies>& varies = rule.options.text->varies;
  const DType dtype = sum_dtype(query.dtype());
  const auto varies_of = [&](size_t n) { return varies[static_cast<size_t>(operands[n])]; };
  // Over keys a tile's rows are added up at once, which leaves more registers; elsewhere its sums wait.
  const bool by_rows = over == AddsUp::keys;
  const auto nothing = [&] {
    std::vector<Tile> totals;
    for (size_t n = 0; n < operands.size(); ++n)
      totals.push_back(zeros(varies_of(n) == table ? Shape{} : Shape{rows, by_rows ? 1 : cols}, dtype));
    return totals;
  };
  const auto add = [&](std::vector<Tile>& totals, const Gradients& gradients, const Place& at,
                       const Tile& copy) {
    const auto t = gradients.at(at);
    for (const auto& [n, gradient, indices] :
         gradients.scores.rule.operand_gradients(t.product, t.grad_score, at, operands)) {
      if (varies_of(n) == table)
        add_to_elements(sums[n][{copy}], indices, gradient, tiles ? MemoryScope::block : MemoryScope::device);
      else
        totals[n] += by_rows ? gradient.sum(1, true) : gradient;
    }
  };

  if (over == AddsUp::heads) {
    const Array& sum = sums[0];
    Tile col_tiles = cdiv(sum.dim(3), cols), i = bid(0) / col_tiles, j = bid(0) % col_tiles;
    std::vector<Tile> totals = nothing();
    for (Tile batch : all_or_one(sum.dim(0), query.dim(0), bid(2)))
      for (Tile head : all_or_one(sum.dim(1), query.dim(1), bid(1))) {
        const Call call(from.in, batch, rule, tile);
        add(totals, Gradients(call, from, head, depth, operand), {i, j}, 0);
      }
    sum[{bid(2), bid(1)}].tiled_view({rows, cols}).store({i, j}, totals[0]);
    return;
  }

  const auto add_keys = [&](const Tile& i, const Tile& head, const Tile& batch, const Tile& copy) {
    const Call call(from.in, batch, rule, tile);
    const Gradients gradients(call, from, head, depth, operand);
    std::vector<Tile> totals = nothing();
    if (from.in.visits) {
      Visited(from.in, head, batch, i, false).each([&](const Place& at) {
        add(totals, gradients, at, copy);
      });
    } else {
      for (Tile j : gradients.scores.visible_keys(i)) add(totals, gradients, {i, j}, copy);
    }
    for (size_t n = 0; n < operands.size(); ++n)
      if (varies_of(n) != table) sums[n][{batch, head}].tiled_view({rows, 1}).store({i, 0}, totals[n]);
  };
  const BlockIndex block(heads_first);
  if (tiles) {
    Tile all = *tiles * query.dim(1) * query.dim(0);
    for (Tile each : range(bid(0), all, num_blocks(0))) {
      Tile head = each / *tiles;
      add_keys(each % *tiles, head % query.dim(1), head / query.dim(1), bid(0));
    }
  } else if (over == AddsUp::keys) {
    Tile copy = 0;
    for (size_t n = 0; n < operands.size(); ++n)
      if (varies_of(n) == table) copy = (block.tile + block.head) % sums[n].dim(0);
    add_keys(block.tiles - 1 - block.tile, block.head, block.batch, copy);
  } else {
    const Tile &j = block.tile, &head = block.head, &batch = block.batch;
    const Call call(from.in, batch, rule, tile);
    const Gradients gradients(call, from, head, depth, operand);
    std::vector<Tile> totals = nothing();
    if (from.in.visits) {
      Visited(from.in, head, batch, j, true).each([&](const Place& at) { add(totals, gradients, at, 0); });
    } else {
      for (Tile i : gradients.scores.seeing_rows(j)) add(totals, gradients, {i, j}, 0);
    }
    for (size_t n = 0; n < operands.size(); ++n)
      sums[n][{batch, head}].tiled_view({1, cols}).store({0, j}, totals[n].sum(0, true));
  }
}

}  // namespace tile::attention
