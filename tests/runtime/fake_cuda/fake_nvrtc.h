// What the fake NVRTC of the tests is told to do.
#pragma once
#include <map>
#include <string>

struct FakeNvrtc {
  int major = 13, minor = 0;
  int code = 0;  // of compiling
  std::string log;
  std::map<std::string, std::string> logs;  // of texts that hold the first, instead
  int compiled = 0;                         // how often
};

// Exported by the library beside its nvrtc… functions.
using GetFakeNvrtc = FakeNvrtc*();
