// Emits loops with a ring of buffers: while iteration i is multiplied, the loads of iterations up to i +
// stages - 1 are in flight.
#include "cuda/pipeline.h"

#include <algorithm>

#include "cuda/access_text.h"
#include "cuda/lowering_rule.h"

namespace tile::cuda {
namespace {

constexpr int most_stages = 3;

std::string tile_type(const Staged& staged) {
  return str(staged.crossed ? "CrossedTile<"
             : staged.flat  ? "FlatTile<"
                            : "SharedTile<",
             staged.dtype(), ", ", staged.rows, ", ", staged.width, ">");
}

void emit_copy(Emitter& emitter, const Staged& staged, const std::string& to, const std::string& wanted) {
  const Op& load = *staged.load;
  if (staged.by_rows) return emitter.line(load, copy_rows_text(emitter, load, to, wanted));
  if (staged.crossed) {
    emitter.need("crossed_tile.cuh");
    // A transposed tile has the array's columns as its rows.
    const std::string array = emitter.name(load.operands[0]), start = start_text(emitter, load, 1);
    emitter.line(load, str(staged.transposed ? "copy_crossed_async<" : "copy_crossed_transposed_async<",
                           emitter.plan().threads(), ">(", to, ", ", array, ", ", start, ", ", wanted, ", ",
                           line_number(load), ");"));
    return;
  }
  emitter.line(
      load, str(staged.transposed ? "copy_transposed_async<" : "copy_tile_async<", emitter.plan().threads(),
                emitter.facts(load.operands[0]).whole_vectors ? ", whole_vectors" : ", plain",
                staged.by_blocks ? ", true>(" : ">(", to, ", ", emitter.name(load.operands[0]), ", ",
                start_text(emitter, load, 1), ", ", wanted, ", ", line_number(load), ");"));
}

// Returns true if no element moves between threads for the tile's address. Copies ahead are issued where
// other threads may still read the shared memory that a move would take.
bool moves_nothing(Emitter& emitter, const Staged& staged) {
  if (!staged.by_rows) return true;
  const auto stays = [&](const Value* operand, const Layout& wanted, bool in_thread) {
    return !is_tile(operand) || in_thread || emitter.layout_of(operand) == wanted ||
           !emitter.made_anew(operand, wanted).empty();
  };
  const Value* rows = staged.load->operands[1];
  return stays(rows, emitter.plan().access(*staged.load).without({1}), false) &&
         std::all_of(staged.address.begin(), staged.address.end(), [&](const Op* op) {
           if (op->results.empty() || !is_tile(op->results[0]))
             return std::none_of(op->operands.begin(), op->operands.end(), is_tile);
           const LoweringRule* rule = find_lowering(op->name());
           if (!op->traits().reads && !op->is("arange") && !(rule && rule->element)) return false;
           const Layout& layout = emitter.layout_of(op->results[0]);
           if (accessed(*op) && emitter.plan().access(*op) != layout) return false;
           return std::all_of(op->operands.begin(), op->operands.end(), [&](const Value* operand) {
             return stays(operand, layout, is_tile(operand) && emitter.registers_of(*op, operand));
           });
         });
}

int64_t bytes_of(const std::vector<const Staged*>& all) {
  int64_t bytes = 0;
  for (const Staged* staged : all) bytes += staged->bytes();
  return bytes;
}
int64_t offset_in(const std::vector<const Staged*>& all, const Staged* one) {
  int64_t offset = 0;
  for (const Staged* staged : all) {
    if (staged == one) break;
    offset += staged->bytes();
  }
  return offset;
}

}  // namespace

std::string part_text(const Op& mma, const MmaPlan& plan) {
  const DType left = mma.type(0).dtype, right = mma.type(1).dtype;
  const std::string operands = left == right ? str(left) : str("Mixed<", left, ", ", right, ">");
  return str("Part<", operands, ", ", mma.type(0).shape[1], ", ", plan.blocks_m, ", ", plan.blocks_n, ", ",
             plan.warps_m, ", ", plan.warps_n, ">");
}
std::string operand_text(size_t i, const std::string& tile_type, bool transposed, const std::string& tile) {
  return str(i ? "SharedRight<" : "SharedLeft<", tile_type, ", ", transposed ? "true" : "false", ">{", tile,
             "}");
}

std::string index_after_text(Emitter& emitter, const Op& loop, const std::string& index, int iterations) {
  emitter.need("loop.cuh");
  return str("index_after<", iterations, ">(", index, ", ", emitter.name(loop.operands[1]), ", ",
             emitter.name(loop.operands[2]), ")");
}

void emit_staged_load(Emitter& emitter, const Staged& staged) {
  emitter.need("shared_tile.cuh");
  const Op& load = *staged.load;
  const std::string name = emitter.name(load.results[0]);
  const Ring* ring = emitter.ring_of(staged.loop);
  if (ring) {
    const std::vector<const Staged*> all = emitter.staging().ahead_of(*staged.loop);
    emitter.line(load, str("const ", tile_type(staged), " ", name, " = {", ring->memory, " + ",
                           offset_in(all, &staged), "};"));
    return;
  }
  emitter.line(load, str("const ", tile_type(staged), " ", name, " = {staged_memory() + ",
                         emitter.take_staged(load, staged.bytes()), "};"));
  if (load.parent->parent) emitter.synchronize(load);
  emit_copy(emitter, staged, name, "true");
  emitter.line(load, "copy_async_commit();");
  emitter.leave_copies();
  if (load.parent->parent) emitter.await_copies(load);
}

std::string declare_load(Emitter& emitter, const Op& loop, const std::string& parameters,
                         const std::vector<const Op*>& address, const std::function<void()>& body) {
  std::string load = emitter.temporary();
  const auto names = emitter.names();
  const std::string index = emitter.temporary();
  emitter.define_alias(loop.region().arguments[0], index);
  emitter.line(loop, str("const auto ", load, " = [&](", loop.type(0).dtype, " ", index, parameters, ") {"));
  emitter.indent(1);
  std::vector<const Op*> done;
  for (const Op* needed : address) {
    if (needed->is("constant") || std::find(done.begin(), done.end(), needed) != done.end()) continue;
    emitter.forget(needed->results[0]);
    emitter.op(*needed);
    done.push_back(needed);
  }
  body();
  emitter.indent(-1);
  emitter.close(";");
  emitter.set_names(names);
  return load;
}

std::string declare_index(Emitter& emitter, const Op& loop, int iterations) {
  const std::string index = emitter.name(loop.region().arguments[0]), next = emitter.temporary();
  emitter.line(loop, str("const ", loop.type(0).dtype, " ", next, " = ",
                         index_after_text(emitter, loop, index, iterations), ";"));
  return next;
}

StagedLoop::StagedLoop(Emitter& emitter, const Op& op) : emitter_(emitter), op_(op) {
  staged_ = emitter.staging().ahead_of(op);
  if (!std::all_of(staged_.begin(), staged_.end(),
                   [&](const Staged* each) { return moves_nothing(emitter, *each); }))
    staged_.clear();
  const int64_t bytes = bytes_of(staged_);
  if (bytes) {
    // Two CTAs on a multiprocessor hide each other's barriers better than a longer ring does.
    // Products by FMA write the operands that the kernel computes to shared memory, in the loop.
    const bool by_blocks =
        std::all_of(staged_.begin(), staged_.end(), [](const Staged* each) { return each->by_blocks; });
    const int64_t half = emitter.staged_left_of_half(by_blocks ? emitter.staging().written_bytes() : 0),
                  all = emitter.staged_left() - emitter.staging().bytes_at_once(op.region(), &op),
                  room = half >= 2 * bytes ? std::min(half, all) : all;
    stages_ = static_cast<int>(std::min<int64_t>(most_stages, room / bytes));
  }
  if (stages_ < 2) staged_.clear();
  const std::string low = emitter.name(op.operands[0]), high = emitter.name(op.operands[1]);
  if (staged_.empty()) return;
  emitter.copies_are_awaited();
  std::vector<const Op*> address;
  emitter.need("shared_tile.cuh");
  const std::string memory = str("staged_memory() + ", emitter.take_staged(op, bytes * stages_), " + ");
  stage_ = emitter.temporary();
  const std::string buffer = emitter.temporary(), wanted = emitter.temporary();
  for (const Staged* staged : staged_)
    address.insert(address.end(), staged->address.begin(), staged->address.end());
  load_ = declare_load(emitter, op, str(", int ", buffer, ", bool ", wanted), address, [&] {
    for (const Staged* staged : staged_) {
      const int64_t offset = offset_in(staged_, staged);
      emit_copy(emitter, *staged,
                str(tile_type(*staged), "{", memory, buffer, " * ", bytes, " + ", offset, "}"), wanted);
    }
    emitter.line(op, "copy_async_commit();");
  });
  const std::string iteration = emitter.temporary(), index = emitter.temporary();
  emitter.line(op, str(op.type(0).dtype, " ", index, " = ", low, ";"));
  emitter.line(
      op, str("for (int ", iteration, " = 0; ", iteration, " < ", stages_ - 1, "; ++", iteration, ") {"));
  emitter.line(op, str("  ", load_, "(", index, ", ", iteration, ", ", index, " < ", high, ");"));
  emitter.line(op, str("  ", index, " = ", index_after_text(emitter, op, index, 1), ";"));
  emitter.close();
  emitter.line(op, str("int ", stage_, " = 0;"));
  emitter.set_ring(&op, {str(memory, stage_, " * ", bytes)});
  product_ = stages_ > 2 ? emitter.staging().product_of(op) : nullptr;
  if (product_) declare_fragments(memory, bytes);
}

void StagedLoop::declare_fragments(const std::string& memory, int64_t bytes) {
  emitter_.need("mma_sync.cuh");
  const std::string first = emitter_.temporary(), load = emitter_.temporary(), stage = emitter_.temporary(),
                    part = part_text(*product_, emitter_.plan().mma(*product_));
  std::string operands;
  for (size_t i = 0; i < 2; ++i) {
    const MmaOperand operand = mma_operand(product_->operands[i]);
    const Staged& staged = *emitter_.staging().of(*operand.value->definition);
    const std::string address =
        str("{", memory, stage, " * ", bytes, " + ", offset_in(staged_, &staged), "}");
    operands += operand_text(i, tile_type(staged), operand.transposed != staged.transposed, address) + ", ";
  }
  emitter_.line(op_, str("Fragments<", part, "> ", first, ";"));
  emitter_.line(op_, str("const auto ", load, " = [&](int ", stage, ") {"));
  emitter_.indent(1);
  emitter_.line(op_, str("copy_async_wait<", stages_ - 2, ">();"));
  emitter_.synchronize(op_);
  emitter_.line(*product_, str("load_first(", first, ", ", operands, line_number(*product_), ");"));
  emitter_.indent(-1);
  emitter_.close(";");
  emitter_.line(op_, str(load, "(0);"));
  Ring ring = *emitter_.ring_of(&op_);
  ring.product = product_;
  ring.fragments = first;
  ring.next_iteration = str("[&] { ", load, "(", stage_, " + 1 == ", stages_, " ? 0 : ", stage_, " + 1); }");
  emitter_.set_ring(&op_, std::move(ring));
}

void StagedLoop::begin_iteration() {
  if (product_) {
    Ring ring = *emitter_.ring_of(&op_);
    ring.copies = str("[&] { ", copy_text(), " }");
    emitter_.set_ring(&op_, std::move(ring));
  } else if (!staged_.empty()) {
    emitter_.line(op_, str("copy_async_wait<", stages_ - 2, ">();"));
    emitter_.synchronize(op_);
    if (!copies_late()) emitter_.line(op_, copy_text());
  }
}
// There is no branch: past the last iteration, copies write zeros into a buffer that is not read.
std::string StagedLoop::copy_text() {
  const std::string next = declare_index(emitter_, op_, stages_ - 1);
  return str(load_, "(", next, ", ", stage_, " ? ", stage_, " - 1 : ", stages_ - 1, ", ", next, " < ",
             emitter_.name(op_.operands[1]), ");");
}
void StagedLoop::end_iteration() {
  if (staged_.empty()) return;
  if (copies_late() && !product_) emitter_.line(op_, copy_text());
  emitter_.line(op_, str(stage_, " = ", stage_, " + 1 == ", stages_, " ? 0 : ", stage_, " + 1;"));
}
void StagedLoop::end() {
  if (!staged_.empty()) {
    emitter_.line(op_, "copy_async_wait<0>();");
    emitter_.synchronize(op_);
  }
}

}  // namespace tile::cuda
