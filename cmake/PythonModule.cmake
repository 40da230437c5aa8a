# The Python module _C: the only code that includes Python.h and links libtorch_python.
set(Python_EXECUTABLE "${TileOps_PYTHON}")
find_package(Python COMPONENTS Interpreter Development.Module)
if(NOT Python_Development.Module_FOUND AND TILE_OPS_PYTHON_MODULE STREQUAL AUTO)
  return()
endif()
file(GLOB module_sources CONFIGURE_DEPENDS csrc/python/*.cpp)
python_add_library(tile_ops_module MODULE WITH_SOABI ${module_sources})
target_include_directories(tile_ops_module PRIVATE csrc)
target_link_libraries(tile_ops_module PRIVATE tile_ops TileOps::torch "${TileOps_TORCH_ROOT}/lib/libtorch_python.so")
set_target_properties(
  tile_ops_module PROPERTIES OUTPUT_NAME _C INSTALL_RPATH "$ORIGIN/lib;$ORIGIN/../torch/lib" CXX_VISIBILITY_PRESET hidden)
install(TARGETS tile_ops_module LIBRARY DESTINATION .)
