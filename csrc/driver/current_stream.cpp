// Hooks that provide the current stream and device.
#include "driver/current_stream.h"

#include <atomic>
#include <utility>

namespace tile {
namespace {

void* default_stream(int) { return nullptr; }
int first_device() { return 0; }
std::atomic<CurrentStream> stream = default_stream;
std::atomic<CurrentDevice> device = first_device;
thread_local std::optional<void*> named;

}  // namespace

void set_current_stream(CurrentStream function) { stream = function; }
void* current_stream(int on) { return named ? *named : stream.load(std::memory_order_relaxed)(on); }
StreamScope::StreamScope(void* stream) : outer_(std::exchange(named, stream)) {}
StreamScope::~StreamScope() { named = outer_; }

void set_current_device(CurrentDevice function) { device = function; }
int current_device() { return device.load(std::memory_order_relaxed)(); }

}  // namespace tile
