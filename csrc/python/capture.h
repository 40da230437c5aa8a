// Declares the record of the Python state that kernels read while they were translated. It is compared before
// each launch, so that changed code and constants compile again. Keys of kernels hold its number, the
// generation.
#pragma once
#include "python/module.h"

namespace tile::python {

// Returns the generation of a _C.Capture. The caller holds the interpreter. Throws PythonFailure.
uint64_t generation_of(PyObject* capture);
// The same from any thread. Takes the interpreter only if something may have changed.
uint64_t generation_anywhere(PyObject* capture);
// Returns the last result of generation_anywhere on this thread: the generation in the key of the kernel that
// is being translated.
uint64_t last_generation();

}  // namespace tile::python
