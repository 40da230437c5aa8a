# Installed files, with the same layout under a C++ prefix and inside the Python package: lib/, include/tile_ops/,
# share/.
include(CMakePackageConfigHelpers)
set(config_dir share/cmake/TileOps)
configure_package_config_file(
  cmake/TileOpsConfig.cmake.in TileOpsConfig.cmake INSTALL_DESTINATION ${config_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(TileOpsConfigVersion.cmake COMPATIBILITY SameMinorVersion)
# The Python package reads this file and compares it with the installed torch.
file(CONFIGURE OUTPUT torch_version.txt CONTENT "@TileOps_TORCH_VERSION@\n" @ONLY)

install(TARGETS tile_ops LIBRARY DESTINATION lib)
install(FILES ${PROJECT_BINARY_DIR}/torch_version.txt DESTINATION lib)
install(DIRECTORY csrc/ DESTINATION include/tile_ops FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN "isa" EXCLUDE
        PATTERN "csrc/python" EXCLUDE)
install(FILES ${PROJECT_BINARY_DIR}/TileOpsConfig.cmake ${PROJECT_BINARY_DIR}/TileOpsConfigVersion.cmake
              cmake/TorchLite.cmake DESTINATION ${config_dir})
