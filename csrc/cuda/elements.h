// Elements at index tiles, as arguments of the device library.
#pragma once
#include "cuda/emitter.h"

namespace tile::cuda {

// Scalars count as tiles of one element, which every thread holds.
struct ElementsText {
  std::string mask = "Always()", index;  // ", v3, v4"
};
ElementsText elements_text(Emitter& emitter, const Op& op, size_t first, const Layout& layout);
// Indices, values and result have one layout.
std::optional<Layout> relate_elements(const Op& op, const Value* from, const Value* to, const Layout& layout);

}  // namespace tile::cuda
