"""Tests that tile_ops_add_library makes the linker keep a library whose operators a program calls only by name."""

import pytest
from cmake_project import cmake, configured, run

pytestmark = pytest.mark.slow  # builds with CMake

KERNELS = """
#include <tile/op.h>
namespace {
using namespace tile;
void twice_kernel(Array x, Array out) {
  out.tiled_view({1024}).store({bid(0)}, x.tiled_view({1024}).load({bid(0)}) * 2.0);
}
Kernel twice("twice", twice_kernel);
const auto twice_ = op("mine::twice(Tensor x) -> Tensor out")
                        .outputs([](const at::Tensor& x) { return at::empty_like(x); })
                        .run([](const at::Tensor& x, at::Tensor& out) {
                          twice.launch({ceil_div(x.numel(), 1024)}, x, out);
                        });
}  // namespace
"""
# It calls the operator by name, so it refers to no symbol of the library.
MAIN = """
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/full.h>
#include <cstdio>
int main() try {
  const auto twice = c10::Dispatcher::singleton().findSchemaOrThrow("mine::twice", "");
  const at::Tensor x = at::full({3}, 21.0, at::kFloat);
  std::printf("%g\\n", twice.typed<at::Tensor(const at::Tensor&)>().call(x).data_ptr<float>()[2]);
} catch (const std::exception& error) {
  std::printf("%s\\n", error.what());
  return 1;
}
"""
LISTS = """
cmake_minimum_required(VERSION 3.22)
project(User LANGUAGES CXX)
find_package(TileOps REQUIRED)
add_library(objects OBJECT kernels.cpp)
target_link_libraries(objects PRIVATE TileOps::tile_ops)
set_target_properties(objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
add_library(main_object OBJECT main.cpp)
target_link_libraries(main_object PRIVATE TileOps::tile_ops)

tile_ops_add_library(shared_kernels $<TARGET_OBJECTS:objects>)
tile_ops_add_library(static_kernels STATIC $<TARGET_OBJECTS:objects>)
add_library(plain_kernels SHARED $<TARGET_OBJECTS:objects>)
target_link_libraries(plain_kernels PUBLIC TileOps::tile_ops)
set_target_properties(shared_kernels static_kernels plain_kernels PROPERTIES LINKER_LANGUAGE CXX)
foreach(kind shared static plain)
  add_executable(${kind} $<TARGET_OBJECTS:main_object>)
  target_link_libraries(${kind} PRIVATE ${kind}_kernels TileOps::tile_ops)
endforeach()
install(TARGETS shared_kernels static_kernels EXPORT kernels LIBRARY DESTINATION lib ARCHIVE DESTINATION lib)
install(EXPORT kernels NAMESPACE User:: DESTINATION share)
"""
OTHER = """
cmake_minimum_required(VERSION 3.22)
project(Other LANGUAGES CXX)
find_package(TileOps REQUIRED)
include({prefix}/share/kernels.cmake)
foreach(kind shared static)
  add_executable(${{kind}} {main})
  set_target_properties(${{kind}} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${{kind}} PRIVATE User::${{kind}}_kernels)
endforeach()
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("user")
    (folder / "kernels.cpp").write_text(KERNELS)
    (folder / "main.cpp").write_text(MAIN)
    code, text = configured(folder, LISTS, f"-DCMAKE_INSTALL_PREFIX={folder / 'installed'}")
    assert code == 0, text
    code, text = cmake("--build", folder / "build")
    assert code == 0, text
    return folder


@pytest.mark.parametrize("kind", ["shared", "static"])
def test_a_program_has_the_operators(project, kind):
    assert run(project / "build" / kind) == (0, "42\n")


def test_a_plain_library_is_dropped(project):
    """Tests that the linker drops a library without the helper, since otherwise the other tests would prove nothing."""
    code, text = run(project / "build" / "plain")
    assert code == 1 and text.startswith("Could not find schema for mine::twice"), text


def test_an_installed_library_is_kept(project, tmp_path):
    code, text = cmake("--install", project / "build")
    assert code == 0, text
    main = next((project / "build").rglob("main.cpp.o"))
    code, text = configured(tmp_path, OTHER.format(prefix=project / "installed", main=main))
    assert code == 0, text
    code, text = cmake("--build", tmp_path / "build")
    assert code == 0, text
    assert [run(tmp_path / "build" / kind) for kind in ("shared", "static")] == [(0, "42\n")] * 2


@pytest.mark.parametrize(
    "call, said",
    [
        ("tile_ops_add_library(kernels MODULE a.cpp)",
         "tile_ops_add_library(kernels MODULE …): the type must be SHARED, the default, or STATIC; use add_library and link "
         "TileOps::tile_ops for another type"),
        ("tile_ops_add_library(kernels)",
         "tile_ops_add_library(kernels): no source is given; name the files with kernels and operators"),
        ("tile_ops_add_library(kernels STATIC)",
         "tile_ops_add_library(kernels): no source is given; name the files with kernels and operators"),
    ],
)  # fmt: skip
def test_wrong_calls(tmp_path, call, said):
    lists = "cmake_minimum_required(VERSION 3.22)\nproject(Wrong LANGUAGES CXX)\nfind_package(TileOps REQUIRED)\n"
    code, text = configured(tmp_path, lists + call)
    assert code != 0 and said in " ".join(text.split()), text
