// Declares the part of the CUDA driver's C interface that the runtime uses.
#pragma once
#include <cstddef>
#include <cstdint>

#include "driver/library.h"

namespace tile {

// Copied from cuda.h; these numbers and layouts are the driver's binary interface and never change.
enum DeviceAttribute {
  attribute_max_threads = 1,
  attribute_multiprocessors = 16,
  attribute_l2_bytes = 38,
  attribute_major = 75,
  attribute_minor = 76,
  attribute_multiprocessor_shared_bytes = 81,
  attribute_shared_bytes_optin = 97,
};
enum FunctionAttribute {
  function_max_threads = 0,
  function_shared_bytes = 1,
  function_local_bytes = 3,
  function_registers = 4,
  function_max_dynamic_shared_bytes = 8,
  function_large_clusters = 14,
};
enum LaunchAttributeId { launch_cluster = 4, launch_programmatic = 6 };
constexpr int tensor_map_promotion_128 = 2, tensor_map_promotion_256 = 3;  // bytes that a miss in L2 fetches
constexpr int capture_mode_relaxed = 2;
constexpr unsigned host_memory_portable = 1, host_memory_mapped = 2;

struct LaunchAttribute {
  int id;
  int gap;
  union {
    unsigned cluster[3];
    int programmatic;
    char bytes[64];
  };
};
static_assert(sizeof(LaunchAttribute) == 72);

struct LaunchConfig {
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56 && offsetof(LaunchConfig, stream) == 32);

struct DriverFunctions {
  int (*get_version)(int*);
  int (*get_address)(const char*, void**, int, unsigned long long, int*);
  int (*error_name)(int, const char**);
  int (*error_text)(int, const char**);
  int (*init)(unsigned);
  int (*device_count)(int*);
  int (*device_get)(int*, int);
  int (*device_name)(char*, int, int);
  int (*device_attribute)(int*, int, int);
  int (*retain_primary)(void**, int);
  int (*get_current)(void**);
  int (*set_current)(void*);
  int (*exchange_capture_mode)(int*);
  int (*module_load)(void**, const void*);
  int (*module_unload)(void*);
  int (*module_function)(void**, void*, const char*);
  int (*module_global)(unsigned long long*, size_t*, void*, const char*);
  int (*copy_from_host)(unsigned long long, const void*, size_t, void*);
  int (*copy_on_device)(unsigned long long, unsigned long long, size_t, void*);
  int (*function_attribute)(int*, int, void*);
  int (*set_function_attribute)(void*, int, int);
  int (*clusters_at_once)(int*, void*, const LaunchConfig*);
  int (*launch)(const LaunchConfig*, void*, void**, void**);
  int (*encode_tensor_map)(void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const unsigned*,
                           const unsigned*, int, int, int, int);
  int (*is_capturing)(void*, int*);
  int (*stream_id)(void*, unsigned long long*);
  int (*host_memory)(void**, size_t, unsigned);
  int (*wait_for_context)();
  int (*wait_for_stream)(void*);
};

}  // namespace tile
