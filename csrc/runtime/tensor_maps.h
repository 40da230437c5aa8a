// The tensor maps of a loaded kernel, kept while its launches pass the same arrays.
#pragma once
#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cuda/parameters.h"
#include "driver/driver.h"
#include "runtime/argument.h"

namespace tile {

// Returns the array with its axes in the order of the map's dimensions.
TensorMapShape shape_of(const cuda::TensorMapSpec& map, const ArrayArgument& array);

class TensorMaps {
 public:
  explicit TensorMaps(std::vector<cuda::TensorMapSpec> specs);

  // Writes the maps of a launch's arrays, in the order of the specs. It takes no memory, and calls the driver
  // only if none of the last launches passed arrays of these addresses, extents and strides. May be called
  // from any thread.
  void write(const Driver& driver, const CudaFunction& function, ArgumentRefs arguments, TensorMap* to);

 private:
  static constexpr size_t most_entries = 8;
  static constexpr size_t most_words = 1 + 2 * TensorMapShape::most_dimensions;
  // The address, extents and strides of a mapped array.
  struct Words {
    std::array<uint64_t, most_words> at;
  };
  bool is_of(size_t entry, ArgumentRefs arguments) const;
  void keep(ArgumentRefs arguments, const TensorMap* maps);

  const std::vector<cuda::TensorMapSpec> specs_;
  std::vector<size_t> arrays_;   // the parameters that have maps, each once
  std::mutex mutex_;             // guards the following members
  std::vector<Words> words_;     // each entry has one for each array
  std::vector<TensorMap> maps_;  // each entry has one for each spec
  size_t entries_ = 0;
  size_t oldest_ = 0;  // the entry that is overwritten next, once there are most_entries
  size_t last_ = 0;    // the entry of the last launch
};

}  // namespace tile
