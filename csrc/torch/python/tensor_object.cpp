// Looks into Python objects for tensors.
#include "torch/python/tensor_object.h"

#include <torch/csrc/autograd/python_variable.h>

namespace tile::python {

const at::Tensor* tensor_in(PyObject* object) {
  return THPVariable_Check(object) ? &THPVariable_Unpack(object) : nullptr;
}

}  // namespace tile::python
