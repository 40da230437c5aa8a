// Packs for Python: loading, reading and writing them, and what goes into them.
#include "runtime/packs.h"

#include <algorithm>

#include "python/module.h"
#include "runtime/kernel_record.h"

namespace tile::python {
namespace {

using Number = unsigned long long;

Sha256::Digest key_of(const char* bytes, Py_ssize_t size) {
  Sha256::Digest key;
  if (static_cast<size_t>(size) != key.size())
    fail(ErrorKind::value, "a key of a pack has ", key.size(), " bytes, not ", size);
  std::copy(bytes, bytes + size, key.begin());
  return key;
}

// Returns (key, arch, CUDA version, size of the data, body). A body of that size is not compressed.
PyObject* item_of(const Sha256::Digest& key, Number arch, Number cuda, Number size, std::string_view body) {
  return Py_BuildValue("(y#KKKy#)", reinterpret_cast<const char*>(key.data()),
                       static_cast<Py_ssize_t>(key.size()), arch, cuda, size, body.data(),
                       static_cast<Py_ssize_t>(body.size()));
}
PyObject* item_of(const StoredCubin& stored) {
  return item_of(stored.key, static_cast<Number>(stored.arch), static_cast<Number>(stored.cuda),
                 stored.data.size(), stored.data);
}

template <class Range, class Make>
PyObject* list_of(const Range& range, Make make) {
  Owned list(PyList_New(0));
  for (const auto& each : range) {
    const Owned item(make(each));
    if (!list || !item || PyList_Append(list.get(), item.get()) < 0) return nullptr;
  }
  return list.release();
}

// Calls a function with its only argument, a str, as UTF-8.
template <PyObject* (*function)(const char*)>
PyObject* with_text(PyObject*, PyObject* argument) {
  const char* text = PyUnicode_AsUTF8(argument);
  return text ? function(text) : nullptr;
}

PyObject* load_pack(const char* path) {
  Packs::get().add(path);
  Py_RETURN_NONE;
}

PyObject* packs(PyObject*, PyObject*) {
  return list_of(Packs::get().all(), [](const auto& pack) -> PyObject* {
    std::vector<uint32_t> archs;
    for (const PackEntry& entry : pack->entries()) archs.push_back(entry.arch);
    std::sort(archs.begin(), archs.end());
    archs.erase(std::unique(archs.begin(), archs.end()), archs.end());
    const Owned list(list_of(archs, [](uint32_t arch) { return PyLong_FromUnsignedLong(arch); }));
    if (!list) return nullptr;
    return Py_BuildValue("{s:s,s:K,s:K,s:K,s:O}", "path", pack->path().c_str(), "entries",
                         static_cast<Number>(pack->entries().size()), "bytes",
                         static_cast<Number>(pack->file_bytes()), "hits",
                         static_cast<Number>(pack->hits.load()), "archs", list.get());
  });
}

PyObject* read_pack(const char* path) {
  const PackFile pack(path);
  return list_of(pack.entries(), [&](const PackEntry& entry) {
    const auto body = pack.body(entry);
    if (!body) fail(ErrorKind::value, path, ": the pack is damaged", make_pack_again);
    return item_of(entry.key, entry.arch, entry.cuda, entry.size, *body);
  });
}

PyObject* write_pack(PyObject*, PyObject* arguments) {
  const char* path;
  PyObject* list;
  if (!PyArg_ParseTuple(arguments, "sO!", &path, &PyList_Type, &list)) return nullptr;
  std::vector<PackItem> items;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    const char *key, *body;
    Py_ssize_t key_size, body_size;
    PackEntry entry;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "y#IIIy#", &key, &key_size, &entry.arch, &entry.cuda,
                          &entry.size, &body, &body_size))
      return nullptr;
    entry.key = key_of(key, key_size);
    items.push_back({entry, std::string(body, static_cast<size_t>(body_size))});
  }
  {
    const Released released(true);
    tile::write_pack(path, std::move(items));
  }
  Py_RETURN_NONE;
}

PyObject* decompressed(PyObject*, PyObject* arguments) {
  const char* bytes;
  Py_ssize_t count, size;
  if (!PyArg_ParseTuple(arguments, "y#n", &bytes, &count, &size)) return nullptr;
  const auto data = tile::decompressed({bytes, static_cast<size_t>(count)}, static_cast<size_t>(size));
  if (!data) Py_RETURN_NONE;
  return PyBytes_FromStringAndSize(data->data(), static_cast<Py_ssize_t>(data->size()));
}

PyObject* keys_on_disk(PyObject*, PyObject*) {
  return list_of(CubinCompiler::get().keys_on_disk(), [](const DiskCache::Key& key) {
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(key.data()),
                                     static_cast<Py_ssize_t>(key.size()));
  });
}
PyObject* kernel_on_disk(PyObject*, PyObject* key) {
  char* bytes;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(key, &bytes, &size) < 0) return nullptr;
  const auto stored = CubinCompiler::get().on_disk(key_of(bytes, size));
  if (!stored || !stored->arch) Py_RETURN_NONE;
  return item_of(*stored);
}

PyObject* collect_kernels(PyObject*, PyObject* on) {
  const int wanted = PyObject_IsTrue(on);
  if (wanted < 0) return nullptr;
  CubinCompiler::get().set_collecting(wanted != 0);
  Py_RETURN_NONE;
}
PyObject* take_collected(PyObject*, PyObject*) {
  return list_of(CubinCompiler::get().take_collected(),
                 [](const StoredCubin& stored) { return item_of(stored); });
}

PyObject* record_kernels_in(const char* path) {
  tile::record_kernels_in(path);
  Py_RETURN_NONE;
}
PyObject* recorded_kernels(const char* path) {
  return list_of(tile::recorded_kernels(path), [](const RecordedKernel& kernel) {
    return Py_BuildValue("(siy#)", kernel.name.c_str(), kernel.arch, kernel.bytes.data(),
                         static_cast<Py_ssize_t>(kernel.bytes.size()));
  });
}
PyObject* compile_recorded(PyObject*, PyObject* arguments) {
  const char* bytes;
  Py_ssize_t size;
  int arch;
  if (!PyArg_ParseTuple(arguments, "y#i", &bytes, &size, &arch)) return nullptr;
  const auto kernel = recorded_kernel({bytes, static_cast<size_t>(size)});
  if (!kernel) fail(ErrorKind::value, "the bytes are no recorded kernel; give those of recorded_kernels()");
  {
    const Released released(true);
    tile::compile_recorded(*kernel, arch, CubinCompiler::get());
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"load_pack", guarded<with_text<load_pack>>, METH_O,
     "load_pack(path): kernels are looked for in it from now on."},
    {"packs", guarded<packs>, METH_NOARGS, "The packs in use, as dictionaries; opens the default ones."},
    {"read_pack", guarded<with_text<read_pack>>, METH_O,
     "read_pack(path): the entries of a pack, (key, arch, CUDA version, size of the data, body)."},
    {"write_pack", guarded<write_pack>, METH_VARARGS,
     "write_pack(path, entries): makes a pack of such entries."},
    {"decompressed", guarded<decompressed>, METH_VARARGS,
     "decompressed(bytes, size): the data of a compressed body, or None if it is damaged."},
    {"keys_on_disk", guarded<keys_on_disk>, METH_NOARGS, "The keys of all entries of the disk cache."},
    {"kernel_on_disk", guarded<kernel_on_disk>, METH_O,
     "kernel_on_disk(key): an entry of the disk cache as read_pack() gives them, or None if it is no "
     "kernel."},
    {"collect_kernels", guarded<collect_kernels>, METH_O,
     "collect_kernels(on): keeps the code of each kernel that is compiled or found from now on."},
    {"take_collected", guarded<take_collected>, METH_NOARGS,
     "Removes what was collected, and returns it as read_pack() does."},
    {"record_kernels_in", guarded<with_text<record_kernels_in>>, METH_O,
     "record_kernels_in(path): appends each kernel that is asked for to the file; \"\" ends that."},
    {"recorded_kernels", guarded<with_text<recorded_kernels>>, METH_O,
     "recorded_kernels(path): [(name, arch, bytes)] of such a file."},
    {"compile_recorded", guarded<compile_recorded>, METH_VARARGS,
     "compile_recorded(bytes, arch): compiles such a kernel, for the pack that is being collected."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_packs(PyObject* module) { return PyModule_AddFunctions(module, methods); }

}  // namespace tile::python
