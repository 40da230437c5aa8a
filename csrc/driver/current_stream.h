// The stream of launches on a device, and the device of launches without tensors: torch's current ones once
// csrc/torch has said how to ask for them, else the default stream and device 0.
#pragma once
#include <optional>

namespace tile {

using CurrentStream = void* (*)(int device);
void set_current_stream(CurrentStream function);
void* current_stream(int device);
// While it lives, this thread's launches go to that stream.
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
