// Interval and divisor arithmetic, one table row per primitive.
#include "passes/divisibility.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "ir/walk.h"

namespace tile {
namespace {

using Wide = __int128;
constexpr int deepest = 256;  // of a chain of operands; nothing is known beyond it

int64_t saturate(Wide value) { return static_cast<int64_t>(std::clamp<Wide>(value, INT64_MIN, INT64_MAX)); }
Wide floor_divide(Wide x, Wide y) {
  Wide quotient = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;
}

struct Operand {  // facts of one operand
  Range range;
  int64_t divisor;
  bool fixed() const { return range.low == range.high; }
};
struct Result {
  Wide low, high;
  Wide divisor = 1;
};
using Operands = std::vector<Operand>;
using Row = Result (*)(const Op&, const Operands&);

Wide gcd(Wide x, Wide y) {
  if (x < 0) x = -x;
  if (y < 0) y = -y;
  while (y) std::swap(x %= y, y);
  return x;
}
Result anything() { return {INT64_MIN, INT64_MAX, 1}; }

Result add(const Op&, const Operands& x) {
  return {Wide(x[0].range.low) + x[1].range.low, Wide(x[0].range.high) + x[1].range.high,
          gcd(x[0].divisor, x[1].divisor)};
}
Result sub(const Op&, const Operands& x) {
  return {Wide(x[0].range.low) - x[1].range.high, Wide(x[0].range.high) - x[1].range.low,
          gcd(x[0].divisor, x[1].divisor)};
}
Result mul(const Op&, const Operands& x) {
  Wide a = Wide(x[0].range.low) * x[1].range.low, b = Wide(x[0].range.low) * x[1].range.high,
       c = Wide(x[0].range.high) * x[1].range.low, d = Wide(x[0].range.high) * x[1].range.high;
  return {std::min({a, b, c, d}), std::max({a, b, c, d}), Wide(x[0].divisor) * x[1].divisor};
}
Result negative(const Op&, const Operands& x) {
  return {-Wide(x[0].range.high), -Wide(x[0].range.low), x[0].divisor};
}
Result absolute(const Op&, const Operands& x) {
  Wide low = x[0].range.low, high = x[0].range.high;
  if (low >= 0) return {low, high, x[0].divisor};
  return {high < 0 ? -high : 0, std::max(-low, high), x[0].divisor};
}
// Only division by a known positive number is analysed.
Result floordiv(const Op&, const Operands& x) {
  if (!x[1].fixed() || x[1].range.low <= 0) return anything();
  int64_t by = x[1].range.low;
  return {floor_divide(x[0].range.low, by), floor_divide(x[0].range.high, by),
          x[0].divisor % by == 0 ? x[0].divisor / by : 1};
}
Result cdiv(const Op&, const Operands& x) {
  if (!x[1].fixed() || x[1].range.low <= 0) return anything();
  int64_t by = x[1].range.low;
  return {-floor_divide(-Wide(x[0].range.low), by), -floor_divide(-Wide(x[0].range.high), by),
          x[0].divisor % by == 0 ? x[0].divisor / by : 1};
}
Result mod(const Op&, const Operands& x) {
  if (x[1].range.low <= 0) return anything();
  bool small = x[0].range.low >= 0 && x[0].range.high < x[1].range.low;
  return {small ? x[0].range.low : 0, small ? Wide(x[0].range.high) : Wide(x[1].range.high) - 1,
          gcd(x[0].divisor, x[1].divisor)};
}
Result minimum(const Op&, const Operands& x) {
  return {std::min(x[0].range.low, x[1].range.low), std::min(x[0].range.high, x[1].range.high),
          gcd(x[0].divisor, x[1].divisor)};
}
Result maximum(const Op&, const Operands& x) {
  return {std::max(x[0].range.low, x[1].range.low), std::max(x[0].range.high, x[1].range.high),
          gcd(x[0].divisor, x[1].divisor)};
}
Result either(const Range& x, const Range& y, int64_t dx, int64_t dy) {
  return {std::min(x.low, y.low), std::max(x.high, y.high), gcd(dx, dy)};
}
Result where(const Op&, const Operands& x) {
  return either(x[1].range, x[2].range, x[1].divisor, x[2].divisor);
}
Result cat(const Op&, const Operands& x) {
  return either(x[0].range, x[1].range, x[0].divisor, x[1].divisor);
}
Result bits_and(const Op& op, const Operands& x) {
  if (!is_signed(op.type(0).dtype) || (x[0].range.low < 0 && x[1].range.low < 0)) return anything();
  int64_t high = INT64_MAX;
  for (const Operand& operand : x)
    if (operand.range.low >= 0) high = std::min(high, operand.range.high);
  return {0, high, 1};
}
Result shift_left(const Op&, const Operands& x) {
  if (!x[1].fixed() || x[1].range.low < 0 || x[1].range.low > 62) return anything();
  Wide by = Wide(1) << x[1].range.low;
  return {x[0].range.low * by, x[0].range.high * by, x[0].divisor * by};
}
Result pass(const Op&, const Operands& x) { return {x[0].range.low, x[0].range.high, x[0].divisor}; }
Result arange(const Op& op, const Operands&) {
  return {0, op.integer("size") - 1, op.integer("size") == 1 ? 0 : 1};
}
Result count(const Op&, const Operands&) { return {1, INT32_MAX, 1}; }
Result block(const Op&, const Operands&) { return {0, INT32_MAX - 1, 1}; }
Result extent(const Op&, const Operands&) { return {0, INT32_MAX, 1}; }

const struct {
  std::string_view primitive;
  Row row;
} arithmetic[] = {
    {"add", add},
    {"sub", sub},
    {"mul", mul},
    {"neg", negative},
    {"abs", absolute},
    {"floordiv", floordiv},
    {"cdiv", cdiv},
    {"mod", mod},
    {"minimum", minimum},
    {"maximum", maximum},
    {"where", where},
    {"cat", cat},
    {"bitwise_and", bits_and},
    {"shift_left", shift_left},
    {"astype", pass},
    {"broadcast", pass},
    {"reshape", pass},
    {"permute", pass},
    {"reduce_max", pass},
    {"reduce_min", pass},
    {"arange", arange},
    {"bid", block},
    {"num_blocks", count},
    {"dim", extent},
};

Row row_of(const Primitive& primitive) {
  static const auto& table = *[] {
    auto* rows = new std::unordered_map<const Primitive*, Row>;
    for (const auto& each : arithmetic)
      if (const Primitive* found = find_primitive(each.primitive)) rows->emplace(found, each.row);
    return rows;
  }();
  auto at = table.find(&primitive);
  return at == table.end() ? nullptr : at->second;
}

bool integral(const Value* value) { return !value->type.is_array() && is_integer(value->type.dtype); }

}  // namespace

Range range_of(DType dtype) {
  int bits = info(dtype).bits;
  if (dtype == DType::boolean) return {0, 1};
  if (bits == 64) return {};
  return is_signed(dtype) ? Range{-(int64_t(1) << (bits - 1)), (int64_t(1) << (bits - 1)) - 1}
                          : Range{0, (int64_t(1) << bits) - 1};
}

Range Facts::range(const Value* value) { return integral(value) ? known(value).range : Range{}; }
int64_t Facts::divisor(const Value* value) { return integral(value) ? known(value).divisor : 1; }

Facts::Known Facts::known(const Value* value) {
  if (auto at = known_.find(value); at != known_.end()) return at->second;
  if (depth_ >= deepest) return {range_of(value->type.dtype), 1};
  ++depth_;
  Known computed = compute(value);
  --depth_;
  return known_[value] = computed;
}

Facts::Known Facts::compute(const Value* value) {
  Range full = range_of(value->type.dtype);
  const Op* op = value->definition;
  if (!op) return of_argument(value);
  if (op->is("constant")) {
    int64_t constant = constant_of(value)->integer;
    return {{constant, constant}, constant == INT64_MIN ? INT64_MAX / 2 + 1 : std::abs(constant)};
  }
  Row row = row_of(*op->primitive);
  if (!row || op->results.size() != 1) return {full, 1};
  Operands operands;
  for (const Value* operand : op->operands)
    operands.push_back(integral(operand) ? Operand{range(operand), divisor(operand)} : Operand{{}, 1});
  if (op->is("astype") && !integral(op->operands[0])) return {full, 1};
  Result result = row(*op, operands);
  if (op->is("dim")) {
    const auto& parameters = function_.body().arguments;
    auto at = std::find(parameters.begin(), parameters.end(), op->operands[0]);
    if (at != parameters.end()) {
      auto fact = [&](std::string_view name) {
        return key("dim", at - parameters.begin(), op->integer("axis"), name);
      };
      const int64_t most = is_wide_array(function_, op->operands[0]) ? INT64_MAX : INT32_MAX;
      result = {fact("low").value_or(0), fact("high").value_or(most), fact("divisor").value_or(1)};
    } else if (is_wide_array(function_, op->operands[0])) {
      result.high = INT64_MAX;
    }
  }
  if (result.low == 0 && result.high == 0) return {{0, 0}, 0};
  Known known;
  known.range = {saturate(result.low), saturate(result.high)};
  bool wraps = result.low < full.low || result.high > full.high || value->type.dtype == DType::u64;
  if (wraps) known.range = full;
  // Wrapping preserves only powers of two as divisors.
  Wide divisor = result.divisor;
  if (wraps || divisor > INT64_MAX) {
    int power = 0;
    while (power < info(value->type.dtype).bits - 2 && divisor != 0 &&
           divisor % (Wide(1) << (power + 1)) == 0)
      ++power;
    divisor = Wide(1) << power;
  }
  known.divisor = divisor == 0 ? 1 : static_cast<int64_t>(divisor);
  return known;
}

Facts::Known Facts::of_argument(const Value* value) {
  Known nothing{range_of(value->type.dtype), 1};
  const Op* op = value->owner->parent;
  if (!op) {
    const auto& parameters = function_.body().arguments;
    int64_t at = std::find(parameters.begin(), parameters.end(), value) - parameters.begin();
    return {{key("arg", at, -1, "low").value_or(nothing.range.low),
             key("arg", at, -1, "high").value_or(nothing.range.high)},
            key("arg", at, -1, "divisor").value_or(1)};
  }
  if (!op->is("for") || value != op->region().arguments[0]) return nothing;
  Range low = range(op->operands[0]), high = range(op->operands[1]);
  if (high.high <= low.low) return nothing;  // the loop never runs
  return {{low.low, high.high - 1}, std::gcd(divisor(op->operands[0]), divisor(op->operands[2]))};
}

std::optional<int64_t> Facts::key(std::string_view subject, int64_t number, int64_t axis,
                                  std::string_view fact) const {
  if (function_.attributes().empty()) return std::nullopt;
  std::string name =
      axis < 0 ? str(subject, '.', number, '.', fact) : str(subject, '.', number, '.', axis, '.', fact);
  const Attribute* found = function_.attributes().find(name);
  if (!found) return std::nullopt;
  if (auto* integer = std::get_if<int64_t>(found)) return *integer;
  fail(ErrorKind::value, "key fact '", name, "' is ", *found, "; it must be an integer");
}

}  // namespace tile
