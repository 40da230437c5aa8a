// gather and scatter.
#include "cpu/interpreter/elements.h"

#include "cpu/interpreter/element_nodes.h"

namespace tile::cpu {
namespace {

struct ElementAddresses {
  Elements elements;
  ElementAddresses(LoweringContext& lower, const Op& op) : elements(lower, op, first_index(op)) {}
  template <class Visit>
  void each_run(Frame& frame, const Visit& visit) const {
    const int64_t bytes = info(frame.arrays[static_cast<size_t>(elements.array)].dtype).bytes;
    elements.each(frame, [&](int64_t i, char* address) {
      if (address) visit(i, address, bytes, 1);
    });
  }
};

const AddLoweringRule gather_{{"gather", lower_addresses<ReadNode<ElementAddresses>>}};
const AddLoweringRule scatter_{{"scatter", lower_addresses<WriteNode<ElementAddresses>>}};

}  // namespace
}  // namespace tile::cpu
