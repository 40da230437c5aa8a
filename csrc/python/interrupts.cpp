// Handles Ctrl-C and other signals while a launch on the CPU runs: calls Python's own handlers, and ends the
// launch with the exception that they raise.
#include "cpu/watch.h"
#include "python/raising.h"

namespace tile::python {
namespace {

// Python runs handlers on its main thread only, so on other threads this does nothing.
void run_handlers() {
  if (!Py_IsInitialized() || !PyGILState_GetThisThreadState()) return;
  const GilHeld held;
  if (PyErr_CheckSignals() < 0) throw_raised();
}

}  // namespace

int add_interrupts(PyObject*) {
  cpu::set_interruption(run_handlers);
  return 0;
}

}  // namespace tile::python
