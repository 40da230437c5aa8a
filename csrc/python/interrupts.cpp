// Handles Ctrl-C and other signals while a launch on the CPU runs: calls Python's own handlers, and ends the
// launch with the exception that they raise.
#include <pthread.h>

#include "cpu/interpreter/watch.h"
#include "python/raising.h"

namespace tile::python {
namespace {

unsigned long main_thread = 0;

// Python runs handlers on its main thread only, so other threads need not wait for the interpreter.
void run_handlers() {
  if (PyThread_get_thread_ident() != main_thread || !Py_IsInitialized()) return;
  const GilHeld held;
  if (PyErr_CheckSignals() < 0) throw_raised();
}

}  // namespace

int add_interrupts(PyObject*) {
  const Owned threading(PyImport_ImportModule("threading"));
  const Owned thread(threading ? PyObject_CallMethod(threading.get(), "main_thread", nullptr) : nullptr);
  const Owned ident(thread ? PyObject_GetAttrString(thread.get(), "ident") : nullptr);
  if (!ident) return -1;
  main_thread = PyLong_AsUnsignedLong(ident.get());
  if (PyErr_Occurred()) return -1;
  // In a child of fork() the thread that forked is the main thread.
  pthread_atfork(nullptr, nullptr, [] { main_thread = PyThread_get_thread_ident(); });
  cpu::set_interruption(run_handlers);
  return 0;
}

}  // namespace tile::python
