// What accesses of memory say to the device library: flags, pads, masks, elements at index tiles.
#pragma once
#include "cuda/emitter.h"

namespace tile::cuda {

// "constant_array | whole_vectors", of an access that needs no bounds "in_bounds" too; "plain" of none.
std::string flags_text(const ArrayFacts& facts, bool in_bounds = false);
// The pad of a load, in its dtype.
std::string pad_text(const Op& op);
// "Masked<L0>{v3}" of the operand, or "Always()" where the op has none of that number.
std::string mask_text(Emitter& emitter, const Op& op, size_t operand, const Layout& layout);

// Scalars count as tiles of one element, which every thread holds.
struct ElementsText {
  std::string mask, index;  // ", v3, v4"
};
ElementsText elements_text(Emitter& emitter, const Op& op, size_t first, const Layout& layout);
// Indices, values and result have one layout.
std::optional<Layout> relate_elements(const Op& op, const Value* from, const Value* to, const Layout& layout);

}  // namespace tile::cuda
