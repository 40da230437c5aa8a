"""Tests that tile operations outside of kernels never abort a process during loading: they warn, and raise at their use."""

import subprocess
import sys

import pytest
from cmake_project import cmake, configured, run

pytestmark = pytest.mark.slow  # builds with CMake

# Every line runs while the library or the program is loaded.
OUTSIDE = """
#include <tile/op.h>
using namespace tile;
Tile literal = 3;                                    // MADE
Tile nothing;
Tile block = bid(0);
Tile computed = exp(arange(8).astype(f32)) * literal.astype(f32) + block.astype(f32) * 2.0;
Tile copied = computed;
const int loop = [] {
  Tile sum = 0;
  for (Tile i : range(4)) sum += i;
  when(sum > 2, [&] { sum = 1; }, [&] { sum = 0; });
  while_loop([&] { return sum < 9; }, [&] { sum += 1; });
  return 0;
}();
const auto unparsed = op("scope::unparsed(Tensor x -> Tensor");
const auto untyped = op("scope::untyped(Tensor x) -> Tensor").outputs([](int64_t) { return at::Tensor(); });

template <Tile* tile>
void kernel(Array out) {
  out.tiled_view({8}).store({bid(0)}, tile->astype(f32));  // USE
}
void assigning(Array) { literal = bid(0); }          // ASSIGNED
Kernel uses_literal("uses_literal", kernel<&literal>), uses_copied("uses_copied", kernel<&copied>),
    uses_nothing("uses_nothing", kernel<&nothing>), assigns("assigns", assigning);
template <class K>
Operator defined(const char* name, K& used) {
  return op(std::string("scope::") + name + "(Tensor x) -> Tensor out")
      .outputs([](const at::Tensor& x) { return at::empty_like(x); })
      .run([&used](const at::Tensor&, at::Tensor& out) { used.launch({1}, out); });
}
const Operator operators[] = {defined("literal", uses_literal), defined("copied", uses_copied),
                              defined("nothing", uses_nothing), defined("assigns", assigns)};
const Operator never = op("scope::throws(Tensor x) -> Tensor out")
                           .outputs([](const at::Tensor& x) { return at::empty_like(x); })
                           .run([](const at::Tensor&, at::Tensor&) { bid(0); });  // RUN
"""
MAIN = """
#include <ATen/core/dispatch/Dispatcher.h>
#include <cstdio>
void use(const std::function<void()>& use) {
  try {
    use();
  } catch (const c10::Error& error) {
    std::printf("%s\\n", error.what_without_backtrace());
  }
}
int main() {
  use([] { unparsed.call(at::empty({2})); });
  use([] {
    std::vector<c10::IValue> stack{at::empty({2})};
    c10::Dispatcher::singleton().findSchemaOrThrow("scope::unparsed", "").callBoxed(&stack);
  });
  for (const std::string& text : registration_errors()) std::printf("%s\\n", text.c_str());
  bid(1);  // nobody catches it
  try {
    bid(2);
  } catch (const std::exception& error) {
    std::printf("caught %s\\n", error.what());
  }
}
"""
LISTS = """
cmake_minimum_required(VERSION 3.22)
project(Outside LANGUAGES CXX)
find_package(TileOps REQUIRED)
tile_ops_add_library(outside outside.cpp)
add_executable(program program.cpp)
target_link_libraries(program PRIVATE TileOps::tile_ops)
"""
WARNING = "a tile operation is used outside of any kernel, where nothing is traced; move it into the kernel that uses it"
UNPARSED = "op: the schema 'scope::unparsed(Tensor x -> Tensor' does not parse: expected ) but found 'arrow' here; write it"
PYTHON = """
import sys, torch, tile_ops
torch.ops.load_library(sys.argv[1])
x = torch.zeros(8)
for name in ("literal", "copied", "nothing", "assigns", "throws", "unparsed", "untyped"):
    try:
        getattr(torch.ops.scope, name)(x)
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}")
print(*tile_ops._C.registration_errors(), sep="\\n")
tile_ops.doctor()
"""


def line_of(mark):
    return next(number for number, line in enumerate(OUTSIDE.splitlines(), 1) if line.endswith(f"// {mark}"))


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outside")
    (folder / "outside.cpp").write_text(OUTSIDE)
    (folder / "program.cpp").write_text(OUTSIDE + MAIN)
    code, text = configured(folder, LISTS)
    assert code == 0, text
    code, text = cmake("--build", folder / "build")
    assert code == 0, text
    return folder / "build"


def test_a_library_that_python_loads(build):
    done = subprocess.run([sys.executable, "-c", PYTHON, build / "liboutside.so"], capture_output=True, text=True)
    out, made = done.stdout, f"outside.cpp:{line_of('MADE')}"
    assert done.returncode == 0, out + done.stderr
    assert f"tile: warning: {made}: {WARNING}\n" in done.stderr
    use, again = f"outside.cpp:{line_of('USE')}", "make it inside the kernel that uses it"
    outside = f"{use}: this Tile was made outside of any kernel"
    assert f"literal: RuntimeError: scope::literal: {outside} (made at {made}); {again}\n" in out
    assert f"copied: RuntimeError: scope::copied: {outside} (made at outside.cpp:" in out
    assert f"nothing: RuntimeError: scope::nothing: {outside}; {again}\n" in out
    assert "assigns: RuntimeError: scope::assigns: outside.cpp:" in out and out.count(f"(made at {made}); {again}") == 2
    assert (
        f"throws: RuntimeError: scope::throws: outside.cpp:{line_of('RUN')}: a tile operation was used outside a kernel; "
        "it runs only while a kernel is traced\n"
    ) in out
    assert f"unparsed: ValueError: scope::unparsed: {UNPARSED}" in out
    assert "untyped: TypeError: scope::untyped: outputs takes int64_t as parameter 1, but 'x' is Tensor in the schema" in out
    assert f"\n{made}: {WARNING}\n" in out and f"WRONG  operators  {made}: {WARNING}\n" in out


def test_a_program(build):
    code, text = run(build / "program")
    assert code == 0, text
    assert text.count(f"scope::unparsed: {UNPARSED}") == 2
    made = f"program.cpp:{line_of('MADE')}: {WARNING}\n"
    assert f"tile: warning: {made}" in text and f"\n{made}" in text
    last = len(OUTSIDE.splitlines()) + MAIN.splitlines().index("    bid(2);") + 1
    assert f"tile: warning: program.cpp:{last - 2}: {WARNING}\n" in text
    assert text.endswith(
        f"caught program.cpp:{last}: a tile operation was used outside a kernel; it runs only while a kernel is traced\n"
    )
