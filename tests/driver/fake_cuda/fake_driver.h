// The settings of the tests' fake CUDA driver, and the calls that it has recorded.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

struct FakeDriver {
  int version = 13000;
  int devices = 2;
  std::vector<int> archs = {90, 86};   // of the devices
  std::string missing;                 // the function that cuGetProcAddress does not find
  std::map<std::string, int> results;  // what a function returns instead of success
  int capturing = 0;
  uint64_t encoded = 0;          // number of tensor maps
  int waits_until_failure = 0;   // the wait on a stream from which on `results` applies; 0: every wait
  void* host_memory = nullptr;   // the last allocation
  unsigned cluster_blocks = 16;  // larger clusters do not fit
  bool quiet = false;            // launches are not recorded, because their cost is measured
  std::map<std::thread::id, void*> current;  // each thread's context
  std::vector<std::string> calls;            // of functions that change something, with their arguments
  std::vector<size_t> parameter_bytes;       // sizes of a kernel's parameters, whose bytes a launch records
  std::vector<std::string> parameters;       // their bytes at the last launch
};

// Exported by the library together with its cu… functions.
using GetFakeDriver = FakeDriver*();
