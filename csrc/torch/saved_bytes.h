// The memory of what the launches of a run in Python save for their gradients: tiles, in one tensor of bytes.
#pragma once
#include "torch/saving_launches.h"

namespace tile {

class SavedBytes {
 public:
  struct Tile {
    at::ScalarType dtype;
    std::vector<int64_t> shape;  // [blocks, …]
    int64_t start;               // the first byte
  };
  struct Launch {
    std::shared_ptr<ReverseKernel> kernel = nullptr;  // null: the launch saves nothing
    std::vector<Tile> tiles = {};
    int64_t tag = 0;  // of the launches up to this one
    std::vector<at::Tensor> views(const at::Tensor& memory) const;
  };

  // Appends what a launch saves.
  const Launch& add(ReverseKernel& kernel, const LaunchSizes& sizes, bool cpu);
  const Launch& add(ReverseKernel& kernel, const Grid& grid, const std::vector<Argument>& arguments);
  // Appends a launch that saves nothing.
  void skip();

  const std::vector<Launch>& launches() const { return launches_; }
  int64_t count() const { return count_; }  // of bytes
  bool operator==(const SavedBytes& other) const;

  // Returns memory on the device of a tensor. Its sizes are [1, count], so that its first stride may be any
  // number: it is the tag. A number in the memory would be on a GPU, and the host would wait for it.
  at::Tensor allocated(const at::Tensor& like) const;
  // Returns true if memory was allocated for the same launches. A copy of it may have another stride, and is
  // then not used.
  bool fits(const at::Tensor& memory) const;

 private:
  const Launch& place(std::shared_ptr<ReverseKernel> kernel, int64_t blocks);
  SavingLaunches saving_;
  std::vector<Launch> launches_;
  int64_t count_ = 0;
};

}  // namespace tile
