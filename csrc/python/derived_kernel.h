// Python's objects of derived kernels, for the files that launch them.
#pragma once
#include <optional>

#include "python/kernel_call.h"
#include "torch/reverse_launch.h"

namespace tile::python {

// The kernel in a _C.ReverseKernel, and such an object; null with an error set.
std::shared_ptr<ReverseKernel> reverse_kernel_in(PyObject* object);
PyObject* reverse_object(std::shared_ptr<ReverseKernel> kernel);
// Returns the IR that a kernel launches: from its cache, or from `traced`, a function of Python. Throws
// PythonFailure.
std::shared_ptr<ReverseKernel> traced_kernel(PyObject* kernel, PyObject* arguments, const LaunchKey& key,
                                             PyObject* traced);
std::vector<Argument> arguments_of(const Call& call);
// The sizes of a launch; they refer to the tuple of its arguments, of which tensors may be fake.
LaunchSizes sizes_in(const Grid& grid, PyObject* arguments);
// Returns the way of tests, of a tuple of numbers or None. Throws PythonFailure.
std::optional<GradientWay> way_in(PyObject* numbers);

}  // namespace tile::python
