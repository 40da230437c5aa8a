// The registry of primitives, filled by static initialisers.
#include "ir/primitive.h"

#include <map>

#include "support/error.h"

namespace tile {
namespace {
std::map<std::string_view, const Primitive*>& registry() {
  static auto& table = *new std::map<std::string_view, const Primitive*>;
  return table;
}
}  // namespace

Register::Register(const Primitive& primitive) : primitive_(primitive) {
  registry().emplace(primitive_.name, &primitive_);
}

const Primitive* find_primitive(std::string_view name) {
  auto at = registry().find(name);
  return at == registry().end() ? nullptr : at->second;
}

const Primitive& primitive(std::string_view name) {
  if (const Primitive* found = find_primitive(name)) return *found;
  fail(ErrorKind::value, "there is no primitive '", name, "'; check its spelling");
}

std::vector<const Primitive*> all_primitives() {
  std::vector<const Primitive*> all;
  for (const auto& [name, entry] : registry())
    if (!entry->target) all.push_back(entry);
  return all;
}

}  // namespace tile
