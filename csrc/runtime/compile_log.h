// What a log of NVRTC says first is wrong.
#pragma once
#include <string>

namespace tile {

struct LogError {
  std::string file;
  int line = 0;         // 0: no place is named
  std::string message;  // empty: the log holds no error
};
// Knows the forms of the front end, "user.py(12): error: …", of ptxas and of NVRTC itself.
LogError first_error(const std::string& log);

}  // namespace tile
