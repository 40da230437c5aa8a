// The text that ends the product kernel: its names, and its value in a trace.
#include "gemm.h"

namespace tile {

std::vector<std::string> operand_names(const std::string& names) {
  std::vector<std::string> all;
  for (size_t from = 0; from < names.size();) {
    const size_t end = std::min(names.find(',', from), names.size());
    all.push_back(names.substr(from, end - from));
    from = end + 1;
  }
  return all;
}

std::shared_ptr<const ExpressionText> parsed_epilogue(const std::string& text, const std::string& names) {
  std::vector<std::string> all = operand_names(names);
  all.insert(all.begin(), "acc");
  return parsed_expression("epilogue", text, all);
}

Tile expressed(const ExpressionOf<Array, Tile>& of, const Tile& acc, const Tile& b0, const Tile& b1,
               const Tile& i, const Tile& j) {
  std::vector<Tile> values{acc};
  const auto add = [&](const auto&... given) {
    const auto one = [&]<class T>(const std::optional<T>& value) {
      if (!value) return;
      if constexpr (std::is_same_v<T, Tile>)
        values.push_back(value->astype(acc.dtype()));
      else
        values.push_back((*value)[{b0, b1}].tiled_view(acc.shape()).load({i, j}).astype(acc.dtype()));
    };
    (one(given), ...);
  };
  std::apply(add, of.tensors);
  std::apply(add, of.numbers);
  return (*parsed_epilogue(of.text, of.names))(values).broadcast_to(acc.shape());
}

}  // namespace tile
