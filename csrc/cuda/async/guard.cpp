// Finds the branch, and moves its ops behind leave_unless.
#include "cuda/async/guard.h"

#include "cuda/async/ops.h"
#include "ir/build.h"

namespace tile::cuda {

bool leave_instead_of_branch(Function& function) {
  Block& body = function.body();
  if (body.ops.empty()) return false;
  const Op& last = *body.ops.back();
  const auto is_plain = [](const Block& region) {
    return region.arguments.empty() && region.terminator() && region.terminator()->is("yield");
  };
  if (!last.is("if") || !last.results.empty() || !is_plain(last.region(0)) || !is_plain(last.region(1)) ||
      last.region(1).ops.size() > 1)
    return false;
  const std::unique_ptr<Op> branch = std::move(body.ops.back());
  body.ops.pop_back();
  Builder build(function, body);
  build.location = branch->location;
  build.create(leave_unless, {branch->operands[0]});
  std::vector<std::unique_ptr<Op>>& ops = branch->region(0).ops;
  ops.pop_back();
  for (auto& op : ops) build.insert(std::move(op));
  return true;
}

}  // namespace tile::cuda
