// Reductions that do not end a fused loop: argmax and argmin, and reduce and scan with a combine region.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "cpu/interpreter/operand.h"
#include "cpu/interpreter/steps.h"
#include "cpu/interpreter/tables.h"

namespace tile::cpu {
namespace {

// A tile as [outer, axis, inner], row-major.
struct AxisSplit {
  int64_t outer = 1, size = 1, inner = 1;
  AxisSplit() = default;
  AxisSplit(const Shape& shape, int64_t axis) {
    for (size_t i = 0; i < shape.size(); ++i)
      (static_cast<int64_t>(i) < axis ? outer : static_cast<int64_t>(i) == axis ? size : inner) *= shape[i];
  }
};

struct ArgNode final : OpNode {
  WholeOperand from;
  WholeResult to;
  AxisSplit split;
  ChunkFunction better, differs;  // x better than y; x != x for NaN
  Signal run(Frame& frame) const override {
    size_t mark = frame.scratch.mark();
    const int64_t element = lane_bytes(lane_of(from.dtype));
    const char* lanes = from.lanes(frame);
    auto* out = reinterpret_cast<int32_t*>(to.lanes(frame));
    auto test = [&](ChunkFunction function, const char* x, const char* y) {
      char holds = 0;
      function({1, 1, &holds, 0, {x, y}, {0, 0}});
      return holds != 0;
    };
    for (int64_t o = 0; o < split.outer; ++o)
      for (int64_t i = 0; i < split.inner; ++i) {
        const char* line = lanes + (o * split.size * split.inner + i) * element;
        int64_t best = -1;
        for (int64_t k = 0; k < split.size; ++k) {
          const char* x = line + k * split.inner * element;
          if (test(differs, x, x)) continue;
          if (best < 0 || test(better, x, line + best * split.inner * element)) best = k;
        }
        out[o * split.inner + i] = static_cast<int32_t>(std::max<int64_t>(best, 0));
      }
    if (to.scalar < 0) to.finish(frame);
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<OpNode> lower_arg(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<ArgNode>();
  node->from = WholeOperand::of(lower, op.operands[0]);
  node->to = WholeResult::of(lower, op.results[0]);
  node->split = AxisSplit(node->from.shape, op.integer("axis"));
  const Lane lane = lane_of(node->from.dtype);
  node->better = find_elementwise(op.is("argmax") ? "gt" : "lt", lane)->variants[0];
  node->differs = find_elementwise("ne", lane)->variants[0];
  return node;
}

// The combine region as calls on rows of `inner` lanes: accumulated values first, then new ones.
struct CombineNode final : OpNode {
  struct Call {
    std::vector<ChunkFunction> functions;
    std::vector<int> in;
    int out;
    int64_t bytes;  // of a result lane
  };
  std::vector<WholeOperand> from;
  std::vector<WholeResult> to;
  AxisSplit split;
  bool scan, reverse;
  std::vector<Call> calls;
  std::vector<int> yields;
  int buffers = 0;  // the region's values: 2n arguments, then results
  std::vector<std::pair<int, Scalar>> constants;
  std::vector<std::pair<int, int>> outer;  // outer scalars: buffer, scalar of the frame

  // A fast path for running sums along the last axis: with one lane per row, calls per element would
  // dominate.
  using RunningSum = void (*)(const AxisSplit&, bool reverse, const char* from, char* to);
  RunningSum running_sum = nullptr;
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

  Signal run(Frame& frame) const override {
    size_t mark = frame.scratch.mark();
    const size_t n = from.size();
    if (running_sum) {
      const char* lanes = from[0].lanes(frame);
      running_sum(split, reverse, lanes, to[0].lanes(frame));
      if (to[0].scalar < 0) to[0].finish(frame);
      frame.scratch.release(mark);
      return Signal::next;
    }
    const int64_t inner = split.inner;
    std::vector<char*> at(static_cast<size_t>(buffers));
    std::vector<const char*> in(n);
    std::vector<char*> out(n);
    for (size_t k = 0; k < n; ++k) {
      in[k] = from[k].lanes(frame);
      out[k] = to[k].lanes(frame);
    }
    for (char*& buffer : at) buffer = frame.scratch.take(static_cast<size_t>(inner * 8));
    auto spread = [&](int buffer, const Scalar& scalar) {  // splats 8 bytes only to lanes of that width
      for (const auto& [number, bytes] : scalar_bytes)
        if (number == buffer)
          for (int64_t i = 0; i < inner; ++i)
            std::memcpy(at[static_cast<size_t>(buffer)] + i * bytes, scalar.bytes,
                        static_cast<size_t>(bytes));
    };
    for (const auto& [buffer, scalar] : constants) spread(buffer, scalar);
    for (const auto& [buffer, scalar] : outer) spread(buffer, frame.scalars[static_cast<size_t>(scalar)]);
    for (int64_t o = 0; o < split.outer; ++o)
      for (int64_t step = 0; step < split.size; ++step) {
        const int64_t k = reverse ? split.size - 1 - step : step;
        for (size_t t = 0; t < n; ++t) {
          const int64_t row = inner * bytes_of(t);
          const char* fresh = in[t] + (o * split.size + k) * row;
          if (step == 0)
            std::memcpy(at[t], fresh, static_cast<size_t>(row));
          else
            std::memcpy(at[n + t], fresh, static_cast<size_t>(row));
        }
        if (step > 0) combine(at, inner, n, frame);
        for (size_t t = 0; t < n && scan; ++t)
          std::memcpy(out[t] + (o * split.size + k) * inner * bytes_of(t), at[t],
                      static_cast<size_t>(inner * bytes_of(t)));
        for (size_t t = 0; t < n && !scan && step + 1 == split.size; ++t)
          std::memcpy(out[t] + o * inner * bytes_of(t), at[t], static_cast<size_t>(inner * bytes_of(t)));
      }
    for (const WholeResult& result : to)
      if (result.scalar < 0) result.finish(frame);
    frame.scratch.release(mark);
    return Signal::next;
  }

  int64_t bytes_of(size_t t) const { return lane_bytes(lane_of(from[t].dtype)); }

  void combine(const std::vector<char*>& at, int64_t inner, size_t n, Frame& frame) const {
    for (const Call& call : calls) {
      Chunk chunk{1, inner, at[static_cast<size_t>(call.out)], 0, {}, {}};
      for (size_t k = 0; k < call.in.size(); ++k) chunk.in[k] = at[static_cast<size_t>(call.in[k])];
      if (call.functions.empty())
        std::memcpy(chunk.out, chunk.in[0], static_cast<size_t>(inner * call.bytes));
      for (ChunkFunction function : call.functions) {
        function(chunk);
        chunk.in[0] = chunk.out;
      }
    }
    // All yields are read before an accumulator changes.
    size_t mark = frame.scratch.mark();
    std::vector<char*> kept(n);
    for (size_t t = 0; t < n; ++t) {
      auto row = static_cast<size_t>(inner * bytes_of(t));
      kept[t] = frame.scratch.take(row);
      std::memcpy(kept[t], at[static_cast<size_t>(yields[t])], row);
    }
    for (size_t t = 0; t < n; ++t) std::memcpy(at[t], kept[t], static_cast<size_t>(inner * bytes_of(t)));
    frame.scratch.release(mark);
  }
  std::vector<std::pair<int, int64_t>> scalar_bytes;  // lane width of constants and outer scalars
};

// Returns the sum for a region that adds its two arguments without rounding to a narrower dtype, else null.
CombineNode::RunningSum running_sum_of(const CombineNode& node, const Block& region) {
  const Op& op = *region.ops.front();
  const bool adds = node.scan && node.from.size() == 1 && node.split.inner == 1 && region.ops.size() == 2 &&
                    op.is("add") && node.calls[0].functions.size() == 1 &&
                    node.yields[0] == node.calls[0].out &&
                    node.calls[0].in[0] + node.calls[0].in[1] == 1;  // the arguments are 0 and 1
  if (!adds) return nullptr;
  switch (lane_of(node.from[0].dtype)) {
    case Lane::i32:  // wraps
    case Lane::u32:
      return CombineNode::add_up<uint32_t>;
    case Lane::i64:
    case Lane::u64:
      return CombineNode::add_up<uint64_t>;
    case Lane::f32:
      return CombineNode::add_up<float>;
    case Lane::f64:
      return CombineNode::add_up<double>;
    default:
      return nullptr;
  }
}

std::unique_ptr<OpNode> lower_combine(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<CombineNode>();
  for (const Value* operand : op.operands) node->from.push_back(WholeOperand::of(lower, operand));
  for (const Value* result : op.results) node->to.push_back(WholeResult::of(lower, result));
  node->split = AxisSplit(node->from[0].shape, op.integer("axis"));
  node->scan = op.is("scan");
  node->reverse = op.integer_or("reverse", 0) != 0;
  const Block& region = op.region();
  std::unordered_map<const Value*, int> numbers;
  for (const Value* argument : region.arguments) numbers.emplace(argument, node->buffers++);
  auto number = [&](const Value* value) {
    auto [at, fresh] = numbers.emplace(value, node->buffers);
    if (!fresh) return at->second;
    ++node->buffers;
    node->scalar_bytes.emplace_back(at->second, lane_bytes(lane_of(value->type.dtype)));
    if (value->definition && value->definition->is("constant")) {
      Scalar scalar;
      store_constant(scalar, *value->definition);
      node->constants.emplace_back(at->second, scalar);
    } else {
      node->outer.emplace_back(at->second, lower.scalar(value));
    }
    return at->second;
  };
  for (const auto& inner : region.ops) {
    if (inner->traits().terminator) {
      for (const Value* operand : inner->operands) node->yields.push_back(number(operand));
    } else if (!inner->is("constant")) {
      CombineNode::Call call;
      for (const StepFunction& step : step_functions(*inner)) call.functions.push_back(step.variants[0]);
      for (const Value* operand : inner->operands) call.in.push_back(number(operand));
      call.out = node->buffers++;
      call.bytes = lane_bytes(lane_of(inner->results[0]->type.dtype));
      numbers.emplace(inner->results[0], call.out);
      node->calls.push_back(std::move(call));
    }
  }
  node->running_sum = running_sum_of(*node, region);
  lower.need_scratch(static_cast<size_t>((node->split.inner + 64) * 8 * (node->buffers + 8)) +
                     static_cast<size_t>(node->from[0].count()) * 8 * node->from.size());
  return node;
}

const AddLoweringRule argmax_{{"argmax", lower_arg}};
const AddLoweringRule argmin_{{"argmin", lower_arg}};
const AddLoweringRule reduce_{{"reduce", lower_combine}};
const AddLoweringRule scan_{{"scan", lower_combine}};

}  // namespace
}  // namespace tile::cpu
