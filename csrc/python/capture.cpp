// Implements the comparison of the Python state that kernels read. It compares pointers, and compares the
// versions of dictionaries and classes before it compares their entries.
#include "python/capture.h"

#include <mutex>

#include "python/kernel_call.h"
#include "python/raising.h"

namespace tile::python {
namespace {

PyObject* changed_name;
thread_local uint64_t last = 0;

// Returns the version of a dictionary or class: each change sets it to a number that was never used before.
// Returns 0 if this Python has no versions.
uint64_t version_of(PyObject* owner, bool is_class) {
#if PY_VERSION_HEX < 0x030D0000
  if (is_class) {
    const auto* type = reinterpret_cast<PyTypeObject*>(owner);
    return type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG ? type->tp_version_tag : 0;
  }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  return __atomic_load_n(&reinterpret_cast<PyDictObject*>(owner)->ma_version_tag, __ATOMIC_RELAXED);
#pragma GCC diagnostic pop
#else
  (void)owner, (void)is_class;
  return 0;
#endif
}

// All pointers are borrowed from the tuple of checks that Python passed. A null value means that the name was
// missing.
class Checks {
 public:
  enum class Found { same, changed, unknown };

  // Compares pointers and versions only. That reads memory that lives as long as the tuple, so the
  // interpreter need not be held.
  Found quick() const {
    for (const Slot& slot : slots_)
      if (__atomic_load_n(slot.at, __ATOMIC_RELAXED) != slot.expected) return Found::changed;
    for (const Table& table : tables_)
      if (const uint64_t now = version_of(table.owner, table.is_class);
          !now || now != __atomic_load_n(&table.version, __ATOMIC_RELAXED))
        return Found::unknown;
    return others() ? Found::unknown : Found::same;
  }
  // Compares everything that can be compared without running user code. The caller holds the interpreter.
  Found plain() const {
    for (const Table& table : tables_)
      if (!same_table(table)) return Found::changed;
    return others() ? Found::unknown : Found::same;
  }
  // Compares what plain() cannot. May run user code.
  bool same_others() const;

  // Adds one check of the tuple: (kind, owner, ...). Returns false with an error set.
  bool add(PyObject* check);

 private:
  struct Slot {
    PyObject* const* at;
    PyObject* expected;
  };
  struct Item {
    PyObject *key, *expected;
  };
  struct Table {  // attributes of a class, or items of a dictionary: all of them if size is not -1
    PyObject* owner;
    bool is_class;
    Py_ssize_t size;
    mutable uint64_t version;
    std::vector<Item> items;
  };
  struct Sequence {
    PyObject* list;
    std::vector<PyObject*> items;
  };
  struct Attribute {
    PyObject *owner, *name, *expected;
  };

  bool others() const {
    return !(sequences_.empty() && attributes_.empty() && wholes_.empty() && sets_.empty() &&
             functions_.empty());
  }
  static bool same_table(const Table& table);
  Table& table_of(PyObject* owner, bool is_class);

  std::vector<Slot> slots_;
  std::vector<Table> tables_, wholes_;
  std::vector<Sequence> sequences_;
  std::vector<Attribute> attributes_;
  std::vector<Item> sets_;
  std::vector<PyObject*> functions_;  // each returns True if nothing changed
};

bool Checks::same_table(const Table& table) {
  const uint64_t now = version_of(table.owner, table.is_class);
  if (now && now == table.version) return true;
  if (table.size >= 0) {  // the order of the items counts, too
    if (PyDict_GET_SIZE(table.owner) != table.size) return false;
    Py_ssize_t at = 0;
    PyObject *key, *value;
    for (const Item& item : table.items)
      if (!PyDict_Next(table.owner, &at, &key, &value) || key != item.key || value != item.expected)
        return false;
    __atomic_store_n(&table.version, now, __ATOMIC_RELAXED);
    return true;
  }
  for (const Item& item : table.items) {
    PyObject* found = table.is_class ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(table.owner), item.key)
                                     : PyDict_GetItemWithError(table.owner, item.key);
    if (!found && PyErr_Occurred()) PyErr_Clear();
    if (found != item.expected) return false;
  }
  // The lookup may have assigned a version to the class.
  __atomic_store_n(&table.version, table.is_class ? version_of(table.owner, true) : now, __ATOMIC_RELAXED);
  return true;
}
bool Checks::same_others() const {
  for (const Table& table : wholes_)
    if (!same_table(table)) return false;
  for (const Sequence& sequence : sequences_) {
    if (PyList_GET_SIZE(sequence.list) != static_cast<Py_ssize_t>(sequence.items.size())) return false;
    for (size_t i = 0; i < sequence.items.size(); ++i)
      if (PyList_GET_ITEM(sequence.list, static_cast<Py_ssize_t>(i)) != sequence.items[i]) return false;
  }
  for (const Attribute& attribute : attributes_) {
    const Owned found(PyObject_GetAttr(attribute.owner, attribute.name));
    if (!found) PyErr_Clear();
    if (found.get() != attribute.expected) return false;
  }
  for (const Item& set : sets_)
    if (const int same = PyObject_RichCompareBool(set.key, set.expected, Py_EQ); same != 1) {
      if (same < 0) PyErr_Clear();
      return false;
    }
  for (PyObject* function : functions_) {
    const Owned same(PyObject_CallNoArgs(function));
    if (!same) PyErr_Clear();
    if (same.get() != Py_True) return false;
  }
  return true;
}
Checks::Table& Checks::table_of(PyObject* owner, bool is_class) {
  for (Table& table : tables_)
    if (table.owner == owner) return table;
  return tables_.emplace_back(Table{owner, is_class, -1, 0, {}});
}
bool Checks::add(PyObject* check) {
  const char* kind = PyTuple_Check(check) ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(check, 0)) : nullptr;
  if (!kind) return PyErr_SetString(PyExc_TypeError, "_watch: a check is not a tuple"), false;
  const Py_ssize_t count = PyTuple_GET_SIZE(check);
  const auto at = [&](Py_ssize_t i) { return i < count ? PyTuple_GET_ITEM(check, i) : nullptr; };
  PyObject* owner = at(1);
  const std::string_view name = kind;
  if (name == "item") {
    table_of(owner, false).items.push_back({at(2), at(3)});
  } else if (name == "type") {
    table_of(owner, true).items.push_back({at(2), at(3)});
  } else if (name == "dict") {  // the items are a tuple of pairs
    Table table{owner, false, PyTuple_GET_SIZE(at(2)), 0, {}};
    for (Py_ssize_t i = 0; i < table.size; ++i) {
      PyObject* pair = PyTuple_GET_ITEM(at(2), i);
      table.items.push_back({PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1)});
    }
    wholes_.push_back(std::move(table));
  } else if (name == "cell") {
    slots_.push_back({&reinterpret_cast<PyCellObject*>(owner)->ob_ref, at(2)});
  } else if (name == "function") {  // None means missing defaults
    auto* function = reinterpret_cast<PyFunctionObject*>(owner);
    const auto given = [&](Py_ssize_t i) { return at(i) == Py_None ? nullptr : at(i); };
    slots_.push_back({&function->func_code, at(2)});
    slots_.push_back({&function->func_defaults, given(3)});
    slots_.push_back({&function->func_kwdefaults, given(4)});
  } else if (name == "list") {
    Sequence sequence{owner, {}};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(at(2)); ++i)
      sequence.items.push_back(PyTuple_GET_ITEM(at(2), i));
    sequences_.push_back(std::move(sequence));
  } else if (name == "attribute") {
    attributes_.push_back({owner, at(2), at(3)});
  } else if (name == "set") {
    sets_.push_back({owner, at(2)});
  } else {
    functions_.push_back(owner);
  }
  return true;
}

struct CaptureObject {
  PyObject_HEAD PyObject* held;  // the tuple that owns what the checks point to
  std::shared_ptr<const Checks>* checks;
  std::mutex* mutex;  // guards `checks` for threads that do not hold the interpreter
  uint64_t generation;
};
CaptureObject* capture_of(PyObject* self) { return reinterpret_cast<CaptureObject*>(self); }

PyObject* make_capture(PyTypeObject* type, PyObject*, PyObject*) {
  auto* made = reinterpret_cast<CaptureObject*>(type->tp_alloc(type, 0));
  if (!made) return nullptr;
  made->checks = new std::shared_ptr<const Checks>(std::make_shared<Checks>());
  made->mutex = new std::mutex;
  return reinterpret_cast<PyObject*>(made);
}
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(capture_of(self)->held);
  return 0;
}
void take(CaptureObject* self, PyObject* held, std::shared_ptr<const Checks> checks, uint64_t generation) {
  {
    const std::lock_guard lock(*self->mutex);
    self->checks->swap(checks);
    self->generation = generation;
  }
  PyObject* old = std::exchange(self->held, held);
  Py_XDECREF(old);
}
int clear(PyObject* self) {
  take(capture_of(self), nullptr, std::make_shared<Checks>(), capture_of(self)->generation);
  return 0;
}
void free_capture(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  delete capture_of(self)->checks;
  delete capture_of(self)->mutex;
  type->tp_free(self);
  Py_DECREF(type);
}

// _watch(generation, checks): replaces the checks.
PyObject* watch(PyObject* self, PyObject* arguments) {
  unsigned long long generation;
  PyObject* list;
  if (!PyArg_ParseTuple(arguments, "KO!", &generation, &PyTuple_Type, &list)) return nullptr;
  auto made = std::make_shared<Checks>();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list); ++i)
    if (!made->add(PyTuple_GET_ITEM(list, i))) return nullptr;
  take(capture_of(self), Py_NewRef(list), std::move(made), generation);
  Py_RETURN_NONE;
}
PyObject* generation(PyObject* self, PyObject*) {
  try {
    return PyLong_FromUnsignedLongLong(generation_of(self));
  } catch (const PythonFailure& failure) {
    failure.restore();
    return nullptr;
  }
}

PyMethodDef methods[] = {
    {"_watch", guarded<watch>, METH_VARARGS,
     "_watch(generation, checks): sets the checks that must hold for this generation. Checks are (\"item\", "
     "dict, key, value), (\"type\", class, name, value), (\"attribute\", object, name, value), (\"cell\", "
     "cell, value), where a value is left out if it is missing; (\"dict\", dict, items), (\"list\", list, "
     "items), (\"set\", set, items), (\"function\", function, code, defaults, kwdefaults), (\"call\", "
     "function that returns True if nothing changed)."},
    {"_generation", guarded<generation>, METH_NOARGS,
     "_generation(): checks for changes, then returns the generation's number."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(make_capture)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(free_capture)},
                       {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {Py_tp_methods, methods},
                       {0, nullptr}};
PyType_Spec spec = {"tile_ops._C.Capture", sizeof(CaptureObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

}  // namespace

uint64_t generation_of(PyObject* self) {
  CaptureObject* capture = capture_of(self);
  const uint64_t generation = capture->generation;
  Checks::Found found = (*capture->checks)->quick();
  if (found == Checks::Found::unknown) found = (*capture->checks)->plain();
  if (found == Checks::Found::same) [[likely]]
    return generation;
  if (found == Checks::Found::unknown) {
    // same_others() may run Python, and another thread may then replace the checks. `held` keeps these alive.
    const Owned held(Py_XNewRef(capture->held));
    const std::shared_ptr<const Checks> checks = *capture->checks;
    if (checks->same_others()) return generation;
  }
  if (!Owned(PyObject_CallMethodNoArgs(self, changed_name))) throw PythonFailure();
  return capture->generation;
}
uint64_t generation_anywhere(PyObject* self) {
  CaptureObject* capture = capture_of(self);
  {
    const std::lock_guard lock(*capture->mutex);
    if ((*capture->checks)->quick() == Checks::Found::same) return last = capture->generation;
  }
  const GilHeld held;
  try {
    return last = generation_of(self);
  } catch (const PythonFailure& failure) {
    failure.restore();
  }
  throw_raised();
}
uint64_t last_generation() { return last; }

int add_capture(PyObject* module) {
  const Owned type(PyType_FromSpec(&spec));
  if (!(changed_name = PyUnicode_InternFromString("_changed"))) return -1;
  return type ? PyModule_AddObjectRef(module, "Capture", type.get()) : -1;
}

}  // namespace tile::python
