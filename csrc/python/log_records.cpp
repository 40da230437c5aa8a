// Passes TILE_LOG's lines to Python's logging. A thread that logs may hold one of our locks without the GIL,
// or the GIL that another thread waits for. So a separate thread, started at the first line, hands the lines
// over.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "python/module.h"
#include "support/log.h"
#include "support/worker.h"

namespace tile::python {
namespace {

// The Python function that takes a line. It returns false if no handler wants it: the line then goes to
// stderr.
PyObject* deliver = nullptr;

class Records {
 public:
  // A child of fork() begins with a new object: it lacks the thread, which may have held the mutex.
  static Records& get() { return *current.load(); }
  static void begin() {
    current = new Records;
    pthread_atfork(nullptr, nullptr, [] { current = new Records; });
    set_log_sink([](const std::string& line) { get().add(line); });
  }

  void add(const std::string& line) {
    std::unique_lock lock(mutex_);
    if (ended_ || (!worker_.joinable() && !start())) return print(line);
    lines_.push_back(line);
    const uint64_t own = ++added_;
    work_.notify_one();
    // Waiting keeps the line in order with other output of the process, and before a crash. A caller that
    // holds the GIL cannot wait, because the thread needs it. The time limit ends a deadlock over other
    // locks.
    if (!PyGILState_Check())
      delivered_.wait_for(lock, std::chrono::milliseconds(200), [&] { return done_ >= own; });
  }
  // Returns when all lines are delivered; later lines go to stderr. The caller must not hold the GIL.
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      work_.notify_one();
    }
    if (worker_.joinable()) worker_.join();
  }

 private:
  static void print(const std::string& line) { dump("tile: " + line + '\n'); }

  // Returns false if the system cannot start a thread.
  bool start() {
    worker_ = start_worker([this] { run(); });
    return worker_.joinable();
  }
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock, [&] { return ended_ || !lines_.empty(); });
      if (lines_.empty()) return;
      const std::string line = std::move(lines_.front());
      lines_.pop_front();
      lock.unlock();
      if (!taken(line)) print(line);
      lock.lock();
      ++done_;
      delivered_.notify_all();
    }
  }
  static bool taken(const std::string& line) {
    const GilHeld held;
    const Owned text(PyUnicode_DecodeUTF8(line.data(), static_cast<Py_ssize_t>(line.size()), "replace"));
    const Owned given(text ? PyObject_CallOneArg(deliver, text.get()) : nullptr);
    if (!given) PyErr_WriteUnraisable(deliver);
    return given && given.get() == Py_True;
  }

  static inline std::atomic<Records*> current = nullptr;
  std::mutex mutex_;
  std::condition_variable work_, delivered_;
  std::deque<std::string> lines_;
  uint64_t added_ = 0, done_ = 0;
  bool ended_ = false;
  std::thread worker_;
};

PyObject* log_to(PyObject*, PyObject* function) {
  if (!deliver) Records::begin();
  Py_XSETREF(deliver, Py_NewRef(function));
  Py_RETURN_NONE;
}
PyObject* end_log(PyObject*, PyObject*) {
  if (deliver) {
    const Released released(true);
    Records::get().end();
  }
  Py_RETURN_NONE;
}
PyObject* log(PyObject*, PyObject* arguments) {
  const char* text;
  int holding;
  if (!PyArg_ParseTuple(arguments, "sp", &text, &holding)) return nullptr;
  const Released released(!holding);
  log_line(text);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"log_to", guarded<log_to>, METH_O,
     "log_to(function): calls it with each line of TILE_LOG. It returns True if a handler took the line; "
     "other lines go to stderr."},
    {"end_log", guarded<end_log>, METH_NOARGS, "Delivers the remaining lines; later ones go to stderr."},
    {"log", guarded<log>, METH_VARARGS,
     "log(text, holding): writes a line of TILE_LOG while the thread holds the GIL, or not; for tests."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_log_records(PyObject* module) { return PyModule_AddFunctions(module, methods); }

}  // namespace tile::python
