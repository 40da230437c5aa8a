// Tests NVRTC: real compiles without a GPU, and the exact text of every error.
#include "driver/nvrtc.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "driver/compile_log.h"
#include "driver/fake_cuda/fake_nvrtc.h"
#include "error_text.h"

namespace tile {
namespace {

const std::string saxpy = R"(extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
)";

// tests/requirements.txt installs NVRTC; a torch for CUDA includes it.
const Nvrtc& nvrtc() {
  static const Nvrtc found([] {
    NvrtcPaths places;
    for (const char* folder : {"/nvidia/cuda_nvrtc/lib", "/nvidia/cu13/lib"})
      places.folders.push_back(std::string(TILE_TEST_PACKAGES) + folder);
    return places;
  }());
  return found;
}

std::string compile_error(const CompileRequest& request) {
  return error_of([&] { nvrtc().compile(request); });
}

FakeNvrtc& fake() {
  GetFakeNvrtc* get = nullptr;
  Library::open(TILE_FAKE_CUDA).require("fake_nvrtc", get, "build it");
  return *get();
}

TEST(Nvrtc, CompilesSaxpyForEveryArchItKnows) {
  EXPECT_EQ(nvrtc().architecture(80), "sm_80");
  EXPECT_EQ(nvrtc().architecture(89), "sm_89");
  EXPECT_EQ(nvrtc().architecture(90), "sm_90a");
  for (const int arch : nvrtc().archs()) {
    if (arch < 80) continue;  // some versions warn that these are deprecated
    const CompileResult result = nvrtc().compile({.source = saxpy, .arch = arch});
    EXPECT_EQ(result.cubin.substr(0, 4),
              "\x7f"
              "ELF")
        << arch;
    EXPECT_NE(result.cubin.find(".text.saxpy"), std::string::npos) << arch;
    EXPECT_EQ(result.log, "");
    EXPECT_GT(result.seconds, 0);
    EXPECT_FALSE(result.from_disk);
  }
}

// The suffix of sm_90a allows these; code for sm_90 could not have them.
TEST(Nvrtc, InstructionsOfOneChipCompileForIt) {
  const std::string text = R"(__global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); })";
  EXPECT_NE(nvrtc().compile({.source = text, .arch = 90}).cubin, "");
  EXPECT_NE(compile_error({.source = text, .arch = 89}), "no error");
}

TEST(Nvrtc, HeadersOptionsAndNames) {
  const CompileResult result = nvrtc().compile(
      {.source = "#include \"lib/scale.h\"\n"
                 "template <class T, int N> __global__ void scale(T* x) { x[threadIdx.x] *= by<T>() * N; }",
       .arch = 90,
       .headers = {{"lib/scale.h", "template <class T> __device__ T by() { return T(FACTOR); }"}},
       .options = {"-DFACTOR=3", "--std=c++20"},
       .names = {"scale<float, 4>", "&scale<double, 1 + 1>"}});
  EXPECT_EQ(result.lowered, (std::vector<std::string>{"_Z5scaleIfLi4EEvPT_", "_Z5scaleIdLi2EEvPT_"}));
  for (const std::string& symbol : result.lowered)
    EXPECT_NE(result.cubin.find(".text." + symbol), std::string::npos) << symbol;
}

TEST(Nvrtc, AMinimalCompileGivesTheSameCode) {
  const auto cubin = [](bool minimal) {
    return nvrtc().compile({.source = saxpy, .arch = 90, .minimal = minimal}).cubin;
  };
  EXPECT_EQ(cubin(true), cubin(false));
}

TEST(Nvrtc, WarningsStandInTheLog) {
  const CompileResult result =
      nvrtc().compile({.source = "#line 5 \"user.py\"\n__global__ void k() { int unused; }", .arch = 80});
  EXPECT_EQ(result.log.substr(0, 80),
            "user.py(5): warning #177-D: variable \"unused\" was declared but never referenced\n");
}

TEST(Nvrtc, ATextThatDoesNotCompileNamesTheUsersLine) {
  const std::string text = "#line 12 \"some/folder/user.py\"\n" + saxpy;
  std::string wrong = text;
  wrong.replace(wrong.find("a * x"), 1, "b");
  EXPECT_EQ(
      compile_error({.source = wrong, .arch = 90}),
      "user.py:14: CUDA C++ does not compile for sm_90a: identifier \"b\" is undefined; the log of NVRTC " +
          nvrtc().version() +
          ":\n"
          "some/folder/user.py(14): error: identifier \"b\" is undefined\n"
          "    if (i < n) y[i] = b * x[i] + y[i];\n"
          "                      ^\n\n"
          "1 error detected in the compilation of \"kernel.cu\".");
  const std::string header =
      compile_error({.source = "#include \"none.h\"", .file = "folder/first.cu", .arch = 80});
  EXPECT_EQ(header.substr(0, header.find('\n')),
            "first.cu:1: CUDA C++ does not compile for sm_80: cannot open source file \"none.h\"; the log of "
            "NVRTC " +
                nvrtc().version() + ":");
}

TEST(Nvrtc, ErrorsOfTheAssemblerAndOfOptionsNameNoLine) {
  const std::string log = "; the log of NVRTC " + nvrtc().version() + ":\n";
  EXPECT_EQ(compile_error(
                {.source = "__global__ void k() { asm volatile(\"bogus;\"); }", .file = "k.cu", .arch = 80})
                .substr(0, 84),
            "k.cu: CUDA C++ does not compile for sm_80: Not a name of any known instruction: 'bog");
  EXPECT_EQ(compile_error({.source = saxpy, .file = "k.cu", .arch = 80, .options = {"-nope"}}),
            "k.cu: CUDA C++ does not compile for sm_80: unrecognized option -nope found" + log +
                "nvrtc: error: unrecognized option -nope found");
  const std::string name =
      compile_error({.source = saxpy, .file = "k.cu", .arch = 80, .names = {"nothing<int>"}});
  EXPECT_NE(name.find("CUDA C++ does not compile for sm_80: "), std::string::npos) << name;
  EXPECT_NE(name.find("nothing"), std::string::npos) << name;
}

TEST(Nvrtc, AZeroByteWouldEndTheText) {
  EXPECT_EQ(compile_error({.source = saxpy + '\0' + saxpy, .file = "k.cu", .arch = 80}),
            "k.cu: byte " + std::to_string(saxpy.size()) + " of the CUDA C++ source is 0; remove it");
}

TEST(Nvrtc, UnknownArchs) {
  const std::string knows = ": it knows sm_" + std::to_string(nvrtc().archs().front()) + " to sm_" +
                            std::to_string(nvrtc().archs().back()) + "; ";
  const std::string cannot = "NVRTC " + nvrtc().version() + " cannot compile for sm_";
  EXPECT_EQ(compile_error({.source = saxpy, .arch = 999}),
            cannot + "999" + knows + "install a newer one with `pip install -U nvidia-cuda-nvrtc`");
  EXPECT_EQ(compile_error({.source = saxpy, .arch = 35}), cannot + "35" + knows + "use a GPU that it knows");
}

TEST(Nvrtc, SeveralThreadsCompileAtOnce) {
  std::vector<std::string> cubins(6);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < cubins.size(); ++i)
    threads.emplace_back(
        [&, i] { cubins[i] = nvrtc().compile({.source = saxpy, .arch = i % 2 ? 80 : 90}).cubin; });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 2; i < cubins.size(); ++i) EXPECT_EQ(cubins[i], cubins[i % 2]);
  EXPECT_NE(cubins[0], cubins[1]);
}

TEST(Nvrtc, SaysWhyItIsNotFound) {
  const std::string start = "no NVRTC, CUDA's run-time compiler, of version 12.3 or newer is found (";
  const std::string fix = "); install one with `pip install nvidia-cuda-nvrtc` or set TILE_NVRTC to its file";
  const std::string absent = ": cannot open shared object file: No such file or directory";
  EXPECT_EQ(error_of([] {
              Nvrtc nothing({.folders = {"no/such/folder"}, .libraries = {"libnone.so.13", "libnone.so.12"}});
            }),
            start + "libnone.so.13" + absent + ", libnone.so.12" + absent + fix);
  fake().major = 12;
  fake().minor = 1;
  const std::string libc = Library::open("libc.so.6").path();
  EXPECT_EQ(error_of([] {
              Nvrtc old({.libraries = {TILE_FAKE_CUDA, "libc.so.6"}});
            }),
            start + TILE_FAKE_CUDA + " is version 12.1, " + libc + " has no function nvrtcVersion" + fix);
  EXPECT_EQ(error_of([] { Nvrtc old({.only = TILE_FAKE_CUDA}); }),
            "TILE_NVRTC=" TILE_FAKE_CUDA ": " TILE_FAKE_CUDA
            " is version 12.1; unset it, or set it to the file or the folder of NVRTC 12.3 or newer");
  EXPECT_EQ(error_of([] { Nvrtc none({.only = "/proc"}); }),
            "TILE_NVRTC=/proc: it holds no libnvrtc.so; unset it, or set it to the file or the folder of "
            "NVRTC 12.3 or "
            "newer");
  fake() = {};
}

TEST(Nvrtc, MissingBuiltins) {
  fake().code = 7;
  const Nvrtc broken({.only = TILE_FAKE_CUDA});
  EXPECT_EQ(
      error_of([&] { broken.compile({.source = saxpy, .arch = 80}); }), TILE_FAKE_CUDA
      " cannot open libnvrtc-builtins.so.13.0, which belongs in its folder; repair it with `pip install "
      "--force-reinstall nvidia-cuda-nvrtc`");
  fake().code = 6;
  EXPECT_EQ(
      error_of([&] { broken.compile({.source = saxpy, .arch = 80}); }),
      "kernel.cu: CUDA C++ does not compile for sm_80: NVRTC_ERROR_OF_THE_FAKE; the log of NVRTC 13.0:\n");
  fake() = {};
}

TEST(NvrtcPaths, OrderOfCandidates) {
  const auto folder =
      std::filesystem::path(::testing::TempDir()) / ("nvrtc_paths_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  for (const char* name :
       {"libnvrtc.so.9", "libnvrtc.so.12", "libnvrtc.alt.so.13", "libnvrtc.so.13.0.88", "libnvrtc.so"})
    std::ofstream(folder / name);
  const std::string newest = (folder / "libnvrtc.so.12").string();
  NvrtcPaths places{.folders = {"no/such/folder", folder.string()}, .libraries = {"libnvrtc.so.13"}};
  EXPECT_EQ(places.candidates(), (std::vector<std::string>{newest, "libnvrtc.so.13"}));
  places.only = folder.string();
  EXPECT_EQ(places.candidates(), std::vector<std::string>{newest});
  places.only = "some/libnvrtc.so";
  EXPECT_EQ(places.candidates(), std::vector<std::string>{"some/libnvrtc.so"});
  std::filesystem::remove_all(folder);

  setenv("TILE_NVRTC", "some/libnvrtc.so", 1);
  EXPECT_EQ(nvrtc_paths().only, "some/libnvrtc.so");
  unsetenv("TILE_NVRTC");
  set_nvrtc_folders([] { return std::vector<std::string>{"wheel"}; });
  unsetenv("CUDA_PATH");
  setenv("CUDA_HOME", "toolkit", 1);
  EXPECT_EQ(nvrtc_paths().folders, (std::vector<std::string>{"wheel", "toolkit/lib64"}));
  unsetenv("CUDA_HOME");
  set_nvrtc_folders(nullptr);
}

TEST(CompileLog, FirstError) {
  const auto read = [](const std::string& log) {
    const LogError error = first_error(log);
    return error.file + "|" + std::to_string(error.line) + "|" + error.message;
  };
  EXPECT_EQ(read(""), "|0|");
  EXPECT_EQ(read("a.py(3): warning #177-D: error is declared\n  printf(\"error: none\")\n"), "|0|");
  EXPECT_EQ(read("a.py(3): warning: w\na (1).py(12): error: first\nb.py(1): error: second"),
            "a (1).py|12|first");
  EXPECT_EQ(read("a.py(3): error #20-D: numbered\r\n"), "a.py|3|numbered");
  EXPECT_EQ(read("a.py(3): catastrophic error: end"), "a.py|3|end");
  EXPECT_EQ(read("ptxas application ptx input, line 27; error   : Bad 'x'\nptxas fatal   : aborted"),
            "|0|Bad 'x'");
  EXPECT_EQ(read("ptxas fatal   : Unresolved extern function 'f'"), "|0|Unresolved extern function 'f'");
  EXPECT_EQ(read("Command-line error: no such chip"), "|0|no such chip");
}

}  // namespace
}  // namespace tile
