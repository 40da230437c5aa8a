// The stream of launches on a device, and the device of launches without tensors: those of torch once
// csrc/torch has installed its hooks, otherwise the default stream and device 0.
#pragma once
#include <optional>

namespace tile {

using CurrentStream = void* (*)(int device);
void set_current_stream(CurrentStream function);
void* current_stream(int device);
// During its lifetime, launches of this thread go to the given stream.
class StreamScope {
 public:
  explicit StreamScope(void* stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;

 private:
  std::optional<void*> outer_;
};

using CurrentDevice = int (*)();
void set_current_device(CurrentDevice function);
int current_device();

}  // namespace tile
