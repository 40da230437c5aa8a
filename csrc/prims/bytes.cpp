// pack_to_bytes and unpack_from_bytes: shifts of the elements' bits, built from other primitives.
#include "prims/bytes.h"

#include "ir/build.h"
#include "prims/adjoints.h"
#include "prims/tangents.h"

namespace tile {
namespace {

int64_t bytes_of(DType dtype) { return info(dtype).bytes; }
// tf32 has 19 bits, the highest bits of an f32.
DType storage_dtype(DType dtype) { return dtype == DType::tf32 ? DType::f32 : dtype; }

std::vector<Type> infer_pack(const Op& op) {
  const Type& x = op.type(0);
  return {Type::tile(DType::u8, {element_count(x.shape) * bytes_of(x.dtype)})};
}
std::vector<Type> infer_unpack(const Op& op) {
  const Type& x = op.type(0);
  const DType dtype = op.dtype("dtype");
  if (x.dtype != DType::u8 || x.rank() != 1)
    fail(op, ErrorKind::type, "takes u8 along one axis, got ", x, "; cast or reshape it first");
  if (dtype == DType::boolean)
    fail(op, ErrorKind::type, "does not give bool; unpack u8 and compare it with 0");
  if (x.shape[0] % bytes_of(dtype) != 0)
    fail(op, ErrorKind::value, "cannot divide ", x, " into elements of ", dtype, ", of ", bytes_of(dtype),
         " bytes each; the size must be a multiple");
  return {Type::tile(dtype, {x.shape[0] / bytes_of(dtype)})};
}

Value* cast(Builder& build, const char* how, Value* x, DType dtype) {
  return x->type.dtype == dtype ? x : build.emit(how, {x}, {{"dtype", dtype}});
}
// Returns 0, 8, 16, … along the rows of a matrix of bytes.
Value* shifts(Builder& build, DType bits, int64_t rows) {
  Value* indices = build.emit("arange", {}, {{"dtype", bits}, {"size", bytes_of(bits)}});
  Value* by = build.emit("mul", {indices, build.splat(Constant::of(bits, int64_t{8}), indices->type.shape)});
  Value* row = build.emit("reshape", {by}, {{"shape", Shape{1, bytes_of(bits)}}});
  return build.broadcast(row, {rows, bytes_of(bits)});
}

std::vector<Value*> expand_pack(Builder& build, const Op& op) {
  Value* x = cast(build, "astype", op.operands[0], storage_dtype(op.type(0).dtype));
  const DType bits = unsigned_of(x->type.dtype);
  const int64_t count = element_count(x->type.shape), bytes = bytes_of(bits);
  x = build.emit("reshape", {cast(build, "bitcast", x, bits)}, {{"shape", Shape{count, 1}}});
  if (bytes > 1)
    x = build.emit("shift_right", {build.broadcast(x, {count, bytes}), shifts(build, bits, count)});
  return {build.emit("reshape", {cast(build, "astype", x, DType::u8)}, {{"shape", Shape{count * bytes}}})};
}
std::vector<Value*> expand_unpack(Builder& build, const Op& op) {
  const DType dtype = op.dtype("dtype"), bits = unsigned_of(dtype);
  const int64_t bytes = bytes_of(dtype), count = op.type(0).shape[0] / bytes;
  Value* x = op.operands[0];
  if (bytes > 1) {
    x = build.emit("reshape", {x}, {{"shape", Shape{count, bytes}}});
    x = build.emit("shift_left", {cast(build, "astype", x, bits), shifts(build, bits, count)});
    x = build.emit("reduce_sum", {x}, {{"axes", std::vector<int64_t>{1}}});
  }
  return {cast(build, "astype", cast(build, "bitcast", x, storage_dtype(dtype)), dtype)};
}

const Register pack_{{.name = "pack_to_bytes",
                      .operands = 1,
                      .tangent = refuse_tangent,
                      .dtypes = dtypes::numbers | dtypes::restricted,
                      .infer = infer_pack,
                      .expand = expand_pack,
                      .doc =
                          "The elements in row-major order as little-endian bytes.\n"
                          "operands: x, a tile of any shape, not of bool.\n"
                          "result: u8[n], where n is the number of elements times the bytes of one. A tf32 "
                          "has its four bytes of memory.\n"
                          "C++: pack_to_bytes.",
                      .adjoint = adjoint_of_bits}};
const Register unpack_{
    {.name = "unpack_from_bytes",
     .operands = 1,
     .infer = infer_unpack,
     .expand = expand_unpack,
     .doc = "Elements of a dtype from their little-endian bytes.\n"
            "operands: bytes, u8 along one axis.\n"
            "{dtype}: of the result; not bool.\n"
            "dtypes: u8.\n"
            "result: dtype[n], where n is the number of bytes divided by those of one element.\n"
            "C++: unpack_from_bytes."}};

}  // namespace

Tile pack_to_bytes(const Operand& x) { return Tile(emit(pack_, {x.any()}, {}, x.location)); }
Tile unpack_from_bytes(const Operand& bytes, DType dtype) {
  return Tile(emit(unpack_, {bytes.any()}, {{"dtype", dtype}}, bytes.location));
}

}  // namespace tile
