// Places rings, operands of groups, panels and barriers in the shared memory of a block.
#include <algorithm>
#include <utility>

#include "cuda/async/plan.h"
#include "support/text.h"

namespace tile::cuda {
namespace {

constexpr int most_stages = 12;

}  // namespace

// Returns true if loops fill the ring, other than the loop over the grid.
bool AsyncPlan::is_repeated(const AsyncRing& ring, const Function& function) const {
  return std::any_of(ring.uses.begin(), ring.uses.end(), [&](const RingUse& use) {
    const Op* loop = use.block->parent;
    return loop && (!persistent || loop->parent != &function.body());
  });
}

// Returns the bytes of a stage of all rings that are filled once, and of all that loops fill, without those
// of epilogues.
std::pair<int64_t, int64_t> AsyncPlan::stages_once_and_repeated(const Function& function) const {
  int64_t once = 0, repeated = 0;
  for (const AsyncRing& ring : rings)
    if (ring.kind != AsyncRing::Kind::epilogue)
      (is_repeated(ring, function) ? repeated : once) += ring.stage_bytes;
  return {once, repeated};
}
// Leaves tiles beside operands to the threads where two stages of all rings do not fit, the last ones first.
void AsyncPlan::drop_tiles(const Function& function, int64_t room) {
  for (size_t r = rings.size(); r-- > 0;) {
    const auto [once, repeated] = stages_once_and_repeated(function);
    if (once + 2 * repeated <= room) return;
    if (rings[r].kind == AsyncRing::Kind::tiles) rings.erase(rings.begin() + static_cast<ptrdiff_t>(r));
  }
}

// Returns how many stages the ring of an epilogue's loads has in so many bytes. Products that go on from
// iteration to iteration keep three stages, and the loads have two, or else one. What is then left of a stage
// of the products goes to the loads.
int AsyncPlan::epilogue_stages(int64_t left, int64_t repeated) const {
  const AsyncRing& ring = rings.back();
  const auto uses = static_cast<int64_t>(ring.uses.size());
  for (const int64_t least : {std::min<int64_t>(uses, 2), int64_t{1}}) {
    const int64_t products = std::min<int64_t>((left - least * ring.stage_bytes) / repeated, most_stages);
    if (left < least * ring.stage_bytes || products < 3) continue;
    return static_cast<int>(
        std::min<int64_t>({uses, (left - products * repeated) / ring.stage_bytes, most_stages}));
  }
  return 0;
}

// Gives every ring as many stages as fit. Rings that loops fill have two at least, where products go on from
// iteration to iteration; others have a second one if the loops' rings have two.
void AsyncPlan::place(const Function& function, const Target& target) {
  int64_t room = target.shared_bytes - alignment;  // the barriers take the rest
  for (const SharedOperand& operand : operands) room -= shared_buffers * operand.layout.stage_bytes();
  drop_tiles(function, room);
  const auto [once, repeated] = stages_once_and_repeated(function);
  int64_t panels = stores.empty() ? 0 : int64_t{groups} * panel_buffers * panel_bytes;
  if (room - panels < once + (awaits ? 2 : 3) * repeated) stores.clear(), panels = 0;
  if (room - once < 2 * repeated) {
    why_not = str("two stages of ", repeated, " bytes", once ? str(" and one of ", once) : "",
                  " do not fit the ", target.shared_bytes, " bytes of shared memory");
    return;
  }
  const int second = once && repeated && room - panels >= 2 * once + 2 * repeated ? 2 : 1;
  int64_t left = room - panels - second * once;
  int of_epilogue = 0;
  if (has_two_producers()) {
    if (!stores.empty()) of_epilogue = epilogue_stages(left, repeated);
    left -= of_epilogue * rings.back().stage_bytes;
    if (!of_epilogue) rings.pop_back();
  }
  const int most = repeated ? static_cast<int>(std::min<int64_t>(left / repeated, most_stages)) : 1;
  int64_t offset = 0;
  const auto place_ring = [&](AsyncRing& ring) {
    ring.stages = ring.kind == AsyncRing::Kind::epilogue ? of_epilogue
                  : is_repeated(ring, function)          ? most
                                                         : second;
    ring.offset = offset;
    offset += ring.stages * ring.stage_bytes;
  };
  for (AsyncRing& ring : rings)
    if (ring.kind != AsyncRing::Kind::rows) place_ring(ring);
  for (SharedOperand& operand : operands) {
    operand.offset = offset;
    offset += shared_buffers * operand.layout.stage_bytes();
  }
  int count = 0;
  for (PanelStore& store : stores) {
    store.first = count;
    count += row_blocks * static_cast<int>(store.layout.panels());
  }
  if (!stores.empty()) stores[0].waits_all = count % panel_buffers != 0;
  panels_offset = offset;
  offset += panels;
  for (AsyncRing& ring : rings)
    if (ring.kind == AsyncRing::Kind::rows) place_ring(ring);
  for (AsyncRing& ring : rings) {
    ring.full = offset;
    ring.empty = offset + 8 * ring.stages;
    offset += 16 * ring.stages;
  }
  queue_offset = offset;
  if (draws) offset += queue_bytes;
  shared_bytes = offset;
  if (shared_bytes > target.shared_bytes)
    why_not = str("the barriers of ", rings.size(), " rings do not fit the ", target.shared_bytes,
                  " bytes of shared memory");
}

}  // namespace tile::cuda
