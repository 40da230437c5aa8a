// Runs the search phase of a throw without throwing: asks the handlers of each frame.
#include "support/caught.h"

#include <dlfcn.h>
#include <unwind.h>

#include <exception>
#include <string_view>

#include "support/error.h"

// Declared by the C++ ABI: searches the handlers of one function.
extern "C" _Unwind_Reason_Code __gxx_personality_v0(int version, _Unwind_Action actions,
                                                    _Unwind_Exception_Class exception_class,
                                                    _Unwind_Exception* exception, _Unwind_Context* context);

namespace tile {
namespace {

struct Search {
  _Unwind_Exception* exception;
  bool found = false;
};

bool is_loader(uintptr_t address) {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(address), &info) || !info.dli_fname) return false;
  const std::string_view path = info.dli_fname;
  return path.substr(path.rfind('/') + 1).starts_with("ld-");
}

_Unwind_Reason_Code look(_Unwind_Context* context, void* data) {
  auto& search = *static_cast<Search*>(data);
  if (is_loader(_Unwind_GetIP(context))) return _URC_END_OF_STACK;
  if (!_Unwind_GetLanguageSpecificData(context)) return _URC_NO_REASON;
  search.found = __gxx_personality_v0(1, _UA_SEARCH_PHASE, search.exception->exception_class,
                                      search.exception, context) == _URC_HANDLER_FOUND;
  return search.found ? _URC_END_OF_STACK : _URC_NO_REASON;
}

}  // namespace

bool error_is_caught() {
  // In the ABI, the header that the unwinder reads is directly before the thrown object.
  const std::exception_ptr error = std::make_exception_ptr(Error(ErrorKind::runtime, ""));
  void* object = nullptr;
  static_assert(sizeof error == sizeof object);
  __builtin_memcpy(&object, &error, sizeof object);
  Search search{static_cast<_Unwind_Exception*>(object) - 1};
  _Unwind_Backtrace(look, &search);
  return search.found;
}

}  // namespace tile
