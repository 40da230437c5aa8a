// What the fake NVRTC of the tests is told to do.
#pragma once
#include <string>

struct FakeNvrtc {
  int major = 13, minor = 0;
  int code = 0;  // of compiling
  std::string log;
  int compiled = 0;  // how often
};

// Exported by the library beside its nvrtc… functions.
using GetFakeNvrtc = FakeNvrtc*();
