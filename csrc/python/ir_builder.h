// The builder of Tile IR as a Python object, for kernels written in Python.
#pragma once
#include <string_view>

#include "ir/dtype.h"
#include "python/module.h"

namespace tile {

class Function;
struct Block;

}  // namespace tile

namespace tile::python {

struct IrBuilder;

// Throws an error where there is none.
DType dtype_named(std::string_view name);

// A function that Python fills. After the destructor, each method of the builder raises an error.
class BuiltFunction {
 public:
  BuiltFunction(Function& function, Block& block);  // operations are appended to the block
  ~BuiltFunction();
  BuiltFunction(const BuiltFunction&) = delete;
  PyObject* object() const { return object_.get(); }
  size_t number_of(Value* value);  // the number by which Python names the value
  Value* value_of(size_t number) const;

 private:
  Owned object_;
  std::unique_ptr<IrBuilder> state_;
};

}  // namespace tile::python
