// Interned file names.
#include "support/location.h"

#include <mutex>
#include <unordered_set>

namespace tile {

const char* intern(std::string_view text) {
  static auto& mutex = *new std::mutex;  // leaked: locations may be read during process exit
  static auto& pool = *new std::unordered_set<std::string>;
  std::lock_guard lock(mutex);
  return pool.emplace(text).first->c_str();
}

}  // namespace tile
