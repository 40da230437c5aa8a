// Joins the tables of one instruction set and finds their rows by name.
#include "cpu/interpreter/tables.h"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <vector>

#include "cpu/interpreter/isa/parts.h"

namespace tile::cpu {

// A span for each lane of each family in prims/elementwise.
#define FAMILY(name) TILE_DECLARE_ISA_TABLE(Span<Span<ElementwiseRow>>, name##_rows);
#include "prims/elementwise/all.def"
#undef FAMILY

namespace {

struct Joined {
  std::vector<ElementwiseRow> elementwise;  // sorted by name, then lane
  std::vector<ReduceRow> reduce;
  std::vector<CastRow> cast;  // at from * lane_count + to
  Tables tables;
};

template <class Row>
bool before(const Row& a, const Row& b) {
  return std::tie(a.name, a.lane) < std::tie(b.name, b.lane);
}
template <class T>
Span<T> span(const std::vector<T>& rows) {
  return {rows.data(), static_cast<int64_t>(rows.size())};
}

Joined join(Isa isa) {
  Joined all;
  for (const auto* part : {
#define FAMILY(name) &name##_rows(isa),
#include "prims/elementwise/all.def"
#undef FAMILY
           &where_rows(isa), &directed_cast_rows(isa), &random_rows(isa), &pair_and_approximate_rows(isa)})
    for (const Span<ElementwiseRow>& lane : *part)
      for (const ElementwiseRow& row : lane)
        if (row.variants[0]) all.elementwise.push_back(row);
  all.reduce.assign(reduce_rows(isa).begin(), reduce_rows(isa).end());
  all.cast.resize(lane_count * lane_count);
  for (const CastRow& row : cast_rows(isa))
    all.cast[static_cast<size_t>(row.from) * lane_count + static_cast<size_t>(row.to)] = row;
  std::sort(all.elementwise.begin(), all.elementwise.end(), before<ElementwiseRow>);
  std::sort(all.reduce.begin(), all.reduce.end(), before<ReduceRow>);
  all.tables = {span(all.elementwise), span(all.reduce), move_rows(isa), span(all.cast)};
  return all;
}

template <class Row>
const Row* find(Span<Row> rows, std::string_view name, Lane lane) {
  Row key{};
  key.name = name;
  key.lane = lane;
  const Row* row = std::lower_bound(rows.begin(), rows.end(), key, before<Row>);
  return row != rows.end() && row->name == name && row->lane == lane ? row : nullptr;
}

}  // namespace

const Tables& tables(Isa isa) {
  // Moving the vectors does not move their elements, so the spans stay valid.
  static const std::array<Joined, isa_count> joined{join(Isa::baseline), join(Isa::avx2), join(Isa::avx512)};
  return joined[static_cast<size_t>(isa)].tables;
}
const Tables& tables() {
  static const Tables& active = tables(active_isa());
  return active;
}

const ElementwiseRow* find_elementwise(std::string_view name, Lane lane, const Tables& from) {
  return find(from.elementwise, name, lane);
}
const ReduceRow* find_reduce(std::string_view name, Lane lane, const Tables& from) {
  return find(from.reduce, name, lane);
}
const CastRow& cast_row(Lane from, Lane to, const Tables& tables) {
  return tables.cast.data[static_cast<int>(from) * lane_count + static_cast<int>(to)];
}

}  // namespace tile::cpu
