// Attribute access and value creation.
#include "ir/op.h"

#include <cmath>

#include "ir/constant.h"

namespace tile {
namespace {
template <class T>
const T& attribute(const Op& op, std::string_view name) {
  const Attribute* found = op.attributes.find(name);
  if (!found) fail(op, ErrorKind::value, "attribute '", name, "' is missing");
  if (const T* value = std::get_if<T>(found)) return *value;
  fail(op, ErrorKind::value, "attribute '", name, "' is ", *found, ", which is of the wrong kind");
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

void require_number(const Op& op, std::string_view name, DType dtype) {
  const Attribute* value = op.attributes.find(name);
  if (!value) fail(op, ErrorKind::value, "attribute '", name, "' is missing");
  if (fits(dtype, *value)) return;
  const auto wrong = [&](const auto&... fix) {
    fail(op, ErrorKind::value, "attribute '", name, "' is ", *value, ", which is not a value of ", dtype,
         "; give ", fix...);
  };
  if (is_floating(dtype)) wrong("a number of at most ", show_double(largest_of(dtype)), ", inf or nan");
  const int spare = 64 - info(dtype).bits;
  if (dtype == DType::boolean) wrong("0 or 1");
  if (dtype == DType::u64) wrong("an integer, as 64 bits with a sign");
  if (is_signed(dtype)) wrong("an integer from ", INT64_MIN >> spare, " to ", INT64_MAX >> spare);
  wrong("an integer from 0 to ", UINT64_MAX >> spare);
}

void require_pad(const Op& op) {
  const DType dtype = op.type(0).dtype;
  if (is_floating(dtype) || !op.has("pad")) return require_number(op, "pad", dtype);
  constexpr double most = 0x1p53;  // executors store it as a double
  const double pad = op.number("pad");
  const bool integral = std::trunc(pad) == pad && std::abs(pad) <= most;
  if (integral && fits(dtype, static_cast<int64_t>(pad))) return;
  require_number(op, "pad", dtype);
  fail(op, ErrorKind::value, "attribute 'pad' is ", *op.attributes.find("pad"),
       "; give an integer from -2^53 to 2^53");
}

Value* Function::add_value(Type type, Location location, Op* definition, Block* owner) {
  return &values_.emplace_back(Value{std::move(type), definition, owner, location});
}

Value* Function::add_argument(Block& block, Type type, Location location) {
  Value* value = add_value(std::move(type), location, nullptr, &block);
  block.arguments.push_back(value);
  return value;
}

}  // namespace tile
