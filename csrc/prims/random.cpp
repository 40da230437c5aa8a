// random_u32 and random_u64 return Philox's bits; bounded numbers, uniforms and normals are built from them
// with other primitives.
#include "prims/random.h"

#include <algorithm>
#include <span>

namespace tile {
namespace {

std::vector<Type> infer_bits(const Op& op, DType dtype) {
  for (size_t i = 0; i < 3; ++i)
    if (op.type(i) != op.type(0) || op.type(i).dtype != DType::u64)
      fail(op, op.type(i).dtype == DType::u64 ? ErrorKind::value : ErrorKind::type, "takes seed, stream and ",
           "number of one shape in u64, got ", op.type(0), ", ", op.type(1), " and ", op.type(2));
  return {Type::tile(dtype, op.type(0).shape)};
}
std::vector<Type> infer_u32(const Op& op) { return infer_bits(op, DType::u32); }
std::vector<Type> infer_u64(const Op& op) { return infer_bits(op, DType::u64); }

const Register random_u32_{
    {.name = "random_u32",
     .operands = 3,
     .traits = {.elementwise = true},
     .dtypes = DTypeSet(DType::u64),
     .infer = infer_u32,
     .doc = "For seed, stream and number n: word n % 4 of Philox4x32-10, whose key is the seed "
            "and whose counter is n / 4 and, in its high half, the stream.\n"
            "operands: seed, stream, number: u64 of one shape.\n"
            "result: u32 of that shape. Equal on every target.\n"
            "C++: random_bits, uniform."}};
const Register random_u64_{
    {.name = "random_u64",
     .operands = 3,
     .traits = {.elementwise = true},
     .dtypes = DTypeSet(DType::u64),
     .infer = infer_u64,
     .doc = "For seed, stream and number n: the words 2n and 2n + 1 of random_u32, the first "
            "one low.\n"
            "operands: seed, stream, number: u64 of one shape.\n"
            "result: u64 of that shape. Equal on every target.\n"
            "C++: random_bits, normal."}};

// One call of the language: its checked operands, and a builder of ops with the user's line.
class Draw {
 public:
  Draw(const char* operation, Shape shape, const Operand& seed, const Operand& offset, const Operand& stream)
      : operation_(operation), at_(seed.location), shape_(std::move(shape)) {
    if (std::any_of(shape_.begin(), shape_.end(), [](int64_t extent) { return extent < 1; }))
      fail(at_, ErrorKind::value, operation, ": shape is ", shape_, "; extents must be at least 1");
    seed_ = astype(DType::u64, fit(integer("seed", seed)));
    stream_ = astype(DType::u64, fit(integer("stream", stream)));
    number_ = numbers(integer("offset", offset));
  }

  Value* words32() { return op("random_u32", {seed_, stream_, number_}); }
  Value* words64() { return words64(number_); }
  // Returns word 2n or 2n + 1 of an element that uses both.
  Value* word64_of_two(int which) {
    Value* first = op("shift_left", {number_, like(number_, int64_t{1})});
    return words64(which == 0 ? first : op("add", {first, like(first, int64_t{1})}));
  }

  Value* op(const char* name, std::vector<Value*> operands) {
    return emit(name, std::move(operands), {}, at_);
  }
  // Returns a number as a tile like x.
  template <class T>
  Value* like(const Value* x, T value) {
    const DType dtype = x->type.dtype;
    Value* scalar =
        emit("constant", {}, {{"dtype", dtype}, {"value", Constant::of(dtype, value).attribute()}}, at_);
    return broadcast_to(operation_, scalar, x->type.shape, at_);
  }
  Value* astype(DType dtype, Value* x) {
    return x->type.dtype == dtype ? x : emit("astype", {x}, {{"dtype", dtype}}, at_);
  }
  Value* shifted_right(Value* x, int64_t by) { return op("shift_right", {x, like(x, by)}); }
  Value* times(Value* x, double factor) { return op("mul", {x, like(x, factor)}); }
  Value* plus(Value* x, double summand) { return op("add", {x, like(x, summand)}); }

 private:
  Value* words64(Value* number) { return op("random_u64", {seed_, stream_, number}); }
  Value* fit(Value* x) { return broadcast_to(operation_, x, shape_, at_); }
  Value* integer(const char* what, const Operand& x) {
    if (x.value ? !is_integer(x.value->type.dtype) : x.literal->dtype != DType::i64)
      fail(at_, ErrorKind::type, operation_, ": ", what, " is ",
           x.value ? str(x.value->type) : str("the literal ", x.literal->attribute()),
           "; pass an integer, or cast it with astype()");
    return x.value ? x.value : x.as(DType::i64, operation_);
  }
  // Numbers the elements in row-major order from a scalar offset. Only the last sum has the size of the tile.
  Value* numbers(Value* offset) {
    if (!offset->type.is_scalar()) {
      // A tile with a single number would give every element the same bits.
      if (offset->type.shape != shape_)
        fail(at_, ErrorKind::value, operation_, ": offset is ", offset->type.shape, ", the result ", shape_,
             "; pass a number for each element, or a scalar (of one element reshape({}) makes one)");
      return astype(DType::u64, offset);
    }
    Value* sum = astype(DType::u64, offset);
    int64_t step = element_count(shape_);
    Shape so_far(shape_.size(), 1);
    for (size_t axis = 0; axis < shape_.size(); ++axis) {
      step /= shape_[axis];
      if (shape_[axis] == 1) continue;
      Value* index = emit("arange", {}, {{"dtype", DType::u64}, {"size", shape_[axis]}}, at_);
      if (step > 1) index = op("mul", {index, like(index, step)});
      Shape line(shape_.size(), 1);
      so_far[axis] = line[axis] = shape_[axis];
      if (line.size() > 1) index = emit("reshape", {index}, {{"shape", line}}, at_);
      sum = op("add",
               {broadcast_to(operation_, sum, so_far, at_), broadcast_to(operation_, index, so_far, at_)});
    }
    return fit(sum);
  }

  const char* operation_;
  Location at_;
  Shape shape_;
  Value *seed_, *stream_, *number_;
};

// Returns the number of significant bits; 0 for dtypes without random numbers.
int digits(DType dtype) {
  return dtype == DType::f16    ? 11
         : dtype == DType::bf16 ? 8
         : dtype == DType::f32  ? 24
         : dtype == DType::f64  ? 53
                                : 0;
}
void check_floating(const char* operation, DType dtype, const Location& at) {
  if (!digits(dtype))
    fail(at, ErrorKind::type, operation, ": dtype is ", dtype, "; pass f16, bf16, f32 or f64");
}

// Returns the highest bits of words as a float in [0, 1). They are converted from a signed integer, which is
// faster on most chips.
Value* fraction(Draw& draw, Value* words, DType compute, int bits) {
  const bool wide = words->type.dtype == DType::u64;
  Value* integers =
      draw.astype(wide ? DType::i64 : DType::i32, draw.shifted_right(words, (wide ? 64 : 32) - bits));
  return draw.times(draw.astype(compute, integers), __builtin_ldexp(1, -bits));
}

// sin(pi b) / b in b², |b| <= 1/2, lowest power first: minimax, relative errors 2^-25 and 2^-54. Unlike a
// sine function, all targets round these steps in the same way.
constexpr double sine_f32[] = {3.14159274, -5.16772032, 2.55025768, -0.599351108, 0.0796530545};
constexpr double sine_f64[] = {3.141592653589793,     -5.167712780049969,      2.5501640398773007,
                               -0.5992645293189447,   0.0821458865731029,      -0.007370430505916944,
                               0.0004662998161898394, -2.1903497074626018e-05, 7.697826768224191e-07};

// Box and Muller's variates. sin over half a circle has the same distribution as over a whole one, and keeps
// its precision where it is small.
Value* radius(Draw& draw, Value* a) { return draw.op("sqrt", {draw.times(draw.op("log", {a}), -2)}); }
Value* sine(Draw& draw, Value* b) {
  const std::span<const double> c =
      b->type.dtype == DType::f64 ? std::span<const double>(sine_f64) : sine_f32;
  Value* square = draw.op("mul", {b, b});
  Value* sum = draw.like(b, c.back());
  for (size_t i = c.size() - 1; i-- > 0;) sum = draw.op("fma", {sum, square, draw.like(b, c[i])});
  return draw.op("mul", {sum, b});
}

}  // namespace

Tile random_bits(Shape shape, Operand seed, Operand offset, DType dtype, Operand stream) {
  if (dtype != DType::u32 && dtype != DType::u64)
    fail(seed.location, ErrorKind::type, "random_bits: dtype is ", dtype, "; pass u32 or u64");
  Draw draw("random_bits", std::move(shape), seed, offset, stream);
  return Tile(dtype == DType::u32 ? draw.words32() : draw.words64());
}

Tile uniform(Shape shape, Operand seed, Operand offset, DType dtype, Operand stream) {
  check_floating("uniform", dtype, seed.location);
  Draw draw("uniform", std::move(shape), seed, offset, stream);
  if (dtype == DType::f64) return Tile(fraction(draw, draw.words64(), dtype, digits(dtype)));
  return Tile(draw.astype(dtype, fraction(draw, draw.words32(), DType::f32, digits(dtype))));
}

Tile normal(Shape shape, Operand seed, Operand offset, DType dtype, Operand stream) {
  check_floating("normal", dtype, seed.location);
  Draw draw("normal", std::move(shape), seed, offset, stream);
  Value *a, *b;
  if (dtype == DType::f64) {
    a = draw.plus(fraction(draw, draw.word64_of_two(0), DType::f64, 53), 0x1p-54);
    b = draw.times(draw.astype(DType::f64, draw.astype(DType::i64, draw.word64_of_two(1))), 0x1p-64);
  } else {
    Value* words = draw.words64();
    a = draw.plus(draw.times(draw.astype(DType::f32, draw.astype(DType::u32, words)), 0x1p-32), 0x1p-33);
    b = draw.times(draw.astype(DType::f32, draw.astype(DType::i32, draw.shifted_right(words, 32))), 0x1p-32);
  }
  return Tile(draw.astype(dtype, draw.op("mul", {radius(draw, a), sine(draw, b)})));
}

}  // namespace tile
