// Draws the progress line from a thread that exists only while work is under way.
#include "support/progress.h"

#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include "support/env.h"
#include "support/text.h"
#include "support/worker.h"

namespace tile {

struct ProgressLine {
  using Clock = std::chrono::steady_clock;
  static constexpr auto delay = std::chrono::milliseconds(500), period = std::chrono::milliseconds(100);

  std::mutex mutex;
  std::condition_variable ended;
  std::vector<const Progress*> under_way;  // oldest first
  Clock::time_point since, until;          // the time range in which there was work
  bool drawing = false;                    // a thread draws the line
  bool drawn = false;

  // Never destroyed, because threads may outlive static objects. A child of fork() begins with a new object:
  // the thread does not exist there, and may have held the mutex.
  static ProgressLine& get() {
    static const bool registered = [] {
      current = new ProgressLine;
      pthread_atfork(nullptr, nullptr, [] { current = new ProgressLine; });
      return true;
    }();
    static_cast<void>(registered);
    return *current;
  }

  static bool wanted() {
    const std::string terminal = environment("TERM");
    return environment("TILE_PROGRESS") != "0" && !terminal.empty() && terminal != "dumb" &&
           isatty(STDERR_FILENO);
  }

  void begin(Progress& work) {
    if (work.begun_) return;
    work.begun_ = true;
    const auto now = Clock::now();
    // Work that ended shortly before counts towards the delay; the time in between does not.
    if (under_way.empty()) since = now - until < delay ? since + (now - until) : now;
    under_way.push_back(&work);
    if (!drawing && wanted()) drawing = start();
  }
  void end(const Progress& work) {
    if (std::erase(under_way, &work) == 0 || !under_way.empty()) return;
    until = Clock::now();
    erase();
    ended.notify_all();
  }

  // Returns false if the system cannot start a thread.
  bool start() {
    std::thread drawer = start_worker([this] { draw_until_done(); });
    if (!drawer.joinable()) return false;
    drawer.detach();
    return true;
  }
  void draw_until_done() {
    std::unique_lock lock(mutex);
    while (!under_way.empty()) {
      const auto first = since + delay;
      if (Clock::now() < first) {
        ended.wait_until(lock, first);
      } else {
        draw();
        ended.wait_for(lock, period);
      }
    }
    drawing = false;
  }

  void draw() {
    const pid_t foreground = tcgetpgrp(STDERR_FILENO);
    if (foreground > 0 && foreground != getpgrp()) return;
    const Progress& first = *under_way.front();
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, ", %.1f s",
                  std::chrono::duration<double>(Clock::now() - since).count());
    std::string text = "tile: " + first.what_;
    if (first.parts_ > 1) text += str(", ", first.done_, " of ", first.parts_, " candidates done");
    if (under_way.size() > 1) text += str(", and ", under_way.size() - 1, " more");
    write("\r" + fitting(text + seconds) + "\033[K");
    drawn = true;
  }
  // A longer line would wrap, and then only its last row could be erased.
  static std::string fitting(std::string text) {
    winsize size{};
    const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    const size_t most = (known ? size.ws_col : 80u) - 1u;
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < ' '; }, ' ');
    size_t columns = 0, end = 0;
    for (; end < text.size(); ++end)
      if ((static_cast<unsigned char>(text[end]) & 0xc0) != 0x80 && ++columns > most) break;
    text.resize(end);
    return text;
  }
  void erase() {
    if (drawn) write("\r\033[K");
    drawn = false;
  }
  static void write(const std::string& text) {
    // A failed write only loses the line.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  }

  static inline std::atomic<ProgressLine*> current = nullptr;
};

Progress::~Progress() {
  if (!begun_) return;
  ProgressLine& line = ProgressLine::get();
  const std::lock_guard lock(line.mutex);
  line.end(*this);
}

void Progress::begin() {
  ProgressLine& line = ProgressLine::get();
  const std::lock_guard lock(line.mutex);
  line.begin(*this);
}
void Progress::expect(int parts) {
  const std::lock_guard lock(ProgressLine::get().mutex);
  parts_ += parts;
}
void Progress::done() {
  const std::lock_guard lock(ProgressLine::get().mutex);
  ++done_;
}

void print_above_progress(const std::string& text) {
  ProgressLine& line = ProgressLine::get();
  const std::lock_guard lock(line.mutex);
  line.erase();
  std::fputs(text.c_str(), stderr);
}

}  // namespace tile
