// load, store and addition of tiles.
#include "prims/memory.h"

#include "dsl/tracer.h"
#include "prims/adjoints.h"
#include "prims/axes.h"
#include "prims/elementwise.h"
#include "prims/padding.h"
#include "prims/tangents.h"

namespace tile {
namespace {

void check_tile_address(const Op& op, size_t first_index, const Shape& shape) {
  const Type& array = op.type(0);
  size_t rank = static_cast<size_t>(array.is_array() ? array.array_rank : -1);
  if (!array.is_array() || op.operands.size() - first_index != rank)
    fail(op, ErrorKind::value, op.operands.size() - first_index, " indices for ", array,
         "; give one per axis");
  for (size_t i = first_index; i < op.operands.size(); ++i)
    if (!op.type(i).is_scalar() || !is_integer(op.type(i).dtype))
      fail(op, ErrorKind::type, "indices must be integer scalars, got ", op.type(i));
  if (shape.size() != rank || op.integers("steps").size() != rank)
    fail(op, ErrorKind::value, "a tile of shape ", shape, " does not fit ", array,
         "; give one extent per axis");
}

std::vector<Type> infer_load(const Op& op) {
  const Shape& shape = op.integers("shape");
  check_tile_address(op, 1, shape);
  require_pad(op);
  return {Type::tile(op.type(0).dtype, shape)};
}
void check_written_tile(const Op& op, const char* deed, const char* to) {
  check_tile_address(op, 2, op.type(1).shape);
  if (op.type(1).dtype != op.type(0).dtype)
    fail(op, ErrorKind::type, "cannot ", deed, " ", op.type(1), " ", to, " ", op.type(0),
         "; cast with astype()");
}
std::vector<Type> infer_store(const Op& op) {
  check_written_tile(op, "store", "into");
  return {};
}
std::vector<Type> infer_add_tile(const Op& op) {
  check_written_tile(op, "add", "to");
  return {};
}

const Register load_{
    {.name = "load",
     .traits = {.reads = true},
     .tangent = linear_tangent,
     .infer = infer_load,
     .doc = "Loads the tile at an index of an array divided into tiles; elements outside are "
            "`pad`.\n"
            "operands: array, an integer scalar for each axis, which counts steps.\n"
            "{shape}: extents of the tile.\n"
            "{steps}: elements between the starts of adjacent tiles; by default the extents.\n"
            "{pad}: the value of elements outside: any number for floats, 0 for integers and "
            "bool.\n"
            "{in_bounds}: 1 if the tile is inside, proven by a pass or promised by the author.\n"
            "result: a tile of the array's dtype and `shape`.\n"
            "A tile that is completely outside is all padding. Nothing outside the array is "
            "read.\n"
            "C++: View::load.",
     .adjoint = adjoint_of_load}};
const Register store_{
    {.name = "store",
     .traits = {.writes = true},
     .tangent = store_tangent,
     .infer = infer_store,
     .doc = "Writes a tile at an index of an array divided into tiles; elements outside are "
            "dropped.\n"
            "operands: array, a tile of its dtype, an integer scalar for each axis, which "
            "counts steps.\n"
            "{steps}: elements between the starts of adjacent tiles.\n"
            "{in_bounds}: 1 if the tile is inside, proven by a pass or promised by the author.\n"
            "The language casts the tile to the array's dtype, by `astype`, and broadcasts it "
            "to the view's shape.\n"
            "C++: View::store.",
     .adjoint = adjoint_of_store}};
const Register add_tile_{
    {.name = "add_tile",
     .traits = {.reads = true, .writes = true, .barrier = true},
     .tangent = store_tangent,
     .dtypes = dtypes::numbers,
     .infer = infer_add_tile,
     .doc = "Adds a tile at an index of an array divided into tiles, atomically per element; "
            "elements outside are dropped.\n"
            "operands: array, a tile of its dtype, an integer scalar for each axis, which "
            "counts steps.\n"
            "{steps}: elements between the starts of adjacent tiles.\n"
            "{in_bounds}: 1 if the tile is inside, proven by a pass or promised by the author.\n"
            "The order of additions of different blocks is unspecified, so sums of floats may "
            "differ in their last bits from run to run.\n"
            "GPU: i32, i64, u32, u64, f32, f64 and f16, and bf16 from sm_90 on, are added by "
            "an instruction; other dtypes use a loop of compare-and-exchange on a word.\n"
            "C++: View::atomic_add.",
     .adjoint = adjoint_of_store}};
}  // namespace

View Array::tiled_view(Shape shape, Location location) const { return tiled_view(shape, shape, location); }
View Array::tiled_view(Shape shape, Shape steps, Location location) const {
  for (const Shape* each : {&shape, &steps}) {
    if (static_cast<int>(each->size()) != rank())
      fail(location, ErrorKind::value, "tiled_view: ", each == &shape ? "shape " : "steps ", *each, " for ",
           value_->type, "; give one extent per axis");
    for (int64_t extent : *each)
      if (extent < 1)
        fail(location, ErrorKind::value, "tiled_view: ", each == &shape ? "shape " : "steps ", *each,
             " has an extent below 1");
  }
  return View(*this, std::move(shape), std::move(steps));
}

View View::unchecked() const {
  View view = *this;
  view.inside_ = true;
  return view;
}
Tile View::num_tiles(int axis, Location location) const {
  int64_t normal = normal_axis("num_tiles", axis, array_.value()->type, location);
  return cdiv(Operand(array_.dim(axis, location), location),
              Operand(static_cast<long>(steps_[static_cast<size_t>(normal)]), location));
}

std::vector<Value*> View::address(const char* operation, std::initializer_list<Operand> index,
                                  const Location& at) const {
  Tracer::current(at).check_visible(array_.value(), "this Array view", at);
  if (index.size() != shape_.size())
    fail(at, ErrorKind::value, operation, ": ", index.size(), " indices for a view of shape ", shape_,
         "; give one per axis");
  std::vector<Value*> operands{array_.value()};
  for (const Operand& each : index) operands.push_back(each.any());
  return operands;
}

Tile View::load(std::initializer_list<Operand> index, double pad, Location location) const {
  Attributes attributes{
      {"shape", shape_}, {"steps", steps_}, {"pad", padding_of("load", dtype(), pad, location)}};
  if (inside_) attributes.set("in_bounds", int64_t{1});
  return Tile(emit(load_, address("load", index, location), std::move(attributes), location));
}

void View::write(const Primitive& primitive, const char* operation, std::initializer_list<Operand> index,
                 const Operand& tile) const {
  const Location& at = tile.location;
  std::vector<Value*> operands = address(operation, index, at);
  Value* value = tile.literal ? tile.as(dtype(), operation) : Tile(tile.value).astype(dtype(), at).value(at);
  operands.insert(operands.begin() + 1, broadcast_to(operation, value, shape_, at));
  Attributes attributes{{"steps", steps_}};
  if (inside_) attributes.set("in_bounds", int64_t{1});
  emit(primitive, operands, std::move(attributes), at);
}
void View::store(std::initializer_list<Operand> index, Operand tile) const {
  write(store_, "store", index, tile);
}
void View::atomic_add(std::initializer_list<Operand> index, Operand tile) const {
  write(add_tile_, "atomic_add", index, tile);
}

}  // namespace tile
