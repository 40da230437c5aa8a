// Failed assertions of kernels: the memory that holds them, and when they are reported.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver/driver_device.h"

namespace tile {

void Driver::synchronize(int index) const {
  const Scope scope(*this, index);
  if (const int code = f_->wait_for_context()) fail_call(code, str("waiting for ", describe(index)), index);
  raise_failures(index);
}

FailureLocation Driver::register_kernel(int index, const AssertingKernel& kernel) const {
  const Scope scope(*this, index);
  Device& of = device(index);
  std::lock_guard lock(of.mutex);
  if (of.owned_buffers)
    if (const auto location = of.owned_buffers->buffer.add(kernel)) return *location;
  // All devices access this memory, at its host address.
  void* memory = nullptr;
  {
    const Loading loading(*this, index);
    const int code = f_->host_memory(&memory, AssertBuffer::bytes, host_memory_portable | host_memory_mapped);
    check(code, "memory for failed assertions on ", describe(index));
  }
  std::memset(memory, 0, AssertBuffer::bytes);
  AssertBuffers* const older = of.owned_buffers.release();
  of.owned_buffers = std::make_unique<AssertBuffers>(memory, older);
  of.buffers.store(of.owned_buffers.get(), std::memory_order_release);
  expected_forks_ = -1;
  static std::once_flag once;
  if (this == process_driver()) std::call_once(once, [] { std::atexit(report_failures); });
  return *of.owned_buffers->buffer.add(kernel);
}

std::vector<std::string> Driver::take_failures(int index) const {
  std::vector<std::string> texts;
  Device& of = device(index);
  AssertBuffers* const buffers = of.buffers.load(std::memory_order_acquire);
  bool any = false;
  for (AssertBuffers* each = buffers; each; each = each->older.get()) any = any || each->buffer.any();
  if (!any) return texts;
  wait(index);  // an error of this wait is reported by the next call
  for (AssertBuffers* each = buffers; each; each = each->older.get())
    for (std::string& text : each->buffer.take()) texts.push_back(str(text, ", on ", describe(index)));
  return texts;
}

void Driver::raise_failures(int index) const {
  if (const std::vector<std::string> texts = take_failures(index); !texts.empty())
    throw FailedAssertions(join(texts, "\n"));
}

// Runs at the end of the process, so the driver may have freed the memory: wait() tests that before it is
// read.
void Driver::report_failures() {
  const Driver& driver = *process_driver();
  if (driver.forks_ != forks()) return;
  for (int i = 0; i < driver.device_count(); ++i)
    if (driver.device(i).buffers.load() && driver.wait(i) == 0)
      for (const std::string& text : driver.take_failures(i))
        std::fprintf(stderr, "tile: %s\n", text.c_str());
}

// Waits for the device, whatever context the thread has, and returns the driver's error code.
int Driver::wait(int index) const {
  void* current = nullptr;
  f_->get_current(&current);
  f_->set_current(device(index).context);
  const int code = f_->wait_for_context();
  f_->set_current(current);
  return code;
}

}  // namespace tile
