// Records tile operations at namespace scope in a separate trace, and their errors.
#include "dsl/namespace_scope.h"

#include <algorithm>
#include <mutex>

#include "support/caught.h"
#include "support/log.h"

namespace tile {
namespace {

// Never destroyed: initialisers and threads of other libraries may still use it.
struct Met {
  std::mutex mutex;
  std::vector<std::string> texts;
};
Met& met() {
  static auto* const instance = new Met;
  return *instance;
}
thread_local Tracer* outside = nullptr;  // never destroyed: static Tiles refer to it

void remember(const Location& use) {
  constexpr const char* text =
      "a tile operation is used outside of any kernel, where nothing is traced; move it into the kernel that "
      "uses it";
  const std::string whole = use.known() ? str(use, ": ", text) : text;
  {
    const std::lock_guard lock(met().mutex);
    auto& texts = met().texts;
    if (std::find(texts.begin(), texts.end(), whole) != texts.end()) return;
    texts.push_back(whole);
  }
  dump(str("tile: warning: ", whole, '\n'));
}

}  // namespace

Tracer& trace_outside(const Location& use) {
  // Inside a loop or branch of the outside trace, error_is_caught() would find this library's own handlers,
  // which only rethrow.
  if (!(outside && outside->nested()) && error_is_caught())
    fail(use, ErrorKind::runtime,
         "a tile operation was used outside a kernel; it runs only while a kernel is traced");
  remember(use);
  if (!outside) outside = Tracer::unentered("namespace scope").release();
  return *outside;
}

std::optional<Location> made_outside(uint32_t variable, uint32_t trace) {
  if (!outside || outside->serial() != trace) return std::nullopt;
  return outside->made_at(variable);
}

std::vector<std::string> namespace_scope_errors() {
  const std::lock_guard lock(met().mutex);
  return met().texts;
}

}  // namespace tile
