// tile::rope and rope_: rotary position embedding of query and key in one launch; the gradient rotates by the
// negative angle.
#include "../common/arguments.h"
#include "../common/overlap.h"
#include "../common/tuning.h"

namespace {

using at::Tensor;
using std::optional;
using namespace tile;  // NOLINT: an operator's file is written in the kernel language

// The rows of both tables at some positions, once for all heads; NaN where there is no such row.
void rows_at_kernel(Array cos, Array sin, Array positions, Array cos_out, Array sin_out, int rows,
                    int columns) {
  Tile i = bid(0), b = bid(1);
  Shape tile{1, columns};
  for (Tile s : range(i * rows, min(i * rows + rows, positions.dim(1)))) {
    Tile position = positions[{b}].tiled_view({1}).load({s}).reshape(Shape{});
    for (const auto& [from, to] : {std::pair(cos, cos_out), std::pair(sin, sin_out)}) {
      View in = from[{b}].tiled_view(tile), out = to[{b}].tiled_view(tile);
      for (Tile j : range(in.num_tiles(1)))
        out.store({s, j}, in.load({position, j}, std::numeric_limits<double>::quiet_NaN()));
    }
  }
}
Kernel rows_at("rope_rows", rows_at_kernel);

// Query or key: pairs [b, 2, h, s, r/2], and the columns that pass through, if there are any, [b, h, s,
// rest]. Without results they are rotated in place: the compiler takes two arrays to be distinct memory.
template <class Array>
struct Rotated {
  Array pairs;
  optional<Array> rest, out, rest_out;
};
// Block (g, i, b): `rows` positions of `heads` heads, the first `groups` of them of query, the others of key.
template <class Array, class Tile>
struct Rope {
  Rotated<Array> query, key;
  Array cos, sin;  // [b, table_heads, s, r/2]
  Tile groups;
  Tile direction;    // -1 rotates back
  bool share_heads;  // blocks are (i, g, b): those that run at once shall share heads, not positions
  bool single;       // a tile has all columns of pairs
  int heads;
  int table_heads;  // of a tile of the tables, equal for all heads
  int rows, columns;
};
void rope_kernel(const Rope<Array, Tile>& of) {
  DType compute = of.query.pairs.dtype() == f64 ? f64 : f32;
  Tile g = bid(of.share_heads ? 1 : 0), i = bid(of.share_heads ? 0 : 1), b = bid(2);
  Shape tile{of.heads, of.rows, of.columns}, table_tile{of.table_heads, of.rows, of.columns};
  const auto half = [&](Array array, int which) { return array[{b, which}].tiled_view(tile); };
  const auto rotate_columns = [&](Tile g, Array in, Array out, Operand j) {
    Tile c = of.cos[{b}].tiled_view(table_tile).load({0, i, j}).astype(compute);
    Tile s = of.sin[{b}].tiled_view(table_tile).load({0, i, j}).astype(compute);
    s = where(of.direction < 0, -s, s);  // a product's NaN would need care when it is rounded
    Tile x = half(in, 0).load({g, i, j}).astype(compute), y = half(in, 1).load({g, i, j}).astype(compute);
    half(out, 0).store({g, i, j}, fma(x, c, y * -s));
    half(out, 1).store({g, i, j}, fma(y, c, x * s));
  };
  const auto rotate = [&](Tile g, const Rotated<Array>& in) {
    const Array out = in.out.value_or(in.pairs);
    if (of.single)
      rotate_columns(g, in.pairs, out, 0);
    else
      for (Tile j : range(cdiv(in.pairs.dim(4), of.columns))) rotate_columns(g, in.pairs, out, j);
    if (!in.rest) return;
    for (Tile j : range(cdiv(in.rest->dim(3), of.columns)))
      (*in.rest_out)[{b}].tiled_view(tile).store({g, i, j}, (*in.rest)[{b}].tiled_view(tile).load({g, i, j}));
  };
  Tile first_key = of.groups.astype(i32);
  when(
      g < first_key, [&] { rotate(g, of.query); }, [&] { rotate(g - first_key, of.key); });
}
Kernel rope_of("rope", rope_kernel);

// Arguments of all four operators after query and key.
struct Rotation {
  const Tensor &cos, &sin;
  bool interleaved;
  const optional<c10::SymInt>& rotary_dim;
  const optional<Tensor>& position_ids;
};
using Names = std::array<const char*, 2>;  // of the two operands

// Everything that rope() demands of its arguments.
void check(const Names& what, const optional<Tensor>& query, const optional<Tensor>& key,
           const Rotation& by) {
  const auto& [cos, sin, interleaved, rotary_dim, position_ids] = by;
  if (!query && !key) fail(ErrorKind::value, what[0], " and ", what[1], " are both None; pass one of them");
  const Tensor& first = query ? *query : *key;
  const char* first_name = query ? what[0] : what[1];
  for (const auto& [name, tensor] : {std::pair(what[0], &query), std::pair(what[1], &key)}) {
    if (!*tensor) continue;
    require_floating(name, **tensor);
    if ((*tensor)->dim() != 4)
      fail(ErrorKind::value, name, " has shape ", (*tensor)->sym_sizes(),
           "; it must be [batch, heads, positions, head dim]");
    require_same_dtype(first_name, first, name, **tensor);
  }
  const c10::SymInt batch = first.sym_size(0), length = first.sym_size(2), width = first.sym_size(3);
  if (query && key && (key->sym_size(0) != batch || key->sym_size(2) != length || key->sym_size(3) != width))
    fail(ErrorKind::value, what[0], " ", query->sym_sizes(), " and ", what[1], " ", key->sym_sizes(),
         " differ; only their number of heads may");
  const c10::SymInt rotary = rotary_dim.value_or(width);
  if (rotary < 0 || rotary > width || rotary % 2 != 0)
    fail(ErrorKind::value, "rotary_dim is ", rotary, "; it must be even and from 0 to the head dim ", width);
  if (cos.sym_sizes() != sin.sym_sizes() || cos.scalar_type() != sin.scalar_type())
    fail(ErrorKind::value, "cos is ", dtype_name(cos.scalar_type()), cos.sym_sizes(), " and sin is ",
         dtype_name(sin.scalar_type()), sin.sym_sizes(), "; they must be alike");
  if (cos.scalar_type() != at::kFloat && cos.scalar_type() != first.scalar_type())
    fail(ErrorKind::type, "cos and sin are ", dtype_name(cos.scalar_type()), "; they must be float32 or ",
         dtype_name(first.scalar_type()), " as ", first_name, " is");
  const auto fits_batch = [&](const Tensor& tensor, int64_t rank) {
    return tensor.dim() == rank ||
           (tensor.dim() == rank + 1 && (tensor.sym_size(0) == 1 || tensor.sym_size(0) == batch));
  };
  if (!fits_batch(cos, 2))
    fail(ErrorKind::value, "cos and sin have shape ", cos.sym_sizes(),
         "; it must be [positions, width] or [batch, positions, width] with batch ", batch);
  if (cos.sym_size(-1) != rotary && cos.sym_size(-1) * 2 != rotary)
    fail(ErrorKind::value, "cos and sin have width ", cos.sym_size(-1), ", but rotary_dim is ", rotary,
         "; the width must be rotary_dim or half of it");
  if (!position_ids) {
    if (cos.sym_size(-2) != length)
      fail(ErrorKind::value, "cos and sin have ", cos.sym_size(-2), " positions and ", first_name, " has ",
           length, "; slice them, or pass position_ids");
    return;
  }
  require_index_dtype("position_ids", *position_ids);
  if (!fits_batch(*position_ids, 1) || position_ids->sym_size(-1) != length)
    fail(ErrorKind::value, "position_ids has shape ", position_ids->sym_sizes(), "; it must be [", length,
         "] or [", batch, ", ", length, "]");
}

// The two halves of all pairs, as one array.
ArrayArgument pairs(const Tensor& x, int64_t rotary, bool interleaved) {
  const int64_t half = rotary / 2, step = x.stride(3);
  return strided(x, {x.size(0), 2, x.size(1), x.size(2), half},
                 {x.stride(0), interleaved ? step : step * half, x.stride(1), x.stride(2),
                  interleaved ? 2 * step : step});
}
// Returns the columns after the rotated ones, if there are any.
optional<ArrayArgument> rest(const Tensor& x, int64_t rotary) {
  if (rotary == x.size(3)) return std::nullopt;
  return strided(x, {x.size(0), x.size(1), x.size(2), x.size(3) - rotary}, x.strides(), rotary * x.stride(3));
}

std::pair<Tensor, Tensor> tables_at(const Tensor& position_ids, const Tensor& cos, const Tensor& sin,
                                    int columns) {
  Tensor ids = position_ids.dim() == 1 ? position_ids.unsqueeze(0) : position_ids;
  // On a GPU a position outside the table gives NaN.
  require_indices("position_ids", ids, {cos.size(1), "cos and sin have", "positions"});
  const int64_t batch = std::max(ids.size(0), cos.size(0)), length = ids.size(1);
  const auto expanded = [batch](const Tensor& t) {
    return t.dim() == 2 ? t.expand({batch, -1}) : t.expand({batch, -1, -1});
  };
  const auto fresh = [&] { return at::empty({batch, length, cos.size(2)}, cos.options()); };
  std::pair tables{fresh(), fresh()};
  constexpr int rows = 32;
  rows_at.launch({ceil_div(length, rows), batch}, expanded(cos), expanded(sin), expanded(ids), tables.first,
                 tables.second, rows, columns);
  return tables;
}

// Rotates what is there of query and key; direction -1 rotates back. A result that is the tensor itself is
// computed in place, and columns that pass through stay.
void rotate(const optional<Tensor>& query, const optional<Tensor>& key, const Rotation& by, double direction,
            const Tensor& query_out, const Tensor& key_out) {
  const auto& [cos, sin, interleaved, rotary_dim, position_ids] = by;
  const bool some = query_out.defined() && query_out.numel() > 0,
             others = key_out.defined() && key_out.numel() > 0;
  if (!some && !others) return;
  // A missing operand is an empty slice of heads of the other.
  const auto no_heads = [](const Tensor& t) { return t.slice(1, 0, 0); };
  const Tensor x = some ? *query : no_heads(*key), x_out = some ? query_out : no_heads(key_out);
  const Tensor y = others ? *key : no_heads(*query), y_out = others ? key_out : no_heads(query_out);
  const int64_t rotary = rotary_dim ? rotary_dim->expect_int() : x.size(3), batch = x.size(0),
                length = x.size(2);
  const bool in_place = some ? query_out.is_same(*query) : key_out.is_same(*key);
  // A tile is 4 heads' positions: on a CPU a long run of each head's memory, on a GPU what registers hold.
  const int heads = 4, elements = x.is_cpu() ? tuning::cpu_tile : tuning::gpu_rotation_tile;
  const int columns = rotary <= 64 ? 32 : rotary <= 128 ? 64 : 128, rows = elements / columns;
  std::pair tables{cos.dim() == 2 ? cos.unsqueeze(0) : cos, sin.dim() == 2 ? sin.unsqueeze(0) : sin};
  if (position_ids) tables = tables_at(*position_ids, tables.first, tables.second, columns);
  // On a CPU 16-bit tables are widened again for each head: for 16-bit rows that is cheaper than to read
  // them widened.
  const int table_heads = x.is_cpu() && tables.first.element_size() == 2 ? heads : 1;
  const auto table = [&](const Tensor& t) {
    const int64_t step = interleaved && t.size(2) == rotary ? 2 : 1;
    return strided(t, {batch, table_heads, length, rotary / 2},
                   {t.size(0) == 1 ? 0 : t.stride(0), 0, t.stride(1), t.stride(2) * step});
  };
  const int64_t groups = ceil_div(x.size(1), heads), all_groups = groups + ceil_div(y.size(1), heads);
  const bool share_heads = !x.is_cpu() && x.stride(1) > x.stride(2);
  Grid grid{all_groups, ceil_div(length, rows), batch};
  if (share_heads) std::swap(grid.x, grid.y);
  const auto operand = [&](const Tensor& t, const Tensor& out) {
    using Operand = Rotated<ArrayArgument>;
    if (in_place) return Operand{.pairs = pairs(t, rotary, interleaved)};
    return Operand{pairs(t, rotary, interleaved), rest(t, rotary), pairs(out, rotary, interleaved),
                   rest(out, rotary)};
  };
  rope_of.launch(grid, {.query = as_launched(operand(x, x_out)),
                        .key = as_launched(operand(y, y_out)),
                        .cos = table(tables.first),
                        .sin = table(tables.second),
                        .groups = groups,
                        .direction = direction,
                        .share_heads = share_heads,
                        .single = rotary / 2 <= columns,
                        .heads = heads,
                        .table_heads = table_heads,
                        .rows = rows,
                        .columns = columns});
}

// The two operands and the positions grow by the batch; tables that are the same for all samples stay.
VmapCall::Results batched(VmapCall& call, std::vector<std::string> names) {
  const auto rank = [&](const char* name) {
    return call[name].isTensor() ? call[name].toTensor().dim() - (call.batched(name) ? 1 : 0) : 0;
  };
  for (const char* name : {"cos", "sin", "position_ids"}) {
    const bool shared = rank(name) == (name[0] == 'p' ? 1 : 2);
    if (shared && call.batched(name)) return call.loop();
    if (!shared && rank(name) > 0) names.emplace_back(name);
  }
  return call.fold(names);
}

const auto rope =
    op("tile::rope(Tensor query, Tensor key, Tensor cos, Tensor sin, *, bool interleaved=False, SymInt? "
       "rotary_dim=None, "
       "Tensor? position_ids=None) -> (Tensor query_out, Tensor key_out)")
        .outputs([](const Tensor& query, const Tensor& key, const Rotation& by) {
          check({"query", "key"}, query, key, by);
          return std::tuple(result_like(query), result_like(key));
        })
        .run([](const Tensor& query, const Tensor& key, const Rotation& by, Tensor& query_out,
                Tensor& key_out) { rotate(query, key, by, 1, query_out, key_out); })
        .grad("tile::rope_backward")
        .vmap([](VmapCall& call) {
          return batched(call, {"query", "key"});
        });

const auto rope_in_place =
    op("tile::rope_(Tensor(a!) query, Tensor(b!) key, Tensor cos, Tensor sin, *, bool interleaved=False, "
       "SymInt? rotary_dim=None, Tensor? position_ids=None) -> ()")
        .outputs([](const Tensor& query, const Tensor& key, const Rotation& by) {
          check({"query", "key"}, query, key, by);
        })
        .run([](const Tensor& query, const Tensor& key, const Rotation& by) {
          require_no_overlap("query", query, "key", key);
          for (const auto& [name, written] : {std::pair("query", &query), std::pair("key", &key)})
            for (const auto& [table_name, table] : {std::pair("cos", &by.cos), std::pair("sin", &by.sin)})
              require_no_overlap(name, *written, table_name, *table);
          rotate(query, key, by, 1, query, key);
        });

// The results of a gradient of either order, and the rotation that computes them.
auto gradients(const Names& names) {
  return [names](const optional<Tensor>& query, const optional<Tensor>& key, const Rotation& by,
                 std::array<bool, 2> wanted) {
    check(names, query, key, by);
    return std::tuple(wanted[0] && query ? result_like(*query) : Tensor(),
                      wanted[1] && key ? result_like(*key) : Tensor());
  };
}
auto rotated(double direction) {
  return [direction](const optional<Tensor>& query, const optional<Tensor>& key, const Rotation& by,
                     std::array<bool, 2>, Tensor& query_out,
                     Tensor& key_out) { rotate(query, key, by, direction, query_out, key_out); };
}

// A rotation is linear and orthogonal, so that neither query nor key is kept: gradients have the layout of
// what comes in.
const auto rope_backward =
    op("tile::rope_backward(Tensor? grad_query_out, Tensor? grad_key_out, Tensor cos, Tensor sin, bool "
       "interleaved, "
       "SymInt? rotary_dim, Tensor? position_ids, bool[2] output_mask) -> (Tensor grad_query, Tensor "
       "grad_key)")
        .outputs(gradients({"grad_query_out", "grad_key_out"}))
        .run(rotated(-1))
        .grad("tile::rope_double_backward")
        .vmap([](VmapCall& call) {
          return batched(call, {"grad_query_out", "grad_key_out"});
        });

const auto rope_double_backward =
    op("tile::rope_double_backward(Tensor? grad_grad_query, Tensor? grad_grad_key, Tensor cos, Tensor sin, "
       "bool interleaved, "
       "SymInt? rotary_dim, Tensor? position_ids, bool[2] output_mask) -> (Tensor grad_grad_query_out, "
       "Tensor grad_grad_key_out)")
        .outputs(gradients({"grad_grad_query", "grad_grad_key"}))
        .run(rotated(1))
        .vmap([](VmapCall& call) {
          return batched(call, {"grad_grad_query", "grad_grad_key"});
        });

}  // namespace
