// Attribute access and value creation.
#include "ir/op.h"

namespace tile {
namespace {
template <class T>
const T& attribute(const Op& op, std::string_view name) {
  const Attribute* found = op.attributes.find(name);
  if (!found) fail(op, ErrorKind::value, "attribute '", name, "' is missing");
  if (const T* value = std::get_if<T>(found)) return *value;
  fail(op, ErrorKind::value, "attribute '", name, "' is ", *found, ", which is of another kind");
}
}  // namespace

int64_t Op::integer(std::string_view name) const { return attribute<int64_t>(*this, name); }
int64_t Op::integer_or(std::string_view name, int64_t fallback) const {
  return has(name) ? integer(name) : fallback;
}
double Op::number(std::string_view name) const {
  const Attribute* found = attributes.find(name);
  if (found && std::holds_alternative<int64_t>(*found)) return static_cast<double>(std::get<int64_t>(*found));
  return attribute<double>(*this, name);
}
const std::string& Op::text(std::string_view name) const { return attribute<std::string>(*this, name); }
const std::vector<int64_t>& Op::integers(std::string_view name) const {
  return attribute<std::vector<int64_t>>(*this, name);
}
DType Op::dtype(std::string_view name) const { return attribute<DType>(*this, name); }

Value* Function::add_value(Type type, Location location, Op* definition, Block* owner) {
  return &values_.emplace_back(Value{std::move(type), definition, owner, location});
}

Value* Function::add_argument(Block& block, Type type, Location location) {
  Value* value = add_value(std::move(type), location, nullptr, &block);
  block.arguments.push_back(value);
  return value;
}

}  // namespace tile
