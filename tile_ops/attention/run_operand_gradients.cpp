// Groups operands by the axes along which their gradients are added up.
#include "operand_gradients.h"

#include "../common/tuning.h"
#include "bias.h"
#include "tile/reduction.h"

namespace tile::attention {
namespace {

Kernel operands_kernel("attention_backward_operands", backward_operands);

struct Group {
  AddsUp over;
  std::vector<int> operands = {};
  std::vector<Tensor> sums = {}, grads = {};
  bool has_tables = false;
};

void launch(const Group& group, const OwnTiles& of, const Grid& grid, std::optional<int> tiles) {
  const Tensor& query = of.from.in.query;
  operands_kernel.launch(grid, {.from = as_launched(of.from),
                                .sums = {group.sums.begin(), group.sums.end()},
                                .operands = group.operands,
                                .rule = as_launched(of.rule),
                                .tiles = tiles,
                                .over = group.over,
                                .tile = of.tile,
                                .operand = operand_dtype(query),
                                .heads_first = heads_first(query)});
}

// Copies of tables: on a CPU each block adds to its own in one order, on a GPU blocks wait for each other
// less. A fixed number: results do not depend on the machine. item_bytes: the bytes of a number that is
// summed up.
int64_t copies_of(const std::vector<Tensor>& tables, int64_t item_bytes, bool on_cpu) {
  int64_t bytes = 0;
  for (const Tensor& each : tables) bytes += each.numel() * item_bytes;
  if (bytes == 0) return 1;
  return std::clamp<int64_t>(tuning::attention_table_bytes / bytes, 1,
                             on_cpu ? tuning::attention_cpu_tables : tuning::attention_gpu_tables);
}

}  // namespace

void run_operand_gradients(at::TensorList grads, const Problem& p, const OwnTiles& of_queries,
                           OwnTiles of_keys, const std::optional<MaskSummary>& summary) {
  const HostText& text = *p.rule.options.text;
  const Tensor& query = of_queries.from.in.query;
  const at::TensorOptions options = of_queries.from.top.options();
  const bool on_cpu = query.is_cpu();
  const int64_t row_tiles = ceil_div(p.rows, of_queries.tile.rows),
                first = static_cast<int64_t>(text.operands.size() - grads.size());
  std::vector<Tensor> tables;
  for (size_t n = 0; n < grads.size(); ++n)
    if (text.varies[static_cast<size_t>(first) + n] == table) tables.push_back(grads[n]);
  const int64_t copies =
      std::min(copies_of(tables, of_queries.from.top.element_size(), on_cpu), row_tiles * p.heads * p.batch);

  Group by_rows{AddsUp::keys}, by_columns{AddsUp::queries};
  for (size_t n = 0; n < grads.size(); ++n) {
    const Varies varies = text.varies[static_cast<size_t>(first) + n];
    const int number = static_cast<int>(first) + static_cast<int>(n);
    if (varies == by_both) {
      const Tensor grad = four_dimensions(grads[n]);
      launch({AddsUp::heads, {number}, {grad}}, of_keys,
             {ceil_div(p.rows, of_keys.tile.rows) * ceil_div(p.keys, of_keys.tile.cols), grad.size(1),
              grad.size(0)},
             std::nullopt);
      continue;
    }
    Group& group = varies == by_key ? by_columns : by_rows;
    std::vector<int64_t> sizes{p.batch, p.heads, varies == by_key ? 1 : p.rows,
                               varies == by_key ? p.keys : 1};
    if (varies == table) {
      sizes = grads[n].sizes().vec();
      sizes.insert(sizes.begin(), copies);
      group.has_tables = true;
    }
    const Tensor grad = varies == table ? grads[n] : four_dimensions(grads[n]);
    const bool whole = grad.sizes() == sizes;
    group.operands.push_back(number);
    group.sums.push_back(whole ? grad : at::empty(sizes, options));
    group.grads.push_back(whole ? Tensor() : grad);
    if (varies == table) group.sums.back().zero_();
  }
  if (!by_columns.operands.empty()) {
    if (summary) of_keys.from.in.visits = summary->queries_of_keys(of_keys.tile, p.batch, p.heads);
    launch(by_columns, of_keys, grid_of(query, ceil_div(p.keys, of_keys.tile.cols), p.heads, p.batch),
           std::nullopt);
  }
  const bool own_copies = by_rows.has_tables && on_cpu;
  if (!by_rows.operands.empty())
    launch(by_rows, of_queries, own_copies ? Grid{copies} : grid_of(query, row_tiles, p.heads, p.batch),
           own_copies ? std::optional(static_cast<int>(row_tiles)) : std::nullopt);
  for (const Group* group : {&by_rows, &by_columns})
    for (size_t n = 0; n < group->grads.size(); ++n)
      if (group->grads[n].defined()) sum_into(group->sums[n], group->grads[n]);
}

}  // namespace tile::attention
