// Tensors among Python objects. torch's header for them takes 15 s to compile: one file reads it for all.
#pragma once
#include <Python.h>

namespace at {
class Tensor;
}

namespace tile::python {

// nullptr where the object is no torch.Tensor. Borrowed: it lives as long as the object.
const at::Tensor* tensor_in(PyObject* object);

}  // namespace tile::python
