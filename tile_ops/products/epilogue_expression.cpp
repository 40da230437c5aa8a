// The text that ends the product kernel: its names, and its results in a trace.
#include <functional>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "product_epilogue.h"

namespace tile {
namespace {

std::vector<std::string> separated(const std::string& names) {
  std::vector<std::string> all;
  for (size_t from = 0; !names.empty() && from <= names.size();) {
    const size_t end = std::min(names.find(',', from), names.size());
    all.push_back(names.substr(from, end - from));
    from = end + 1;
  }
  return all;
}

std::shared_ptr<const ExpressionText> checked(const EpilogueSource& source, std::vector<std::string> names) {
  const auto& [text, _, several, second, conditions] = source;
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (*name == "acc" || (second && *name == "acc2"))
      fail(ErrorKind::value, "an operand is named '", *name, "', which is ",
           *name == "acc" ? "the product" : "the second product", "; give it another name");
    if (!is_expression_name(*name))
      fail(ErrorKind::value, "an operand is named '", *name,
           "'; a name is a letter or _, then letters, digits and _");
    if (std::find(names.begin(), name, *name) != name)
      fail(ErrorKind::value, "two operands are named '", *name, "'; give each its own name");
  }
  ExpressionKinds kinds{.dtypes = std::vector<DType>(second ? 2 : 1, DType::f32), .several = several};
  for (size_t k = 0; k < names.size(); ++k)
    kinds.dtypes.push_back(conditions >> k & 1 ? DType::boolean : DType::f32);
  if (second) names.insert(names.begin(), "acc2");
  names.insert(names.begin(), "acc");
  auto parsed = std::make_shared<const ExpressionText>("epilogue", text, names, kinds);
  if (!parsed->uses(0))
    fail(ErrorKind::value, "epilogue '", text,
         "' does not use acc, the product; without it no product is needed");
  if (second && !parsed->uses(1))
    fail(ErrorKind::value, "epilogue '", text,
         "' does not use acc2, the second product; use it, or do not give 'second'");
  for (size_t k = 1; k < names.size() && !several; ++k)
    if (!parsed->uses(k))
      fail(ErrorKind::value, "epilogue '", text, "' does not use the operand '", names[k],
           "'; use it, or do not give it");
  return parsed;
}

// The key of a parsed text. A lookup by a view of it copies no string.
template <class Text>
struct KeyOf {
  Text text, names;
  int kind;  // 0: one result; 1: several; 2: several of two products
  uint64_t conditions;

  template <class Other>
  bool operator==(const KeyOf<Other>& other) const {
    return kind == other.kind && conditions == other.conditions && text == other.text && names == other.names;
  }
};
using Key = KeyOf<std::string>;
using KeyView = KeyOf<std::string_view>;
struct Hash {
  using is_transparent = void;
  template <class Text>
  size_t operator()(const KeyOf<Text>& key) const {
    const std::hash<std::string_view> hash;
    return hash(key.text) ^ (hash(key.names) << 1) ^ static_cast<size_t>(key.kind) ^
           static_cast<size_t>(key.conditions << 2);
  }
};

}  // namespace

EpilogueText parsed_epilogue(const EpilogueSource& source) {
  static std::mutex mutex;
  static std::unordered_map<Key, EpilogueText, Hash, std::equal_to<>> known;
  const auto& [text, names, several, second, conditions] = source;
  const KeyView key{text, names, several ? 1 + int{second} : 0, several ? conditions : 0};
  {
    std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  std::shared_ptr<const ExpressionText> made = checked(source, separated(names));
  std::lock_guard lock(mutex);
  return known.emplace(Key{text, names, key.kind, key.conditions}, EpilogueText{std::move(made)})
      .first->second;
}

Tile expressed(const ExpressionOf<Array, Tile>& of, const Array& out, const Tile& acc,
               const std::optional<Tile>& factor, const TileIndex& at, std::vector<Tile>& more) {
  const auto& [text, places, tensors, numbers, outs] = of;
  const auto result = [&](int k) -> const Array& { return k == 0 ? out : outs[static_cast<size_t>(k) - 1]; };
  std::vector<std::function<Tile()>> values{[&] { return acc; }};
  if (factor) values.emplace_back([&] { return *factor; });
  auto next = tensors.begin();
  for (const Place place : places)
    values.emplace_back([&, array = place == elsewhere ? *next++ : result(place)] {
      Tile tile = array[{at.b0, at.b1}].tiled_view(acc.shape()).load({at.i, at.j});
      return tile.dtype() == DType::boolean ? tile : tile.astype(acc.dtype());
    });
  for (const Tile& number : numbers) values.emplace_back([&] { return number.astype(acc.dtype()); });
  const std::vector<Tile> results = text->all(acc.dtype(), [&](size_t name) { return values[name](); });
  more.insert(more.end(), results.begin() + 1, results.end());
  return results[0].broadcast_to(acc.shape());
}

}  // namespace tile
