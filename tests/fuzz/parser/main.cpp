// Runs the target where there is no libFuzzer: on files, or on changes of a corpus, in a process that may
// die.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "ir/primitive.h"
#include "memory.h"
#include "mutate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;
constexpr size_t longest = size_t{1} << 20;  // bytes of a text
constexpr size_t memory_of_case = size_t{1} << 28;
constexpr double seconds_of_case = 2;  // of the processor
constexpr size_t most_failures = 10;

struct Options {
  double seconds = 0;
  uint64_t runs = 0, seed = 1;
  fs::path corpus, failures = ".";
  std::vector<fs::path> files;
};

// Holds what the process that may die leaves behind.
struct Shared {
  volatile uint64_t number;  // of the case that runs
  volatile uint64_t size;
  char text[longest];
};

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) std::fprintf(stderr, "cannot read %s\n", path.c_str()), std::exit(2);
  return {std::istreambuf_iterator<char>(file), {}};
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double processor_seconds(pid_t process) {
  clockid_t clock;
  timespec time{};
  if (clock_getcpuclockid(process, &clock) || clock_gettime(clock, &time)) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class Runner {
 public:
  Runner(Options options, std::function<std::string(uint64_t)> text)
      : options_(std::move(options)), text_(std::move(text)) {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::perror("mmap"), std::exit(2);
    shared_ = static_cast<Shared*>(memory);
  }

  int run(uint64_t first, uint64_t end) {
    const double start = now();
    uint64_t next = first;
    while (next < end && failures_ < most_failures) {
      const std::string reason = watch(next, end, start);
      if (reason.empty()) {
        next = shared_->number + 1;
        break;
      }
      keep(reason);
      next = shared_->number + 1;
    }
    std::printf("%llu texts in %.1f s, %zu failures\n", static_cast<unsigned long long>(next - first),
                now() - start, failures_);
    return failures_ ? 1 : 0;
  }

 private:
  [[noreturn]] void work(uint64_t next, uint64_t end, double start) {
    for (; next < end; ++next) {
      const std::string text = text_(next).substr(0, longest);
      std::memcpy(shared_->text, text.data(), text.size());
      shared_->size = text.size();
      shared_->number = next;
      fuzz::limit_memory(memory_of_case);
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
      fuzz::limit_memory(0);
      if (options_.seconds > 0 && now() - start > options_.seconds) break;
    }
    std::fflush(nullptr);
    _exit(0);
  }

  // Why a process ended that runs these texts; empty: they are done.
  std::string watch(uint64_t next, uint64_t end, double start) {
    shared_->number = next;
    shared_->size = 0;
    const pid_t worker = fork();
    if (worker == 0) work(next, end, start);
    uint64_t seen = next;
    double used = 0;
    for (int status = 0;; usleep(5000)) {
      const pid_t ended = waitpid(worker, &status, WNOHANG);
      if (ended == worker)
        return WIFSIGNALED(status)   ? std::string("signal ") + strsignal(WTERMSIG(status))
               : WEXITSTATUS(status) ? "exit status " + std::to_string(WEXITSTATUS(status))
                                     : "";
      const double spent = processor_seconds(worker);
      if (shared_->number != seen) seen = shared_->number, used = spent;
      if (spent - used > seconds_of_case) {
        kill(worker, SIGKILL);
        waitpid(worker, &status, 0);
        return "it takes longer than 2 s";
      }
    }
  }

  void keep(const std::string& reason) {
    ++failures_;
    const std::string text(shared_->text, shared_->size);
    fs::path path;
    if (options_.files.empty()) {
      char name[40];
      std::snprintf(name, sizeof name, "failure-%016zx.tile", std::hash<std::string>{}(text));
      fs::create_directories(options_.failures);
      path = options_.failures / name;
      std::ofstream(path, std::ios::binary) << text;
    } else {
      path = options_.files[shared_->number];
    }
    std::printf("%s; replay it: %s %s\n", reason.c_str(), fs::read_symlink("/proc/self/exe").c_str(),
                path.c_str());
  }

  Options options_;
  std::function<std::string(uint64_t)> text_;
  Shared* shared_ = nullptr;
  size_t failures_ = 0;
};

Options options_of(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&] {
      if (i + 1 == count) std::fprintf(stderr, "%s needs a value\n", word.c_str()), std::exit(2);
      return words[++i];
    };
    if (word == "--seconds")
      options.seconds = std::atof(value());
    else if (word == "--runs")
      options.runs = std::strtoull(value(), nullptr, 10);
    else if (word == "--seed")
      options.seed = std::strtoull(value(), nullptr, 10);
    else if (word == "--corpus")
      options.corpus = value();
    else if (word == "--failures")
      options.failures = value();
    else
      options.files.push_back(word);
  }
  return options;
}

}  // namespace

int main(int count, char** words) {
  const Options options = options_of(count, words);
  if (!options.files.empty()) {
    Runner runner(options, [&](uint64_t i) { return contents(options.files[i]); });
    return runner.run(0, options.files.size());
  }
  if (options.corpus.empty() || (options.runs == 0 && options.seconds == 0)) {
    std::fprintf(stderr,
                 "%s FILE…, or --corpus FOLDER [--seconds N] [--runs N] [--seed N] [--failures FOLDER]\n",
                 words[0]);
    return 2;
  }
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(options.corpus)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  for (const fs::path& path : paths) corpus.push_back(contents(path));
  std::vector<std::string> names;
  for (const tile::Primitive* primitive : tile::all_primitives()) names.emplace_back(primitive->name);
  fuzz::Mutator mutator(corpus, names);
  const uint64_t first = options.seed << 32;
  Runner runner(options, [&](uint64_t i) { return mutator.text(i); });
  return runner.run(first, options.runs ? first + options.runs : UINT64_MAX);
}
