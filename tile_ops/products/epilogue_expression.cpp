// The text that ends the product kernel: its names, and its value in a trace.
#include "gemm.h"

#include <mutex>
#include <unordered_map>

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

std::shared_ptr<const ExpressionText> checked(const std::string& text, std::vector<std::string> names) {
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (*name == "acc")
      fail(ErrorKind::value, "an operand is named 'acc', which is the product; give it another name");
    if (!is_expression_name(*name))
      fail(ErrorKind::value, "an operand is named '", *name,
           "'; a name is a letter or _, then letters, digits and _");
    if (std::find(names.begin(), name, *name) != name)
      fail(ErrorKind::value, "two operands are named '", *name, "'; give each its own name");
  }
  names.insert(names.begin(), "acc");
  auto parsed = std::make_shared<const ExpressionText>("epilogue", text, names);
  if (!parsed->uses(0))
    fail(ErrorKind::value, "epilogue '", text,
         "' does not use acc, the product; without it no product is needed");
  for (size_t k = 1; k < names.size(); ++k)
    if (!parsed->uses(k))
      fail(ErrorKind::value, "epilogue '", text, "' does not use the operand '", names[k],
           "'; use it, or do not give it");
  return parsed;
}

}  // namespace

std::shared_ptr<const ExpressionText> parsed_epilogue(const std::string& text, const std::string& names) {
  static std::mutex mutex;
  static std::unordered_map<std::string, std::shared_ptr<const ExpressionText>> known;
  std::string key;
  key.reserve(text.size() + names.size() + 1);
  key.append(text).append(1, '\0').append(names);
  {
    std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  std::shared_ptr<const ExpressionText> made = checked(text, separated(names));
  std::lock_guard lock(mutex);
  return known.emplace(std::move(key), std::move(made)).first->second;
}

Tile expressed(const ExpressionOf<Array, Tile>& of, const Tile& acc, const Tile& b0, const Tile& b1,
               const Tile& i, const Tile& j) {
  std::vector<std::function<Tile()>> values{[&] { return acc; }};
  const auto add = [&](const auto&... given) {
    const auto one = [&]<class T>(const std::optional<T>& value) {
      if (!value) return;
      if constexpr (std::is_same_v<T, Tile>)
        values.push_back([&] { return value->astype(acc.dtype()); });
      else
        values.push_back([&] {
          return (*value)[{b0, b1}].tiled_view(acc.shape()).load({i, j}).astype(acc.dtype());
        });
    };
    (one(given), ...);
  };
  std::apply(add, of.tensors);
  std::apply(add, of.numbers);
  const auto text = parsed_epilogue(of.text, of.names);
  return (*text)(acc.dtype(), [&](size_t name) { return values[name](); }).broadcast_to(acc.shape());
}

}  // namespace tile
