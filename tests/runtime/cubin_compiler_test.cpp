// Tests compiling through the disk cache: the contents of the key, and when NVRTC is loaded.
#include "runtime/cubin_compiler.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "driver/fake_cuda/fake_nvrtc.h"
#include "error_text.h"

namespace tile {
namespace {

namespace fs = std::filesystem;

class CubinCompilerTest : public ::testing::Test {
 protected:
  CubinCompilerTest() {
    fs::remove_all(folder);
    GetFakeNvrtc* get = nullptr;
    Library::open(TILE_FAKE_CUDA).require("fake_nvrtc", get, "build it");
    fake = get();
    *fake = {};
  }
  ~CubinCompilerTest() override {
    *fake = {};
    fs::remove_all(folder);
  }
  static NvrtcPaths places() { return {.only = TILE_FAKE_CUDA}; }
  // Compiles as a new process would, which knows only the disk.
  CompileResult compile(const CompileRequest& request, bool* loaded = nullptr) {
    CubinCompiler compiler(cache, places);
    CompileResult result = compiler.compile(request);
    if (loaded) *loaded = compiler.nvrtc_loaded();
    return result;
  }
  bool from_disk(const CompileRequest& request) { return compile(request).from_disk; }

  // Returns the path of a pack of the code of one request.
  std::string pack_of(const CompileRequest& request, bool with_code = true) {
    fake->log = "a log";
    const DiskCache none{{.folder = ""}};
    CubinCompiler compiler(none, places);
    compiler.set_collecting(true);
    compiler.collect(request, compiler.compile(request), with_code);
    std::vector<PackItem> items;
    for (const StoredCubin& stored : compiler.take_collected())
      items.push_back({{.key = stored.key,
                        .size = static_cast<uint32_t>(stored.data.size()),
                        .arch = static_cast<uint32_t>(stored.arch),
                        .cuda = static_cast<uint32_t>(stored.cuda)},
                       stored.data});
    const std::string path = folder.string() + ".pack";
    write_pack(path, std::move(items));
    return path;
  }

  const fs::path folder = fs::path(::testing::TempDir()) / ("cubins_" + std::to_string(getpid()));
  const DiskCache cache{{.folder = folder.string()}};
  FakeNvrtc* fake;
};

TEST_F(CubinCompilerTest, ACachedKernelNeedsNoNvrtc) {
  const CompileRequest request{.source = "text", .arch = 90, .names = {"one", "two"}};
  fake->log = "a warning";
  bool loaded = false;
  const CompileResult first = compile(request, &loaded);
  EXPECT_TRUE(loaded);
  EXPECT_FALSE(first.from_disk);
  EXPECT_EQ(first.cubin, "cubin text");
  const CompileResult second = compile(request, &loaded);
  EXPECT_FALSE(loaded);
  EXPECT_TRUE(second.from_disk);
  EXPECT_GT(second.seconds, 0);
  EXPECT_EQ(second.cubin, first.cubin);
  EXPECT_EQ(second.log, "a warning");
  EXPECT_EQ(second.lowered, request.names);
  EXPECT_EQ(fake->compiled, 1);
}

TEST_F(CubinCompilerTest, TheKeyHoldsAllOfARequest) {
  const CompileRequest requests[] = {
      {.source = "a", .arch = 90},
      {.source = "b", .arch = 90},
      {.source = "a", .arch = 80},
      {.source = "a", .file = "other.cu", .arch = 90},
      {.source = "a", .arch = 90, .headers = {{"h", "t"}}},
      {.source = "a", .arch = 90, .headers = {{"h", "u"}}},
      {.source = "a", .arch = 90, .headers = {{"ht", ""}}},
      {.source = "a", .arch = 90, .options = {"h", "t"}},
      {.source = "a", .arch = 90, .options = {"h"}, .names = {"t"}},
      {.source = "a", .arch = 90, .names = {"h", "t"}},
      {.source = "a", .arch = 90, .names = {"t", "h"}},
  };
  for (const CompileRequest& request : requests) EXPECT_FALSE(from_disk(request));
  for (const CompileRequest& request : requests) EXPECT_TRUE(from_disk(request));
}

TEST_F(CubinCompilerTest, ADamagedEntryIsCompiledAgain) {
  const CompileRequest request{.source = "text", .arch = 90};
  compile(request);
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) fs::resize_file(entry.path(), 80);
  EXPECT_FALSE(from_disk(request));
  EXPECT_TRUE(from_disk(request));
}

TEST_F(CubinCompilerTest, FailuresAreNotKept) {
  const CompileRequest request{.source = "text", .arch = 90};
  fake->code = 6;
  EXPECT_EQ(
      error_of([&] { compile(request); }),
      "kernel.cu: CUDA C++ does not compile for sm_90a: NVRTC_ERROR_OF_THE_FAKE; the log of NVRTC 13.0:\n");
  fake->code = 0;
  EXPECT_FALSE(from_disk(request));
}

TEST_F(CubinCompilerTest, ANewerNvrtcCompilesAgain) {
  static std::string copy;
  static int copies = 0;  // a copy, because a library that is already loaded would not be loaded again
  const std::string name = "nvrtc_copy_" + std::to_string(getpid()) + "_" + std::to_string(++copies);
  copy = (fs::path(::testing::TempDir()) / name).string();
  fs::copy_file(TILE_FAKE_CUDA, copy, fs::copy_options::overwrite_existing);
  const auto compiled = [&](bool* loaded) {
    CubinCompiler compiler(cache, [] { return NvrtcPaths{.only = copy}; });
    const bool disk = compiler.compile({.source = "text", .arch = 90}).from_disk;
    *loaded = compiler.nvrtc_loaded();
    return !disk;
  };
  bool loaded = false;
  EXPECT_TRUE(compiled(&loaded));
  EXPECT_FALSE(compiled(&loaded));
  EXPECT_FALSE(loaded);
  // The same build in another file: its version is asked for, and its cached code is used.
  fs::last_write_time(copy, fs::last_write_time(copy) + std::chrono::hours(1));
  EXPECT_FALSE(compiled(&loaded));
  EXPECT_TRUE(loaded);
  EXPECT_FALSE(compiled(&loaded));
  EXPECT_FALSE(loaded);
  GetFakeNvrtc* get = nullptr;
  Library::open(copy).require("fake_nvrtc", get, "build it");
  get()->minor = 1;
  fs::last_write_time(copy, fs::last_write_time(copy) + std::chrono::hours(1));
  EXPECT_TRUE(compiled(&loaded));
  fs::remove(copy);
}

TEST_F(CubinCompilerTest, WorksWithoutACache) {
  const DiskCache none{{.folder = ""}};
  CubinCompiler compiler(none, places);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(compiler.compile({.source = "text", .arch = 90}).cubin, "cubin text");
  EXPECT_EQ(fake->compiled, 2);
}

TEST_F(CubinCompilerTest, ASecondThreadWaitsForTheFirst) {
  CubinCompiler compiler(cache, places);
  for (const int code : {0, 6}) {
    const CompileRequest request{.source = str("text ", code), .arch = 90};
    fake->code = code;
    std::promise<void> begun;
    fake->compiling = [&] {
      begun.set_value();  // throws if it compiles twice
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    };
    const auto compiled = [&] { return error_of([&] { compiler.compile(request); }); };
    auto first = std::async(std::launch::async, compiled);
    begun.get_future().wait();
    EXPECT_EQ(compiled() == "no error", code == 0);
    EXPECT_EQ(first.get() == "no error", code == 0);
  }
  EXPECT_EQ(fake->compiled, 2);
}

TEST_F(CubinCompilerTest, AMissingNvrtcIsLookedForAgain) {
  static bool there;
  there = false;
  CubinCompiler compiler(cache, [] { return NvrtcPaths{.only = there ? TILE_FAKE_CUDA : "no/libnvrtc.so"}; });
  const std::string error = error_of([&] { compiler.compile({.source = "text", .arch = 90}); });
  EXPECT_EQ(error.substr(0, 27), "TILE_NVRTC=no/libnvrtc.so: ") << error;
  there = true;
  EXPECT_EQ(compiler.compile({.source = "text", .arch = 90}).cubin, "cubin text");
}

TEST_F(CubinCompilerTest, APackNeedsNoNvrtc) {
  const CompileRequest request{.source = "text", .arch = 90, .options = {"-O1"}, .names = {"one"}};
  const CompileRequest others[] = {{.source = "text", .arch = 80, .options = {"-O1"}, .names = {"one"}},
                                   {.source = "texts", .arch = 90, .options = {"-O1"}, .names = {"one"}},
                                   {.source = "text", .arch = 90, .names = {"one"}},
                                   {.source = "text", .arch = 90, .options = {"-O1"}}};
  const std::string pack = pack_of(request);
  const DiskCache none{{.folder = ""}};
  Packs packs;
  packs.add(pack);
  CubinCompiler compiler(
      none, [] { return NvrtcPaths{.only = "no/libnvrtc.so"}; }, &packs);
  const CompileResult found = compiler.compile(request);
  EXPECT_EQ(found.cubin, "cubin text");
  EXPECT_EQ(found.log, "a log");
  EXPECT_EQ(found.lowered, request.names);
  EXPECT_EQ(found.cuda, 13000);
  EXPECT_TRUE(found.from_pack);
  EXPECT_FALSE(found.from_disk);
  EXPECT_FALSE(compiler.nvrtc_loaded());
  for (const CompileRequest& other : others)
    EXPECT_TRUE(error_of([&] { compiler.compile(other); }).starts_with("TILE_NVRTC=no/libnvrtc.so: "));
  compiler.set_driver(12090);
  EXPECT_TRUE(error_of([&] { compiler.compile(request); }).starts_with("TILE_NVRTC=no/libnvrtc.so: "));
  fs::remove(pack);
}

TEST_F(CubinCompilerTest, APackComesBeforeTheDisk) {
  const CompileRequest request{.source = "text", .arch = 90};
  const std::string pack = pack_of(request);
  Packs packs;
  packs.add(pack);
  CubinCompiler compiler(cache, places, &packs);
  EXPECT_TRUE(compiler.compile(request).from_pack);
  EXPECT_FALSE(compile(request).from_disk);
  EXPECT_TRUE(compiler.compile(request).from_pack);
  fs::remove(pack);
}

TEST_F(CubinCompilerTest, ADamagedEntryOfAPackIsCompiledAgain) {
  const CompileRequest request{.source = "text", .arch = 90};
  const std::string pack = pack_of(request);
  std::fstream file(pack, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end).put('?');
  file.close();
  Packs packs;
  packs.add(pack);
  CubinCompiler compiler(cache, places, &packs);
  testing::internal::CaptureStderr();
  const CompileResult made = compiler.compile(request);
  EXPECT_TRUE(
      testing::internal::GetCapturedStderr().starts_with("tile: warning: " + pack + ": the pack is damaged"));
  EXPECT_FALSE(made.from_pack);
  EXPECT_EQ(made.cubin, "cubin text");
  fs::remove(pack);
}

TEST_F(CubinCompilerTest, AnEntryWithoutCodeIsEnoughForTheLog) {
  const CompileRequest request{.source = "text", .arch = 90};
  const std::string pack = pack_of(request, /*with_code=*/false);
  Packs packs;
  packs.add(pack);
  CubinCompiler compiler(cache, places, &packs);
  EXPECT_EQ(compiler.compile(request).log, "a log");
  EXPECT_EQ(compiler.compile(request).cubin, "");
  EXPECT_EQ(compiler.compile(request, nullptr, /*with_code=*/true).cubin, "cubin text");
  fs::remove(pack);
}

TEST_F(CubinCompilerTest, HeadersThatAreNotInTheKeyKeepCodeOutOfPacks) {
  for (const char* option : {"-Ifolder", "-I", "--include-path=folder", "-include=a.h", "--pre-include=a.h"})
    EXPECT_FALSE(is_self_contained({.source = "text", .options = {option}})) << option;
  EXPECT_TRUE(is_self_contained({.source = "text", .options = {"-O1"}, .toolkit_folders = {"include"}}));
  CubinCompiler compiler(cache, places);
  const CompileRequest request{.source = "text", .arch = 90, .options = {"-Ifolder"}};
  compiler.collect(request, compiler.compile(request));
  EXPECT_TRUE(compiler.take_collected().empty());
  ASSERT_EQ(compiler.keys_on_disk().size(), 2u);  // the other is the version of NVRTC
  for (const DiskCache::Key& key : compiler.keys_on_disk())
    if (const auto stored = compiler.on_disk(key)) {
      EXPECT_EQ(stored->arch, 0);
    }
}

TEST_F(CubinCompilerTest, TheDiskSaysWhatItsCodeIs) {
  const CompileRequest request{.source = "text", .arch = 80};
  compile(request);
  CubinCompiler compiler(cache, places);
  int found = 0;
  for (const DiskCache::Key& key : compiler.keys_on_disk())
    if (const auto stored = compiler.on_disk(key)) {
      ++found;
      EXPECT_EQ(stored->key, source_key(request));
      EXPECT_EQ(stored->arch, 80);
      EXPECT_EQ(stored->cuda, 13000);
      EXPECT_EQ(result_from_bytes(stored->data)->cubin, "cubin text");
    }
  EXPECT_EQ(found, 1);
}

TEST(CompileResultBytes, AreReadBackOrRefused) {
  CompileResult result;
  result.cubin = std::string(
      "\0\x7f"
      "ELF",
      5);
  result.lowered = {"", "name"};
  const std::string bytes = to_bytes(result);
  const auto back = result_from_bytes(bytes);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->cubin, result.cubin);
  EXPECT_EQ(back->log, "");
  EXPECT_EQ(back->lowered, result.lowered);
  EXPECT_FALSE(result_from_bytes("").has_value());
  EXPECT_FALSE(result_from_bytes(bytes.substr(0, bytes.size() - 1)).has_value());
  EXPECT_FALSE(result_from_bytes(bytes + "x").has_value());
  EXPECT_FALSE(result_from_bytes(std::string(16, '\xff')).has_value());
}

}  // namespace
}  // namespace tile
