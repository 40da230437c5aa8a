// Checks what a launch was given and hands it to the program.
#include "runtime/launch.h"

#include "cpu/stream.h"

#include <limits>

namespace tile {

void run_program(const cpu::Program& program, const std::string& name, const Location& where, Grid grid,
                 const std::vector<Argument>& arguments) {
  const int64_t blocks[3] = {grid.x, grid.y, grid.z};
  for (int64_t count : blocks)
    if (count < 0)
      fail(where, ErrorKind::value, "launch of ", name, ": the grid is (", grid.x, ", ", grid.y, ", ", grid.z,
           "); an axis must be at least 0");
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  if (grid.x > most || grid.y > most || grid.z > most)
    fail(where, ErrorKind::value, "launch of ", name, ": the grid is (", grid.x, ", ", grid.y, ", ", grid.z,
         "); an axis must be at most ", most);
  std::vector<cpu::ArrayRef> arrays;
  std::vector<cpu::Scalar> scalars;
  const ArrayArgument* first = nullptr;
  for (const Argument& argument : arguments) {
    if (const auto* scalar = std::get_if<ScalarArgument>(&argument)) {
      scalars.emplace_back().u = scalar->bits;
      continue;
    }
    const auto& array = std::get<ArrayArgument>(argument);
    if (first && (array.device != first->device || array.device_index != first->device_index))
      fail(where, ErrorKind::value, "launch of ", name,
           ": its arrays are on different devices; move them to one");
    first = &array;
    if (array.device != DeviceKind::cpu)
      fail(where, ErrorKind::unsupported, "launch of ", name,
           ": kernels run on CPU tensors only; move its arrays to the CPU");
    cpu::ArrayRef& ref = arrays.emplace_back();
    ref.data = static_cast<char*>(array.data);
    ref.dtype = array.dtype;
    ref.rank = array.rank;
    int64_t bytes = info(array.dtype).bytes;
    for (int i = 0; i < array.rank; ++i) {
      auto axis = static_cast<size_t>(i);
      if (array.sizes[axis] > most)
        fail(where, ErrorKind::value, "launch of ", name, ": an array extent is ", array.sizes[axis],
             "; the most is ", most, ", view the array with more axes");
      ref.size[i] = array.sizes[axis];
      bytes *= array.sizes[axis];
      ref.stride[i] = array.strides[axis] * info(array.dtype).bytes;
    }
    ref.streams = bytes >= cpu::stream_from_bytes;
  }
  program.run(blocks, arrays, scalars);
}

}  // namespace tile
