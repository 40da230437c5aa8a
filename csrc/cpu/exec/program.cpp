// Compiles a function into nodes and runs blocks on threads.
#include "cpu/exec/program.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <optional>

#include "cpu/exec/block_ranges.h"
#include "cpu/exec/parallel.h"
#include "cpu/interpreter/gemm_view.h"
#include "cpu/interpreter/lowering_context.h"
#include "cpu/interpreter/stream.h"
#include "cpu/interpreter/watch.h"
#include "ir/walk.h"

namespace tile::cpu {
namespace {

constexpr double serial_below = 32768;  // elements of work: below that, waking threads costs more
constexpr int least_lines_a_thread = 8;
constexpr int chunks_a_thread = 16;  // taken one by one, so that uneven blocks balance

}  // namespace

struct Program::Thread {
  Frame frame;
  PackedOperands panels;
  AlignedMemory arena{4096};
  bool busy = false;
};

// Consecutive launches reuse the state that the previous one kept.
std::unique_ptr<NodeStateCache::Slots> Program::take_node_states(int64_t worker) const {
  auto slots = idle_.take(worker);
  if (!slots) return std::make_unique<NodeStateCache::Slots>(node_states_);
  for (NodeStateSlot& slot : *slots)
    for (auto& each : slot.states)
      if (each && !each->lasts()) each.reset();
  return slots;
}

Program::Program(Function function) : function_(std::move(function)) {
  LoweringContext lower(function_);
  nodes_ = lower.body();
  for (const Value* argument : function_.body().arguments) {
    if (argument->type.is_array())
      array_arguments_.push_back(lower.array(argument));
    else
      scalar_arguments_.push_back(lower.scalar(argument));
  }
  scalars_ = lower.scalars();
  slot_bytes_ = lower.slot_bytes();
  tiles_ = lower.tile_count();
  arrays_ = lower.array_count();
  scratch_bytes_ = lower.scratch_bytes();
  node_states_ = lower.node_state_count();
  needs_panels_ = lower.needs_panels();
  block_cost_ = cost_of(function_.body());
  blocks_between_looks_ = Glance::every(block_cost_);
}
Program::~Program() = default;

void Program::prepare(Frame& frame, const std::vector<ArrayRef>& arrays,
                      const std::vector<Scalar>& scalars) const {
  frame.tiles.resize(tiles_);
  frame.scalars = scalars_;
  frame.arrays.resize(arrays_);
  for (size_t i = 0; i < array_arguments_.size(); ++i)
    frame.arrays[static_cast<size_t>(array_arguments_[i])] = arrays[i];
  for (size_t i = 0; i < scalar_arguments_.size(); ++i)
    frame.scalars[static_cast<size_t>(scalar_arguments_[i])] = scalars[i];
  frame.slots.resize(slot_bytes_.size());
  frame.scratch.reserve(scratch_bytes_);
  frame.scratch.release(0);
  frame.packed.clear();
}

void Program::run(const int64_t (&blocks)[3], const std::vector<ArrayRef>& arrays,
                  const std::vector<Scalar>& scalars) const {
  const int64_t total = blocks[0] * blocks[1] * blocks[2];
  if (total <= 0) return;
  size_t arena_bytes = 0;
  for (size_t bytes : slot_bytes_) arena_bytes += bytes;
  PackedOperands* shared = nullptr;
  Watch watch;
  auto work = [&](int64_t worker, auto next) {
    int64_t begin, end;
    if (!next(begin, end)) return;
    static thread_local Thread reused;
    Thread nested;  // for a kernel launched while this thread runs another
    Thread& thread = reused.busy ? nested : reused;
    give_registers_back(reused.frame);  // of the kernel that this one interrupts; it takes them again later
    thread.busy = true;
    struct Release {  // also runs if an assertion fails
      Thread& thread;
      ~Release() {
        thread.busy = false;
        give_registers_back(thread.frame);
        finish_streams();
      }
    } release{thread};
    Frame& frame = thread.frame;
    prepare(frame, arrays, scalars);
    frame.own_panels = &thread.panels;
    if (needs_panels_) thread.panels.clear();
    frame.shared_panels = shared;
    frame.watch = &watch;
    Glance glance(blocks_between_looks_);
    auto slots = take_node_states(worker);
    frame.node_states = slots.get();
    char* slot = thread.arena.at_least(arena_bytes);
    for (size_t i = 0; i < slot_bytes_.size(); ++i) {
      frame.slots[i] = slot;
      slot += slot_bytes_[i];
    }
    std::copy(blocks, blocks + 3, frame.blocks);
    do {
      for (int64_t i = begin; i < end; ++i) {
        glance(&watch);
        frame.block[0] = i % blocks[0];
        frame.block[1] = i / blocks[0] % blocks[1];
        frame.block[2] = i / blocks[0] / blocks[1];
        run_nodes(nodes_, frame);
      }
    } while (next(begin, end));
    idle_.give_back(worker, std::move(slots));  // skipped after an error
  };
  const ParallelRuntime& runtime = parallel_runtime();
  const int threads = runtime.threads();
  if (threads <= 1 || total == 1 || static_cast<double>(total) * block_cost_ < serial_below) {
    bool done = false;
    work(0, [&](int64_t& begin, int64_t& end) {
      begin = 0;
      end = total;
      return !std::exchange(done, true);
    });
    return;
  }
  int64_t chunk = std::max<int64_t>(1, total / (static_cast<int64_t>(threads) * chunks_a_thread)), line = 1;
  // Blocks of one line often share operands. If there are many lines, lines stay whole and each thread keeps
  // its own packed operands; otherwise all threads share packed operands.
  std::optional<LaunchPackedOperands> panels;
  if (total / blocks[0] >= int64_t{least_lines_a_thread} * threads) {
    line = blocks[0];
    chunk = (chunk + line - 1) / line * line;
  } else if (needs_panels_) {
    shared = panels.emplace(threads).get();
  }
  BlockRanges ranges(total, threads, line, chunk);
  auto body = [&](int64_t worker, int64_t) {
    const Watch::Running running(watch);
    std::exception_ptr error;
    try {
      work(worker, [&](int64_t& begin, int64_t& end) { return ranges.next(worker, begin, end); });
    } catch (const Interrupted&) {  // the launching thread throws the cause
    } catch (...) {                 // the other threads finish the blocks that they have started
      ranges.stop();
      error = std::current_exception();
    }
    // torch's own wait does not check for interruptions.
    if (watch.on_launcher()) watch.wait_for_others();
    if (error) std::rethrow_exception(error);
  };
  runtime.run(
      threads,
      [](int64_t begin, int64_t end, void* context) { (*static_cast<decltype(body)*>(context))(begin, end); },
      &body);
}

}  // namespace tile::cpu
