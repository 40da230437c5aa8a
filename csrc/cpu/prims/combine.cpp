// reduce and scan with a combine region, whose ops are calls of table functions over many lanes.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "cpu/interpreter/element_tables.h"
#include "cpu/interpreter/operand.h"
#include "cpu/interpreter/steps.h"
#include "cpu/prims/axis_split.h"

namespace tile::cpu {
namespace {

// The combine region as calls. Its values are numbered: n accumulated arguments, n new ones, then the others.
struct Combination {
  struct Call {
    std::vector<StepFunction> functions;
    std::vector<int> in;
    int out;
  };
  std::vector<Call> calls;
  std::vector<int> yields;
  std::vector<bool> keeps;  // by yield: its lanes become the accumulator's, without a copy
  std::vector<std::pair<int, Scalar>> constants;
  std::vector<std::pair<int, int>> outer;  // a value that is a scalar of the frame
  std::vector<Lane> lanes;                 // by value

  int64_t bytes(size_t value) const { return lane_bytes(lanes[value]); }

  Combination(LoweringContext& lower, const Block& region) {
    std::unordered_map<const Value*, int> numbers;
    const auto add = [&](const Value* value) {
      lanes.push_back(lane_of(value->type.dtype));
      const int number = static_cast<int>(numbers.size());
      numbers.emplace(value, number);
      return number;
    };
    for (const Value* argument : region.arguments) add(argument);
    const auto number = [&](const Value* value) {
      if (const auto at = numbers.find(value); at != numbers.end()) return at->second;
      const int fresh = add(value);
      if (value->definition && value->definition->is("constant"))
        store_constant(constants.emplace_back(fresh, Scalar{}).second, *value->definition);
      else
        outer.emplace_back(fresh, lower.scalar(value));
      return fresh;
    };
    for (const auto& op : region.ops) {
      if (op->traits().terminator) {
        for (const Value* operand : op->operands) yields.push_back(number(operand));
      } else if (!op->is("constant") && !joins_reader(region, *op)) {
        std::vector<StepFunction> functions = step_functions(*op);
        const Op* from = op.get();
        if (const ElementwiseRow* pair = pair_of(region, *op)) {
          functions[0].variants = pair->variants;
          from = op->operands[0]->definition;
        }
        Call call{std::move(functions), {}, 0};
        for (const Value* operand : from->operands) call.in.push_back(number(operand));
        call.out = add(op->results[0]);
        calls.push_back(std::move(call));
      }
    }
    for (int yield : yields) {
      const bool called =
          std::any_of(calls.begin(), calls.end(), [&](const Call& call) { return call.out == yield; });
      keeps.push_back(called && std::count(yields.begin(), yields.end(), yield) == 1);
    }
  }
  size_t count() const { return yields.size(); }

 private:
  // Returns the row of a function and the step that computes its operand, if the tables have the pair and
  // nothing else reads that.
  static const ElementwiseRow* pair_of(const Block& region, const Op& op) {
    const Op* step = op.operands.size() == 1 ? op.operands[0]->definition : nullptr;
    if (!step || step->parent != &region || op.type(0).dtype != DType::f32 || step->results.size() != 1)
      return nullptr;
    int64_t uses = 0;
    for (const auto& reader : region.ops)
      uses += std::count(reader->operands.begin(), reader->operands.end(), op.operands[0]);
    return uses == 1 ? find_elementwise(str(op.name(), "(", step->name(), ")"), Lane::f32) : nullptr;
  }
  static bool joins_reader(const Block& region, const Op& op) {
    return std::any_of(region.ops.begin(), region.ops.end(), [&](const auto& reader) {
      return !reader->operands.empty() && reader->operands[0]->definition == &op && pair_of(region, *reader);
    });
  }
};

// Lanes of one value in rows.
struct Rows {
  char* at = nullptr;
  int64_t row = 0;  // bytes
};

void copy_rows(char* to, int64_t to_row, const char* from, int64_t from_row, int64_t rows, int64_t bytes) {
  if (to_row == bytes && from_row == bytes) bytes *= rows, rows = 1;
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(to + r * to_row, from + r * from_row, static_cast<size_t>(bytes));
}

// Combines rows of lanes, at most `most` at once, which then stay in the first-level cache.
class Combiner {
 public:
  static constexpr int64_t most = 512;
  static size_t scratch_bytes(const Combination& combination) {
    return static_cast<size_t>(most * 8 + 64) * (combination.lanes.size() + combination.count());
  }

  Combiner(const Combination& combination, Frame& frame) : combination_(combination) {
    values_.resize(combination.lanes.size());
    for (Rows& value : values_) value.at = frame.scratch.take(most * 8);
    spare_.resize(combination.count());
    for (char*& spare : spare_) spare = frame.scratch.take(most * 8);
    for (const auto& [number, scalar] : combination.constants) spread(number, scalar);
    for (const auto& [number, scalar] : combination.outer)
      spread(number, frame.scalars[static_cast<size_t>(scalar)]);
  }

  void shape(int64_t rows, int64_t cols) {
    rows_ = rows, cols_ = cols;
    for (size_t v = 0; v < values_.size(); ++v) values_[v].row = cols * combination_.bytes(v);
  }
  // Copies the result to rows that are `row` bytes apart.
  void finish(size_t t, char* to, int64_t row) const {
    copy_rows(to, rows_ == 1 ? values_[t].row : row, values_[t].at, values_[t].row, rows_, values_[t].row);
  }
  void start(size_t t, const char* from, int64_t row) {
    copy_rows(values_[t].at, values_[t].row, from, row, rows_, cols_ * combination_.bytes(t));
  }
  // Combines the accumulated rows with new ones, which are `row` bytes apart.
  template <class From>
  void step(const From& from, int64_t row_lanes) {
    const size_t n = combination_.count();
    for (size_t t = 0; t < n; ++t)
      values_[n + t] = {const_cast<char*>(from(t)), row_lanes * combination_.bytes(t)};
    for (const Combination::Call& call : combination_.calls) run(call);
    for (size_t t = 0; t < n; ++t) {
      const auto yield = static_cast<size_t>(combination_.yields[t]);
      if (!combination_.keeps[t])  // reads all values before an accumulator changes
        copy_rows(spare_[t], values_[t].row, values_[yield].at, values_[yield].row, rows_, values_[t].row);
    }
    for (size_t t = 0; t < n; ++t)
      std::swap(values_[t].at,
                combination_.keeps[t] ? values_[static_cast<size_t>(combination_.yields[t])].at : spare_[t]);
  }

 private:
  void spread(int number, const Scalar& scalar) {
    const Lane lane = combination_.lanes[static_cast<size_t>(number)];
    cast_row(lane, lane)
        .variants[1]({1, most, values_[static_cast<size_t>(number)].at, 0, {scalar.bytes}, {0}});
  }
  void run(const Combination::Call& call) {
    Rows& out = values_[static_cast<size_t>(call.out)];
    Chunk chunk{rows_, cols_, out.at, out.row, {}, {}};
    for (size_t k = 0; k < call.in.size(); ++k) {
      const Rows& in = values_[static_cast<size_t>(call.in[k])];
      chunk.in[k] = in.at, chunk.in_row[k] = in.row;
    }
    if (call.functions.empty()) copy_rows(out.at, out.row, chunk.in[0], chunk.in_row[0], rows_, out.row);
    for (const StepFunction& function : call.functions) {
      chunk.out_row = cols_ * lane_bytes(function.result);
      function.variants[0](chunk);
      chunk.in[0] = chunk.out, chunk.in_row[0] = chunk.out_row;
    }
  }

  const Combination& combination_;
  std::vector<Rows> values_;
  std::vector<char*> spare_;
  int64_t rows_ = 0, cols_ = 0;
};

// Reduces [outer, size, inner] to [outer, inner]. If there are few lanes, the axis becomes short segments,
// whose elements are combined at once, and then the segments' results are reduced in the same way: the order
// stays, only the grouping changes, and depends on the shape alone.
class Reducer {
 public:
  static constexpr int64_t longest = 16, enough = 256, short_rows = 8;

  Reducer(const Combination& combination, Frame& frame)
      : combination_(combination), frame_(frame), combiner_(combination, frame) {
    for (size_t t = 0; t < combination.count(); ++t)
      turned_.push_back(
          frame.scratch.take(static_cast<size_t>(Combiner::most * longest * combination.bytes(t))));
  }
  static size_t scratch_bytes(const Combination& combination, const AxisSplit& split) {
    const auto results = static_cast<size_t>(split.outer * split.inner * (split.size / 2 + 64));
    return Combiner::scratch_bytes(combination) +
           combination.count() * (results * 16 + Combiner::most * longest * 8 + 64);
  }

  void reduce(const std::vector<const char*>& from, AxisSplit split, const std::vector<char*>& to) {
    int64_t segment = 2;
    while (segment < longest && segment * Combiner::most < split.outer * split.size * split.inner)
      segment *= 2;
    const int64_t segments = split.size / segment;
    if (split.outer * split.inner >= enough || segments < 2)
      return fold(from, {split.outer, split.size, 1, split.size}, split.size, split.inner, to, false);
    const size_t n = combination_.count(), mark = frame_.scratch.mark();
    std::vector<char*> parts(n);
    std::vector<const char*> in(n);
    for (size_t t = 0; t < n; ++t)
      in[t] = parts[t] = frame_.scratch.take(
          static_cast<size_t>(split.outer * segments * split.inner * combination_.bytes(t)));
    fold(from, {split.outer, split.size, segments, segment}, segment, split.inner, parts, false);
    AxisSplit rest = split;
    rest.size = segments;
    reduce(in, rest, to);
    frame_.scratch.release(mark);
    const int64_t whole = segments * segment;
    if (whole == split.size) return;
    std::vector<const char*> tail(n);
    for (size_t t = 0; t < n; ++t) tail[t] = from[t] + whole * split.inner * combination_.bytes(t);
    fold(tail, {split.outer, split.size, 1, split.size}, split.size - whole, split.inner, to, true);
  }

 private:
  // The first elements of what is folded: `outer` times `segments` of them, with these distances.
  struct Starts {
    int64_t outer, size, segments, segment;
    int64_t count() const { return outer * segments; }
    int64_t of(int64_t row) const { return row / segments * size + row % segments * segment; }
    bool even() const { return outer == 1 || segments == 1 || segments * segment == size; }
    int64_t step() const { return segments == 1 ? size : segment; }  // if even
  };

  // Combines `steps` elements from each start, [starts, inner]; `more`: with what `to` has already.
  void fold(const std::vector<const char*>& from, const Starts& starts, int64_t steps, int64_t inner,
            const std::vector<char*>& to, bool more) {
    if (inner < short_rows) return fold_turned(from, starts, steps, inner, to, more);
    const int64_t cols = std::min(inner, Combiner::most), rows = std::max<int64_t>(Combiner::most / cols, 1);
    const int64_t together = starts.even() ? starts.count() : starts.segments;
    for (int64_t group = 0; group < starts.count(); group += together)
      for (int64_t r = 0; r < together; r += rows)
        for (int64_t i = 0; i < inner; i += cols) {
          combiner_.shape(std::min(rows, together - r), std::min(cols, inner - i));
          fold_rows(from, (starts.of(group) + r * starts.step()) * inner + i, steps, inner, starts.step(), to,
                    (group + r) * inner + i, more);
        }
  }
  void fold_rows(const std::vector<const char*>& from, int64_t first, int64_t steps, int64_t inner,
                 int64_t distance, const std::vector<char*>& to, int64_t result, bool more) {
    const size_t n = combination_.count();
    const auto at = [&](size_t t, int64_t k) {
      return from[t] + (first + k * inner) * combination_.bytes(t);
    };
    for (size_t t = 0; t < n; ++t) {
      const int64_t bytes = combination_.bytes(t);
      more ? combiner_.start(t, to[t] + result * bytes, inner * bytes)
           : combiner_.start(t, at(t, 0), distance * inner * bytes);
    }
    for (int64_t k = more ? 0 : 1; k < steps; ++k)
      combiner_.step([&](size_t t) { return at(t, k); }, distance * inner);
    for (size_t t = 0; t < n; ++t)
      combiner_.finish(t, to[t] + result * combination_.bytes(t), inner * combination_.bytes(t));
  }

  // The same with [steps, starts, inner] in scratch memory, some steps at a time: one row of many lanes.
  void fold_turned(const std::vector<const char*>& from, const Starts& starts, int64_t steps, int64_t inner,
                   const std::vector<char*>& to, bool more) {
    const size_t n = combination_.count();
    for (int64_t r = 0, rows = Combiner::most / inner; r < starts.count(); r += rows) {
      const int64_t here = std::min(rows, starts.count() - r), lanes = here * inner;
      combiner_.shape(1, lanes);
      for (size_t t = 0; t < n && more; ++t) combiner_.start(t, to[t] + r * inner * combination_.bytes(t), 0);
      for (int64_t first = 0; first < steps; first += longest) {
        const int64_t count = std::min(longest, steps - first);
        for (size_t t = 0; t < n; ++t) turn(t, from[t], starts, r, here, first, count, inner);
        for (int64_t k = 0; k < count; ++k) {
          const auto at = [&](size_t t) { return turned_[t] + k * lanes * combination_.bytes(t); };
          if (first + k > 0 || more)
            combiner_.step(at, lanes);
          else
            for (size_t t = 0; t < n; ++t) combiner_.start(t, at(t), 0);
        }
      }
      for (size_t t = 0; t < n; ++t) combiner_.finish(t, to[t] + r * inner * combination_.bytes(t), 0);
    }
  }
  // Copies [rows, count, inner], from `first` of each row, as [count, rows, inner].
  void turn(size_t t, const char* from, const Starts& starts, int64_t row, int64_t rows, int64_t first,
            int64_t count, int64_t inner) {
    const int64_t bytes = combination_.bytes(t), cell = inner * bytes, distance = starts.step() * cell;
    for (int64_t done = 0; done < rows;) {
      const int64_t at = row + done,
                    here =
                        starts.even() ? rows : std::min(rows - done, starts.segments - at % starts.segments);
      const char* const data = from + (starts.of(at) + first) * cell;
      char* const to = turned_[t] + done * cell;
      if (inner == 1) {
        deal_function()(data, distance, static_cast<int>(bytes), here, count, to, rows * cell);
      } else {
        for (int64_t k = 0; k < count; ++k)
          copy_rows(to + k * rows * cell, cell, data + k * cell, distance, here, cell);
      }
      done += here;
    }
  }

  const Combination& combination_;
  Frame& frame_;
  Combiner combiner_;
  std::vector<char*> turned_;
};

// Operands, results and the region, for both reduce and scan.
struct CombineNode : OpNode {
  std::vector<WholeOperand> from;
  std::vector<WholeResult> to;
  AxisSplit split;
  Combination combination;

  CombineNode(LoweringContext& lower, const Op& op) : combination(lower, op.region()) {
    for (const Value* operand : op.operands) from.push_back(WholeOperand::of(lower, operand));
    for (const Value* result : op.results) to.push_back(WholeResult::of(lower, result));
    split = AxisSplit(from[0].shape, op.integer("axis"));
  }
  size_t operand_bytes() const { return static_cast<size_t>(from[0].count()) * 8 * from.size(); }
  void find_lanes(Frame& frame, std::vector<const char*>& in, std::vector<char*>& out) const {
    for (const WholeOperand& operand : from) in.push_back(operand.lanes(frame));
    for (const WholeResult& result : to) out.push_back(result.lanes(frame));
  }
  void finish(Frame& frame) const {
    for (const WholeResult& result : to)
      if (result.scalar < 0) result.finish(frame);
  }
};

struct ReduceNode final : CombineNode {
  ReduceNode(LoweringContext& lower, const Op& op) : CombineNode(lower, op) {
    lower.need_scratch(Reducer::scratch_bytes(combination, split) + operand_bytes());
  }
  Signal run(Frame& frame) const override {
    const size_t mark = frame.scratch.mark();
    std::vector<const char*> in;
    std::vector<char*> out;
    find_lanes(frame, in, out);
    Reducer(combination, frame).reduce(in, split, out);
    finish(frame);
    frame.scratch.release(mark);
    return Signal::next;
  }
};

struct ScanNode final : CombineNode {
  bool reverse;
  // A fast path for running sums along the last axis: with one lane per row, calls per element would
  // dominate.
  using RunningSum = void (*)(const AxisSplit&, bool reverse, const char* from, char* to);
  RunningSum running_sum;

  ScanNode(LoweringContext& lower, const Op& op)
      : CombineNode(lower, op),
        reverse(op.integer_or("reverse", 0) != 0),
        running_sum(running_sum_of(op.region())) {
    lower.need_scratch(Combiner::scratch_bytes(combination) + operand_bytes());
  }
  Signal run(Frame& frame) const override {
    const size_t mark = frame.scratch.mark();
    std::vector<const char*> in;
    std::vector<char*> out;
    find_lanes(frame, in, out);
    if (running_sum)
      running_sum(split, reverse, in[0], out[0]);
    else
      scan(frame, in, out);
    finish(frame);
    frame.scratch.release(mark);
    return Signal::next;
  }

  void scan(Frame& frame, const std::vector<const char*>& in, const std::vector<char*>& out) const {
    const size_t n = from.size();
    Combiner combiner(combination, frame);
    for (int64_t o = 0; o < split.outer; ++o)
      for (int64_t i = 0; i < split.inner; i += Combiner::most) {
        const int64_t cols = std::min(split.inner - i, Combiner::most);
        combiner.shape(1, cols);
        for (int64_t step = 0; step < split.size; ++step) {
          const int64_t k = reverse ? split.size - 1 - step : step;
          const auto offset = [&](size_t t) {
            return ((o * split.size + k) * split.inner + i) * combination.bytes(t);
          };
          if (step > 0)
            combiner.step([&](size_t t) { return in[t] + offset(t); }, cols);
          else
            for (size_t t = 0; t < n; ++t) combiner.start(t, in[t] + offset(t), 0);
          for (size_t t = 0; t < n; ++t) combiner.finish(t, out[t] + offset(t), 0);
        }
      }
  }

  template <class T>
  static void add_up(const AxisSplit& split, bool reverse, const char* from, char* to) {
    const auto* x = reinterpret_cast<const T*>(from);
    auto* out = reinterpret_cast<T*>(to);
    const int64_t step = reverse ? -1 : 1;
    for (int64_t o = 0; o < split.outer; ++o) {
      int64_t i = o * split.size + (reverse ? split.size - 1 : 0);
      T sum = out[i] = x[i];
      for (int64_t k = 1; k < split.size; ++k) {
        i += step;
        out[i] = sum += x[i];
      }
    }
  }
  // Returns the sum for a region that adds its two arguments without rounding to a narrower dtype, else null.
  RunningSum running_sum_of(const Block& region) const {
    const bool adds = from.size() == 1 && split.inner == 1 && region.ops.size() == 2 &&
                      region.ops.front()->is("add") && combination.calls[0].functions.size() == 1 &&
                      combination.yields[0] == combination.calls[0].out &&
                      combination.calls[0].in[0] + combination.calls[0].in[1] == 1;  // the arguments 0 and 1
    if (!adds) return nullptr;
    switch (lane_of(from[0].dtype)) {
      case Lane::i32:  // wraps
      case Lane::u32:
        return add_up<uint32_t>;
      case Lane::i64:
      case Lane::u64:
        return add_up<uint64_t>;
      case Lane::f32:
        return add_up<float>;
      case Lane::f64:
        return add_up<double>;
      default:
        return nullptr;
    }
  }
};

const AddLoweringRule reduce_{{"reduce", lower_as<ReduceNode>}};
const AddLoweringRule scan_{{"scan", lower_as<ScanNode>}};

}  // namespace
}  // namespace tile::cpu
