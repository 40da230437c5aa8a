// A test of the CUDA driver's wrapper over a fake driver.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "driver/driver.h"
#include "driver/fake_cuda/fake_driver.h"
#include "driver/library.h"
#include "error_text.h"

namespace tile {

inline constexpr const char* library = TILE_FAKE_CUDA;
using Calls = std::vector<std::string>;

class DriverTest : public ::testing::Test {
 protected:
  DriverTest() {
    GetFakeDriver* get = nullptr;
    Library::open(library).require("fake_driver", get, "build it");
    fake = get();
    *fake = {};
  }
  ~DriverTest() override { *fake = {}; }
  std::string open_error() {
    return error_of([] { Driver driver(library); });
  }
  FakeDriver* fake;
};

}  // namespace tile
