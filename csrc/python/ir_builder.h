// Builder of Tile IR as a Python object, for kernels that are written in Python.
#pragma once
#include "python/module.h"

namespace tile {

class Function;
struct Block;

}  // namespace tile

namespace tile::python {

struct IrBuilder;

// A function that Python fills; the builder is finished, and each of its methods an error, when this ends.
class BuiltFunction {
 public:
  BuiltFunction(Function& function, Block& block);  // operations go to the end of the block
  ~BuiltFunction();
  BuiltFunction(const BuiltFunction&) = delete;
  PyObject* object() const { return object_.get(); }
  size_t number_of(Value* value);  // by which Python names it
  Value* value_of(size_t number) const;

 private:
  Owned object_;
  std::unique_ptr<IrBuilder> state_;
};

}  // namespace tile::python
