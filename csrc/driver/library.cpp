// Implements Library with dlopen and dlsym.
#include "driver/library.h"

#include <dlfcn.h>
#include <link.h>

#include "support/error.h"

namespace tile {

Library Library::open(const std::string& name) {
  Library library;
  library.handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library.handle_) {
    const char* why = dlerror();
    library.why_ = why ? why : name + ": not loaded";
    return library;
  }
  library.path_ = name;
  link_map* map = nullptr;
  if (dlinfo(library.handle_, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0]) library.path_ = map->l_name;
  return library;
}

void* Library::address(const char* symbol) const { return handle_ ? dlsym(handle_, symbol) : nullptr; }

void Library::missing(const char* symbol, const char* fix) const {
  fail(ErrorKind::runtime, path_, " has no function ", symbol, "; ", fix);
}

}  // namespace tile
