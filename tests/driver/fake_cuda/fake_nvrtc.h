// The settings of the tests' fake NVRTC.
#pragma once
#include <functional>
#include <map>
#include <string>

struct FakeNvrtc {
  int major = 13, minor = 0;
  int code = 0;  // result of compiling
  std::string log;
  std::map<std::string, std::string> logs;  // logs for sources that contain the key
  std::map<std::string, int> codes;         // their result codes
  int compiled = 0;                         // number of compiles
  std::function<void()> compiling;          // called by each compile, on its thread
};

// Exported by the library together with its nvrtc… functions.
using GetFakeNvrtc = FakeNvrtc*();
