// Replaces the counted loops of the roles by loops over blocks that are drawn.
#include "cuda/async/block_queue.h"

#include <algorithm>

#include "cuda/async/ops.h"

namespace tile::cuda {
namespace {

enum class Role { producer, second_producer, groups };

// Returns the position of the role's loop over blocks: what else a persistent kernel leaves outside has no
// region.
size_t position_of_loop(const Block& role) {
  const auto loop =
      std::find_if(role.ops.begin(), role.ops.end(), [](const auto& op) { return op->is("for"); });
  return static_cast<size_t>(loop - role.ops.begin());
}

void draw_blocks(Function& function, Block& role, Role which) {
  const size_t position = position_of_loop(role);
  if (position == role.ops.size()) return;  // there is no second producer
  std::unique_ptr<Op> counted = std::move(role.ops[position]);
  role.ops.erase(role.ops.begin() + static_cast<ptrdiff_t>(position));
  auto loop = std::make_unique<Op>();
  loop->primitive = &*block_loop;
  loop->location = counted->location;
  loop->operands = {counted->operands[0], counted->operands[1]};
  loop->regions = std::move(counted->regions);
  Block& body = loop->region();
  body.parent = loop.get();

  Builder build(function, body);
  build.location = loop->location;
  build.at(body, 0);
  Value* next = nullptr;
  if (which == Role::producer) next = build.emit(queue_draw, {counted->operands[2]});
  body.ops.pop_back();
  build.to_end(body);
  if (which == Role::producer)
    build.create(queue_put, {next});
  else
    next = build.emit(queue_take, {}, {{"by_thread", int64_t{which == Role::second_producer}}});
  build.create(primitive("yield"), {next});

  build.at(role, position);
  build.insert(std::move(loop));
  if (which == Role::producer) build.create(queue_close, {});
}

}  // namespace

void draw_blocks(Function& function) {
  const auto& ops = function.body().ops;
  Op& all = **std::find_if(ops.begin(), ops.end(), [](const auto& op) { return op->is("roles"); });
  for (const Role role : {Role::producer, Role::second_producer, Role::groups})
    draw_blocks(function, all.region(static_cast<size_t>(role)), role);
}

}  // namespace tile::cuda
