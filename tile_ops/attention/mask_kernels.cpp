// Sums a mask up: which blocks of it are seen by no query, by all or by some, and from that the tiles that
// the kernels of attention visit.
#include "kernels.h"

namespace tile::attention {

void mask_flags(const MaskFlags<Array, Tile>& of) {
  const auto& [mask, flags, bits, offset, first, by_keys, rows] = of;
  Tile along = bid(0), across = bid(1);
  Tile batch = bid(2) / mask.dim(1), head = bid(2) % mask.dim(1);
  const Array own = mask[{batch, head}];
  const int cols = mask_cols_read;
  Tile r = across * rows + arange(rows).reshape({rows, 1}),
       c = along * cols + arange(cols).reshape({1, cols});
  const Tile &query = by_keys ? c : r, &key = by_keys ? r : c;
  const auto read = [&](const Array& array) { return by_keys ? array.permute({1, 0}) : array; };
  Tile values = read(own).tiled_view({rows, cols}).load({across, along});
  const bool adds = mask.dtype() != boolean;
  Tile seen = (adds ? values != -inf : values) & (key < own.dim(1)) & (key <= query + offset);
  if (first) seen = seen & (key >= query + *first);
  Tile exists = query < own.dim(0);
  const Shape parts{rows / flag_side, flag_side, cols / flag_side, flag_side};
  const Shape columns{1, parts[2], flag_side};
  const bool columns_first = rows == flag_side;  // a CPU is faster so
  const auto any = [&](const Tile& each) {
    return columns_first ? each.any(0).reshape(columns).any(2) : each.reshape(parts).any({1, 3});
  };
  const auto all = [&](const Tile& each) {
    return columns_first ? each.all(0).reshape(columns).all(2) : each.reshape(parts).all({1, 3});
  };
  Tile flag =
      where(any(seen & exists), where(all(seen | (query >= own.dim(0))), flag_all, flag_some), flag_none);
  if (adds) flag = where(any(seen & exists & (values != 0.0)), flag_numbers, flag);
  read(flags[{batch, head}]).tiled_view({parts[0], parts[2]}).store({across, along}, flag);
  if (!bits) return;
  Tile word = (seen & exists).astype(i32).reshape({rows, word_bits / 2, words_a_row, 2})
              << arange(word_bits).reshape({1, word_bits / 2, 1, 2});
  (*bits)[{batch, head}].tiled_view({rows, words_a_row}).store({across, along}, word.sum({1, 3}));
}

void mask_lists(const MaskLists<Array>& of) {
  const auto& [flags, list, rows, cols, by_keys, adds] = of;
  // A tile has `rows` flags along the axis of the lists, and `cols` along the axis of the tiles that they
  // name.
  Tile i = bid(0), head = bid(1), batch = bid(2);
  const Array own = by_keys ? flags[{batch, head}].permute({1, 0}) : flags[{batch, head}];
  const int count = flags_read / cols;
  const View view = own.tiled_view({rows, count * cols});
  Tile tiles = cdiv(own.dim(1), cols);
  struct Kinds {
    std::optional<Tile> numbers;
    Tile some, all;
  };
  // Finds out which of `count` tiles get numbers added, which others are seen in part, and which are seen
  // wholly. Nothing is seen past the last key. Past the last query it does not matter.
  const auto kinds = [&](const Tile& chunk) {
    Tile r = i * rows + arange(rows).reshape({rows, 1}),
         c = chunk * (count * cols) + arange(count * cols).reshape({1, count * cols});
    Tile flag = view.load({i, chunk}).astype(i32), past = by_keys ? c >= own.dim(1) : r >= own.dim(0);
    const Shape parts{rows, count, cols};
    Tile any = (flag != flag_none).reshape(parts).any({0, 2}),
         all = ((flag == flag_all) | past).reshape(parts).all({0, 2}) & any;
    Tile some = any & (all == false);
    if (!adds) return Kinds{std::nullopt, some, all};
    Tile numbers = (flag == flag_numbers).reshape(parts).any({0, 2});
    return Kinds{numbers, some & (numbers == false), all};
  };
  Tile biased = 0, partly = 0;
  const auto number_of = [](const Tile& which) { return which.astype(i32).sum(0); };
  for (Tile chunk : range(cdiv(tiles, count))) {
    const Kinds kind = kinds(chunk);
    if (adds) biased += number_of(*kind.numbers);
    partly += number_of(kind.some);
  }
  partly += biased;
  const Array to = list[{batch, head, i}];
  Tile numbers = 0, some = biased, all = partly;
  for (Tile chunk : range(cdiv(tiles, count))) {
    const Kinds kind = kinds(chunk);
    Tile j = chunk * count + arange(count);
    const auto name = [&](const Tile& which, const Tile& before) {
      scatter(to, {list_head + before + which.astype(i32).cumsum(0) - 1}, j, which);
    };
    if (adds) {
      name(*kind.numbers, numbers);
      numbers += number_of(*kind.numbers);
    }
    name(kind.some, some);
    name(kind.all, all);
    some += number_of(kind.some), all += number_of(kind.all);
  }
  Tile at = arange(list_head);
  to.tiled_view({list_head}).store({0}, where(at == 0, biased, where(at == 1, partly, all)));
}

}  // namespace tile::attention
