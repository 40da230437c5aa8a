// Places the saved tiles of launches one behind the other.
#include "torch/saved_bytes.h"

#include <c10/core/ScalarType.h>

#include "torch/args.h"

namespace tile {
namespace {

constexpr int64_t alignment = 256;

int64_t bytes_of(const SavedBytes::Tile& tile) {
  return c10::multiply_integers(tile.shape) * static_cast<int64_t>(c10::elementSize(tile.dtype));
}

}  // namespace

const SavedBytes::Launch& SavedBytes::place(std::shared_ptr<ReverseKernel> kernel, int64_t blocks) {
  Launch& launch = launches_.emplace_back();
  if (!kernel) return launch;
  for (const SavedTile& each : kernel->saved()) {
    Tile& tile = launch.tiles.emplace_back(Tile{to_scalar_type(each.dtype), {blocks}, count_});
    tile.shape.insert(tile.shape.end(), each.shape.begin(), each.shape.end());
    count_ += (bytes_of(tile) + alignment - 1) / alignment * alignment;
  }
  launch.kernel = std::move(kernel);
  launch.tag = saving_.tag();
  return launch;
}

const SavedBytes::Launch& SavedBytes::add(ReverseKernel& kernel, const LaunchSizes& sizes, bool cpu) {
  return place(saving_.add(kernel, sizes, cpu), sizes.blocks[0] * sizes.blocks[1] * sizes.blocks[2]);
}
const SavedBytes::Launch& SavedBytes::add(ReverseKernel& kernel, const Grid& grid,
                                          const std::vector<Argument>& arguments) {
  return place(saving_.add(kernel, grid, arguments), grid.x * grid.y * grid.z);
}
void SavedBytes::skip() {
  saving_.skip();
  launches_.emplace_back();
}

bool SavedBytes::operator==(const SavedBytes& other) const {
  return launches_.size() == other.launches_.size() && count_ == other.count_ &&
         saving_.tag() == other.saving_.tag();
}

at::Tensor SavedBytes::allocated(const at::Tensor& like) const {
  return like.new_empty_strided({1, count_}, {saving_.tag(), 1}, like.options().dtype(at::kByte));
}
bool SavedBytes::fits(const at::Tensor& memory) const {
  return memory.scalar_type() == at::kByte && memory.sizes() == at::IntArrayRef({1, count_}) &&
         memory.stride(0) == saving_.tag();
}

std::vector<at::Tensor> SavedBytes::Launch::views(const at::Tensor& memory) const {
  const at::Tensor bytes = memory.view({-1});
  std::vector<at::Tensor> views;
  for (const Tile& tile : tiles)
    views.push_back(bytes.narrow(0, tile.start, bytes_of(tile)).view(tile.dtype).view(tile.shape));
  return views;
}

}  // namespace tile
