// Tests records of kernels: a kernel compiled from its record has the source that the program asks for.
#include "runtime/kernel_record.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "driver/fake_cuda/fake_nvrtc.h"
#include "error_text.h"
#include "ir/print.h"
#include "runtime/gpu_code.h"
#include "runtime/inspection.h"

namespace tile {
namespace {

namespace fs = std::filesystem;

constexpr const char* copy_text = R"(kernel copy(%x: array<f32,1>, %y: array<f32,1>, %i: i32) {
  %t: f32[4] = load %x, %i {pad=0.0, shape=[4], steps=[4]}  // copy.py:12:5
  %s: f32[4] = exp %t  // copy.py:13
  store %y, %s, %i {steps=[4]}  // copy.py:14:3
})";

class KernelRecordTest : public ::testing::Test {
 protected:
  KernelRecordTest() {
    fs::remove(path);
    GetFakeNvrtc* get = nullptr;
    Library::open(TILE_FAKE_CUDA).require("fake_nvrtc", get, "build it");
    *get() = {};
  }
  ~KernelRecordTest() override {
    record_kernels_in("");
    fs::remove(path);
  }
  std::set<Sha256::Digest> taken() {
    std::set<Sha256::Digest> keys;
    for (const StoredCubin& stored : compiler.take_collected()) keys.insert(stored.key);
    return keys;
  }
  void ask(int arch) {
    compile_for_gpu(parse(copy_text), {"copy", {"copy.py", 11}}, target_of_arch(arch), compiler);
  }

  const std::string path = ::testing::TempDir() + "/record_" + std::to_string(getpid());
  const DiskCache none{{.folder = ""}};
  CubinCompiler compiler{none, [] { return NvrtcPaths{.only = TILE_FAKE_CUDA}; }};
};

TEST_F(KernelRecordTest, CompilesWhatTheProgramAsksFor) {
  record_kernels_in(path);
  ask(90);
  ask(90);
  record_kernels_in("");
  ask(80);  // is not recorded
  const std::vector<RecordedKernel> kernels = recorded_kernels(path);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].name, "copy");
  EXPECT_EQ(kernels[0].arch, 90);
  compiler.set_collecting(true);
  for (const int arch : {90, 80}) {
    ask(arch);
    const auto asked = taken();
    compile_recorded(kernels[0], arch, compiler);
    EXPECT_EQ(taken(), asked) << arch;
    EXPECT_EQ(asked.size(), 1u);
  }
}

TEST_F(KernelRecordTest, KeepsCudaSources) {
  const CompileRequest request{.source = "text",
                               .file = "a.cu",
                               .arch = 90,
                               .headers = {{"h", "t"}, {"i", ""}},
                               .options = {"-O1"},
                               .names = {"one", "two"}};
  record_kernels_in(path);
  record_kernel(request);
  record_kernel(CompileRequest{.source = "text", .arch = 90, .options = {"-Ifolder"}});
  const std::vector<RecordedKernel> kernels = recorded_kernels(path);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(source_key(kernels[0].request), source_key(request));
  compiler.set_collecting(true);
  compile_recorded(kernels[0], 80, compiler);
  CompileRequest other = request;
  other.arch = 80;
  EXPECT_EQ(taken(), (std::set<Sha256::Digest>{source_key(other)}));
}

TEST_F(KernelRecordTest, ADamagedRecordIsRefused) {
  const std::string text =
      ": the record cannot be read: No such file or directory; give the file that TILE_RECORD named";
  EXPECT_EQ(error_of([&] { recorded_kernels(path); }), path + text);
  record_kernels_in(path);
  ask(90);
  std::ifstream file(path, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(file), {}};
  const std::string damaged =
      path + ": byte 0 of the record of kernels is damaged, or it is another file; record it again";
  for (size_t size = 1; size < good.size(); size += 7) {
    std::ofstream(path, std::ios::binary) << good.substr(0, size);
    EXPECT_EQ(error_of([&] { recorded_kernels(path); }), damaged);
  }
  std::ofstream(path, std::ios::binary) << good << good;
  EXPECT_EQ(recorded_kernels(path).size(), 1u);
  EXPECT_FALSE(recorded_kernel("").has_value());
  EXPECT_FALSE(recorded_kernel(std::string(40, '\xff')).has_value());
}

TEST_F(KernelRecordTest, AFolderThatCannotBeWrittenWarns) {
  const std::string wrong = path + "/no/record";
  record_kernels_in(wrong);
  testing::internal::CaptureStderr();
  ask(90);
  ask(80);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "tile: warning: " + wrong +
                ": kernels cannot be recorded: No such file or directory; set TILE_RECORD to a "
                "file in a folder that can be written\n");
}

}  // namespace
}  // namespace tile
