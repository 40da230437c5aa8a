// Builds assertions from ops and formats their failures.
#include "ir/assertion.h"

namespace tile {

Assertion Assertion::of(const Op& op, const std::string& kernel) {
  return {op.location.known() ? str(op.location) : "", op.text("message"), kernel, op.type(0).shape};
}

std::string failure_text(const Assertion& assertion, int64_t element, const std::array<int64_t, 3>& block) {
  const auto& [where, message, kernel, shape] = assertion;
  std::string element_text;
  if (!shape.empty()) {
    Shape index(shape.size());
    for (size_t axis = shape.size(); axis-- > 0; element /= shape[axis]) index[axis] = element % shape[axis];
    element_text = str("element ", index, " of ", Type::tile(DType::boolean, shape), " in ");
  }
  return str(where, where.empty() ? "" : ": ", "assertion failed", message.empty() ? "" : ": ", message, "; ",
             element_text, "block (", block[0], ", ", block[1], ", ", block[2], ") of kernel ", kernel);
}

}  // namespace tile
