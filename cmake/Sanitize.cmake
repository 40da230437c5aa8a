# TILE_OPS_SANITIZE: the library and the C++ tests under sanitizers; tests/sanitizers/run.py builds and runs them.
if(TILE_OPS_SANITIZE STREQUAL "")
  return()
elseif(NOT TILE_OPS_SANITIZE MATCHES "^(address|thread)$")
  message(FATAL_ERROR "TILE_OPS_SANITIZE is '${TILE_OPS_SANITIZE}'; "
                      "choose address (with undefined) or thread, or leave it empty")
elseif(TILE_OPS_PYTHON_MODULE)
  message(FATAL_ERROR "TILE_OPS_SANITIZE=${TILE_OPS_SANITIZE} with TILE_OPS_PYTHON_MODULE=${TILE_OPS_PYTHON_MODULE}: "
                      "Python itself has no sanitizer; leave the module out")
endif()
if(TILE_OPS_SANITIZE STREQUAL address)
  set(sanitize_options -fsanitize=address,undefined -fno-sanitize-recover=undefined)
else()
  set(sanitize_options -fsanitize=thread)
  add_compile_definitions(TILE_SANITIZE_THREAD)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1 -DNDEBUG")
add_compile_options(${sanitize_options} -fno-omit-frame-pointer)
# Enables the standard library's checks, because an index within a vector's capacity is not a memory error.
add_compile_definitions(_GLIBCXX_ASSERTIONS)
add_link_options(${sanitize_options})
