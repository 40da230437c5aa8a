// What the fake NVRTC of the tests is told to do.
#pragma once
#include <functional>
#include <map>
#include <string>

struct FakeNvrtc {
  int major = 13, minor = 0;
  int code = 0;  // of compiling
  std::string log;
  std::map<std::string, std::string> logs;  // of texts that hold the first, instead
  std::map<std::string, int> codes;         // and their codes
  int compiled = 0;                         // how often
  std::function<void()> compiling;          // is called by each, from its thread
};

// Exported by the library beside its nvrtc… functions.
using GetFakeNvrtc = FakeNvrtc*();
