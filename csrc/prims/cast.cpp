// astype and bitcast: values, or bits, in another dtype.
#include "dsl/tile.h"

namespace tile {
namespace {

std::vector<Type> infer_astype(const Op& op) { return {Type::tile(op.dtype("dtype"), op.type(0).shape)}; }

std::vector<Type> infer_bitcast(const Op& op) {
  DType from = op.type(0).dtype, to = op.dtype("dtype");
  if (info(from).bits != info(to).bits || from == DType::boolean || to == DType::boolean)
    fail(op, ErrorKind::type, "cannot reinterpret ", from, " as ", to,
         "; the widths must be equal and neither bool");
  return {Type::tile(to, op.type(0).shape)};
}

// As a target converts: an integer is rounded once, and what is narrower than f32 is reached by way of f32.
double rounded_on_the_way(const Constant& x, DType result) {
  if (result == DType::f64) return x.as_double();
  return is_floating(x.dtype)    ? static_cast<float>(x.floating)
         : x.dtype == DType::u64 ? static_cast<float>(static_cast<uint64_t>(x.integer))
                                 : static_cast<float>(x.integer);
}

std::optional<Constant> fold_astype(std::span<const Constant> operands, DType result) {
  const Constant& x = operands[0];
  return is_floating(result)    ? Constant::of(result, rounded_on_the_way(x, result))
         : is_floating(x.dtype) ? Constant::of(result, x.floating)
                                : Constant::of(result, x.integer);
}

const Register astype_{
    {.name = "astype",
     .operands = 1,
     .traits = {.elementwise = true},
     .infer = infer_astype,
     .fold = fold_astype,
     .doc = "Converts: float to float rounds to nearest even, and f8e4m3, which has no infinity, "
            "saturates; float to integer truncates and saturates, NaN is 0; integers wrap; "
            "to bool is != 0."}};
const Register bitcast_{{.name = "bitcast",
                         .operands = 1,
                         .traits = {.elementwise = true},
                         .infer = infer_bitcast,
                         .doc = "The same bits as another dtype of equal width."}};

}  // namespace

Tile Tile::astype(DType dtype, Location location) const {
  Value* x = value(location);
  return Tile(x->type.dtype == dtype ? x : emit(astype_, {x}, {{"dtype", dtype}}, location));
}
Tile Tile::bitcast(DType dtype, Location location) const {
  Value* x = value(location);
  return Tile(x->type.dtype == dtype ? x : emit(bitcast_, {x}, {{"dtype", dtype}}, location));
}

}  // namespace tile
