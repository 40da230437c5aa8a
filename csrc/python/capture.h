// What kernels read of Python while they were translated: compared before each launch, so that changed code
// and constants compile anew. A number in their keys, the generation, says what was read.
#pragma once
#include "python/module.h"

namespace tile::python {

// Of a _C.Capture; the caller holds the interpreter. Throws PythonFailure.
uint64_t generation_of(PyObject* capture);
// The same from any thread; the interpreter is asked for only where something may have changed.
uint64_t generation_anywhere(PyObject* capture);
// What this thread was told last: that of the key that it now translates for.
uint64_t last_generation();

}  // namespace tile::python
