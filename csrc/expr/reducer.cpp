// Reduction operators: dtypes, shapes and the launch.
#include "expr/reducer.h"

#include "dsl/tracer.h"
#include "expr/arrays.h"
#include "expr/reduce_axes.h"

namespace tile {
namespace {

bool adds_up(Reduction::Kind kind) { return kind == Reduction::Kind::sum || kind == Reduction::Kind::prod; }

}  // namespace

Reducer::Reducer(const std::string& text, Reduction of, Location where)
    : schema(text, own_arguments, of.version),
      parts(std::move(of)),
      forward(schema.name, where),
      backward(schema.name + "_backward", where) {
  if (!parts.map && schema.tensors != 1)
    fail(ErrorKind::type, schema.name, ": has ", schema.tensors,
         " tensors and no map that makes one of them");
  if (parts.kind == Reduction::Kind::own && (parts.identity.empty() || !parts.combine))
    fail(ErrorKind::type, schema.name,
         ": a combine function needs an identity: the number that it changes nothing with");
}

std::vector<Tile> Reducer::mapped(const ExpressionValues& values, const std::vector<Tile>& elements,
                                  const std::vector<Tile>& numbers, DType compute) const {
  std::vector<Tile> inputs;
  for (const Tile& each : elements)
    inputs.push_back(each.astype(each.dtype() == DType::boolean ? DType::boolean : compute));
  std::vector<Tile> made = parts.map ? parts.map(values.arguments(inputs, numbers)) : inputs;
  Shape shape = elements[0].shape();
  for (Tile& each : made) {
    if (adds_up(parts.kind) && !is_floating(each.dtype())) each = each.astype(DType::i64);
    each = each.broadcast_to(shape);
  }
  return made;
}

std::vector<Tile> Reducer::finished(const std::vector<Tile>& totals, const Tile& count, DType compute) const {
  const DType dtype = is_floating(compute) ? compute : DType::f32;
  std::vector<Tile> made = parts.finish ? parts.finish(totals, count.astype(dtype)) : totals;
  if (made.size() != schema.results.size())
    fail(ErrorKind::type, schema.name, ": gives ", made.size(), " tiles, but the schema has ",
         schema.results.size(), schema.results.size() == 1 ? " result" : " results");
  for (Tile& each : made) each = each.broadcast_to(totals[0].shape());
  return made;
}

Reducer::Dtypes Reducer::dtypes(const c10::IValue* values) {
  const at::ScalarType common = schema.common_dtype(values);
  const ExpressionValues passed(schema, values);
  return known_.get(passed.dtype_key(common), [&] { return traced_dtypes(values, passed, common); });
}

Reducer::Dtypes Reducer::traced_dtypes(const c10::IValue* values, const ExpressionValues& passed,
                                       at::ScalarType common) {
  Dtypes found;
  found.compute = computed_in(to_dtype(common));
  forward.trace_call([&](Tracer& tracer) {
    const std::vector<Tile> numbers = passed.bind(tracer, found.compute);
    std::vector<Tile> elements;
    for (const at::Tensor& tensor : schema.tensors_of(values))
      elements.push_back(full({1, 1}, 0, to_dtype(tensor.scalar_type() == at::kBool ? at::kBool : common)));
    const Block& block = tracer.block();
    const size_t from = block.ops.size();
    const std::vector<Tile> made = mapped(passed, elements, numbers, found.compute);
    for (const Tile& each : made) found.accumulators.push_back(each.dtype());
    for (const Tile& each : finished(made, full({}, 1, DType::i64), found.compute))
      found.results.push_back(each.dtype() == found.compute ? common : to_scalar_type(each.dtype()));
    require_elementwise(schema.name, block, from);
  });
  if (parts.finish && parts.totals != found.accumulators.size())
    fail(ErrorKind::type, schema.name, ": map gives ", found.accumulators.size(), " tiles, but finish takes ",
         parts.totals);
  if (parts.kind == Reduction::Kind::own && parts.identity.size() != found.accumulators.size())
    fail(ErrorKind::type, schema.name, ": map gives ", found.accumulators.size(), " tiles, but identity has ",
         parts.identity.size(), parts.identity.size() == 1 ? " number" : " numbers");
  return found;
}

uint32_t Reducer::axes(const c10::IValue* values, int64_t rank) const {
  const c10::IValue& dim = values[schema.arguments.size()];
  if (dim.isNone()) return (uint32_t{1} << rank) - 1;
  uint32_t bits = 0;
  for (const int64_t given : dim.toIntVector()) {
    const int64_t axis = given < 0 ? given + std::max<int64_t>(rank, 1) : given;
    if (axis < 0 || axis >= std::max<int64_t>(rank, 1))
      fail(ErrorKind::value, "dim is ", given, ", but there are ", rank, " axes");
    if (bits >> axis & 1) fail(ErrorKind::value, "dim names axis ", axis, " twice");
    if (rank) bits |= uint32_t{1} << axis;
  }
  return bits;
}

void Reducer::allocate(const c10::IValue* values, BoxedValues& results, bool totals) {
  const c10::SymDimVector shape = schema.common_shape(values);
  const auto rank = static_cast<int64_t>(shape.size());
  const uint32_t reduced = axes(values, rank);
  c10::SymDimVector left;
  for (int64_t i = 0; i < rank; ++i) {
    if (!(reduced >> i & 1)) left.push_back(shape[static_cast<size_t>(i)]);
    if ((parts.kind == Reduction::Kind::max || parts.kind == Reduction::Kind::min) && reduced >> i & 1 &&
        shape[static_cast<size_t>(i)] == 0)
      fail(ErrorKind::value, "axis ", i, " has no elements, and so no ",
           parts.kind == Reduction::Kind::max ? "largest" : "smallest", " one");
    if (reduced >> i & 1 && keeps(values)) left.emplace_back(1);
  }
  const Dtypes types = dtypes(values);
  const auto options = schema.tensors_of(values).front().options();
  if (!totals)
    for (const at::ScalarType dtype : types.results)
      results.emplace_back(at::empty_symint(left, options.dtype(dtype)));
  else
    for (const DType dtype : types.accumulators)
      results.emplace_back(at::empty_symint(left, options.dtype(to_scalar_type(dtype))));
}

ArrayArgument Reducer::beside(const at::Tensor& tensor, const std::vector<int64_t>& shape, uint32_t reduced,
                              bool keeps, bool wide) {
  const ArrayArgument given = at::to_array_argument(tensor);
  ArrayArgument array = given;
  array.rank = static_cast<int>(shape.size());
  int own = 0;
  for (int i = 0; i < array.rank; ++i) {
    const bool gone = reduced >> i & 1;
    array.sizes[i] = gone ? (wide ? shape[static_cast<size_t>(i)] : 1) : given.sizes[own];
    array.strides[i] = gone ? (wide ? 0 : 1) : given.strides[own];
    if (!gone || keeps) ++own;
  }
  return array;
}

void Reducer::run(const c10::IValue* values, size_t saved) {
  const size_t arguments = schema.arguments.size();
  const c10::IValue* made = values + arguments + own_arguments;
  const std::vector<int64_t> shape = schema.concrete_shape(values);
  const uint32_t reduced = axes(values, static_cast<int64_t>(shape.size()));
  const Dtypes types = dtypes(values);
  const ExpressionValues passed(schema, values);
  ElementArrays elements, results, totals;
  for (const at::Tensor& tensor : schema.tensors_of(values))
    elements.push_back(broadcast_array(tensor, shape));
  for (size_t k = 0; k < schema.results.size(); ++k)
    results.push_back(beside(made[k].toTensor(), shape, reduced, keeps(values), false));
  for (size_t k = 0; k < saved; ++k)
    if (const c10::IValue& total = made[schema.results.size() + k]; !is_missing(total))
      totals.push_back(beside(total.toTensor(), shape, reduced, keeps(values), false));
  std::vector<Tile> numbers;
  ReductionBody body;
  body.kind = parts.kind;
  body.combine = parts.combine;
  body.identity = parts.identity;
  body.accumulators = types.accumulators;
  body.begin = [&](Tracer& tracer) { numbers = passed.bind(tracer, types.compute); };
  body.map = [&](const std::vector<Tile>& each) { return mapped(passed, each, numbers, types.compute); };
  body.finish = [&](const std::vector<Tile>& all, const Tile& count) {
    return finished(all, count, types.compute);
  };
  const uint64_t mode = static_cast<uint64_t>(types.compute) << 1 | (totals.empty() ? 0 : 1);
  const ReductionLaunch launch{forward, body,
                               [&](LaunchKey& key) {
                                 key.add(mode);
                                 passed.key(key);
                               },
                               [&](std::vector<ArgumentRef>& refs) { passed.pass(refs); }};
  reduce_axes(launch, elements, reduced, results, totals, made[0].toTensor());
}

}  // namespace tile
