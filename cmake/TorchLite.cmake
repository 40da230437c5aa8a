# The target TileOps::torch: the headers, libtorch_cpu and libc10 of an installed torch, and nothing else.
# find_package(Torch) of a CUDA build demands a CUDA toolkit; this works for every wheel and LibTorch archive.
# Search order: TORCH_ROOT, the torch of TileOps_PYTHON, CMAKE_PREFIX_PATH (torch/share/cmake or a LibTorch folder).
include_guard(GLOBAL)

if(NOT TORCH_ROOT AND TileOps_PYTHON)
  execute_process(
    COMMAND ${TileOps_PYTHON} -c
            "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE torch_root OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT torch_root)
    message(FATAL_ERROR "${TileOps_PYTHON} has no torch; install it (pip install torch) or pass -DTORCH_ROOT=<folder>")
  endif()
elseif(NOT TORCH_ROOT)
  find_path(TileOps_TORCH_CONFIG TorchConfig.cmake PATH_SUFFIXES Torch share/cmake/Torch)
  if(NOT TileOps_TORCH_CONFIG)
    message(FATAL_ERROR "no torch found; pass -DTORCH_ROOT=<folder of torch>, or -DTileOps_PYTHON=<python that has torch>")
  endif()
  get_filename_component(torch_root "${TileOps_TORCH_CONFIG}/../../.." ABSOLUTE)
else()
  set(torch_root "${TORCH_ROOT}")
endif()

# The version number is in different headers of different torch versions, so the first header that has it is used.
set(TileOps_TORCH_VERSION "")
foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
  if(NOT TileOps_TORCH_VERSION AND EXISTS "${torch_root}/include/${header}")
    file(READ "${torch_root}/include/${header}" text)
    if(text MATCHES "TORCH_VERSION_MAJOR ([0-9]+).*TORCH_VERSION_MINOR ([0-9]+).*TORCH_VERSION_PATCH ([0-9]+)")
      set(TileOps_TORCH_VERSION "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3}")
    endif()
  endif()
endforeach()
if(NOT TileOps_TORCH_VERSION)
  message(FATAL_ERROR "${torch_root} holds no torch with headers; pass -DTORCH_ROOT=<folder that has include/ and lib/>")
endif()
set(TileOps_TORCH_ROOT "${torch_root}")

add_library(TileOps::torch INTERFACE IMPORTED)
target_include_directories(
  TileOps::torch SYSTEM INTERFACE "${torch_root}/include" "${torch_root}/include/torch/csrc/api/include")
target_link_libraries(TileOps::torch INTERFACE "${torch_root}/lib/libtorch_cpu.so" "${torch_root}/lib/libc10.so")
target_compile_features(TileOps::torch INTERFACE cxx_std_20)
# With a compiler that only has a static C++ library, each of our libraries contains a copy. If two copies are visible,
# they mix with torch's copy and crash.
target_link_options(TileOps::torch INTERFACE "$<$<PLATFORM_ID:Linux>:LINKER:--exclude-libs,libstdc++.a>")
