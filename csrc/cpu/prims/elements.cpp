// gather and scatter.
#include "cpu/elements.h"

#include "cpu/places.h"

namespace tile::cpu {
namespace {

struct ElementPlaces {
  ElementPlaces(Lower& lower, const Op& op, size_t first)
      : count(element_count((op.results.empty() ? op.operands[1] : op.results[0])->type.shape)) {
    elements.connect(lower, op, first);
  }
  Elements elements;
  int64_t count;

  template <class Visit>
  void each_run(Frame& frame, const Visit& visit) const {
    elements.each(frame, count, [&](int64_t i, char* address) {
      if (address) visit(i, address, 0, 1);
    });
  }
};

const AddLowering gather_{{"gather", lower_read<ElementPlaces>}};
const AddLowering scatter_{{"scatter", lower_write<ElementPlaces>}};

}  // namespace
}  // namespace tile::cpu
