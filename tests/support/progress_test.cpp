// Tests the progress line on a terminal: what is drawn and erased, and where nothing is drawn.
#include "support/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <thread>

#include "support/log.h"

namespace tile {
namespace {

constexpr const char* erased = "\r\033[K";

// During its lifetime, stderr is a pseudo-terminal.
class Terminal {
 public:
  explicit Terminal(unsigned short columns = 0) {
    // The work of an earlier test no longer counts.
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    if (grantpt(master_) || unlockpt(master_)) std::abort();
    const int slave = open(ptsname(master_), O_RDWR | O_NOCTTY);
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    if (slave < 0 || ioctl(slave, TIOCSWINSZ, &size)) std::abort();
    dup2(slave, STDERR_FILENO);
    close(slave);
    setenv("TERM", "xterm", 1);
  }
  ~Terminal() {
    dup2(before_, STDERR_FILENO);
    close(before_);
    close(master_);
  }
  // Returns all output so far.
  std::string shown() {
    for (pollfd ready{master_, POLLIN, 0}; poll(&ready, 1, 0) > 0 && (ready.revents & POLLIN);) {
      char bytes[4096];
      const ssize_t count = read(master_, bytes, sizeof bytes);
      if (count > 0) shown_.append(bytes, static_cast<size_t>(count));
    }
    return shown_;
  }
  bool shows(const std::string& pattern) {
    for (int n = 0; n < 6000; ++n) {  // one minute
      if (std::regex_search(shown(), std::regex(pattern))) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

 private:
  const int before_ = dup(STDERR_FILENO), master_ = posix_openpt(O_RDWR | O_NOCTTY);
  std::string shown_;
};

long threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

TEST(Progress, AppearsWhileWorkGoesOnAndIsGoneAfter) {
  Terminal terminal;
  {
    Progress work("compiling softmax");
    work.expect(1);
    work.begin();
    EXPECT_EQ(terminal.shown(), "");
    EXPECT_TRUE(terminal.shows("^\rtile: compiling softmax, 0\\.[5-9] s\033\\[K")) << terminal.shown();
    work.done();
    work.expect(4);
    work.done();
    EXPECT_TRUE(terminal.shows("\rtile: compiling softmax, 2 of 5 candidates done, [0-9.]+ s\033\\[K"))
        << terminal.shown();
  }
  const std::string shown = terminal.shown();
  EXPECT_TRUE(shown.ends_with(erased)) << shown;
  EXPECT_EQ(shown.find('\n'), std::string::npos);
  EXPECT_EQ(shown.find("\033[?"), std::string::npos);  // the cursor stays visible
}

TEST(Progress, ShortWorkShowsNothing) {
  Terminal terminal;
  for (int n = 0; n < 3; ++n) {
    Progress work("compiling softmax"), other("compiling rope");
    work.begin();
  }
  EXPECT_EQ(terminal.shown(), "");
}

TEST(Progress, PiecesShortlyAfterEachOtherCountTogether) {
  Terminal terminal;
  {
    Progress first("first");
    first.begin();
    ASSERT_TRUE(terminal.shows("first, 1\\.[0-9] s"));
  }
  Progress second("second");
  second.begin();
  ASSERT_TRUE(terminal.shows("second, "));
  EXPECT_TRUE(terminal.shows("second, 1\\.[0-9] s")) << terminal.shown();
  EXPECT_EQ(terminal.shown().find("second, 0"), std::string::npos) << terminal.shown();
}

TEST(Progress, SeveralThreadsShareTheLineAndItsThread) {
  Terminal terminal;
  const long before = threads();
  auto first = std::make_unique<Progress>("first"), second = std::make_unique<Progress>("second");
  first->begin();
  std::thread([&] { second->begin(); }).join();
  EXPECT_EQ(threads(), before + 1);
  EXPECT_TRUE(terminal.shows("\rtile: first, and 1 more, ")) << terminal.shown();
  first.reset();
  EXPECT_TRUE(terminal.shows("\rtile: second, ")) << terminal.shown();
  second.reset();
  EXPECT_TRUE(terminal.shown().ends_with(erased));
  for (int n = 0; n < 6000 && threads() > before; ++n)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(threads(), before);
}

TEST(Progress, IsErasedWhereTheWorkFails) {
  Terminal terminal;
  try {
    Progress work("compiling softmax");
    work.begin();
    EXPECT_TRUE(terminal.shows("softmax"));
    throw std::runtime_error("it does not compile");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(terminal.shown().ends_with(erased));
}

TEST(Progress, LinesOfTheLogStandAboveIt) {
  Terminal terminal;
  Progress work("compiling softmax");
  work.begin();
  ASSERT_TRUE(terminal.shows("softmax"));
  setenv("TILE_LOG", "1", 1);
  log_line("a line");
  unsetenv("TILE_LOG");
  // The terminal turns "\n" into "\r\n".
  EXPECT_TRUE(terminal.shows("\033\\[K\r\033\\[Ktile: a line\r\n\rtile: compiling softmax, "))
      << terminal.shown();
}

TEST(Progress, DoesNotWrap) {
  Terminal terminal(20);
  Progress work(
      "compiling gr\xc3\xbc\xc3\x9f"
      "e_backward\nof images");
  work.begin();
  EXPECT_TRUE(terminal.shows("^\rtile: compiling gr\xc3\xbc\033\\[K")) << terminal.shown();
}

TEST(Progress, OnlyOnATerminalThatCanErase) {
  const auto starts_a_thread = [] {
    const long before = threads();
    Progress work("compiling softmax");
    work.begin();
    return threads() > before;
  };
  testing::internal::CaptureStderr();  // stderr is a file
  setenv("TERM", "xterm", 1);
  EXPECT_FALSE(starts_a_thread());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  Terminal terminal;
  for (const char* type : {"", "dumb"}) {
    setenv("TERM", type, 1);
    EXPECT_FALSE(starts_a_thread()) << type;
  }
  unsetenv("TERM");
  EXPECT_FALSE(starts_a_thread());
  setenv("TERM", "xterm", 1);
  setenv("TILE_PROGRESS", "0", 1);
  EXPECT_FALSE(starts_a_thread());
  setenv("TILE_PROGRESS", "1", 1);
  EXPECT_TRUE(starts_a_thread());
  unsetenv("TILE_PROGRESS");
  EXPECT_EQ(terminal.shown(), "");
}

TEST(Progress, AChildHasALineOfItsOwn) {
  Terminal terminal;
  auto work = std::make_unique<Progress>("of the parent");
  work->begin();
  ASSERT_TRUE(terminal.shows("of the parent"));
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // it might wait for the parent's thread, which does not exist here
    {
      Progress own("of the child");
      own.begin();
      if (!terminal.shows("tile: of the child, 0")) _exit(1);
    }
    dump("said by the child\n");
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  work.reset();
  EXPECT_TRUE(terminal.shown().ends_with(erased));
}

}  // namespace
}  // namespace tile
