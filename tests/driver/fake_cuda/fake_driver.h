// What the fake CUDA driver of the tests is told to do, and what was called.
#pragma once
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
  int waits_until_failure = 0;               // of a stream: the results say it of this wait on; 0: of each
  void* host_memory = nullptr;               // what was given last
  unsigned cluster_blocks = 16;              // larger clusters have no room
  bool quiet = false;                        // launches are not noted: their cost is measured
  std::map<std::thread::id, void*> current;  // each thread's context
  std::vector<std::string> calls;            // of functions that change something, with their arguments
  std::vector<size_t> parameter_bytes;       // of a kernel's parameters, to be noted at a launch
  std::vector<std::string> parameters;       // their bytes at the last launch
};

// Exported by the library beside its cu… functions.
using GetFakeDriver = FakeDriver*();
