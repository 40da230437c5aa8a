// Buffers in a ring: turn i is multiplied while turns up to i + stages - 1 are on their way.
#include "cuda/pipeline.h"

#include <algorithm>

namespace tile::cuda {
namespace {

constexpr int most_stages = 3;

std::string tile_type(const Staged& staged) {
  return str("SharedTile<", staged.load->results[0]->type.dtype, ", ", staged.rows, ", ", staged.width, ">");
}

void emit_copy(Emitter& emitter, const Staged& staged, const std::string& to) {
  const Op& load = *staged.load;
  emitter.line(load, str(staged.turned ? "copy_turned_async<" : "copy_tile_async<", emitter.plan().threads(),
                         ">(", to, ", ", emitter.name(load.operands[0]), ", ", start_text(emitter, load, 1),
                         ", ", line_number(load), ");"));
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

std::string start_text(Emitter& emitter, const Op& op, size_t first) {
  const Shape& steps = op.integers("steps");
  std::vector<std::string> starts;
  for (size_t i = first; i < op.operands.size(); ++i) {
    const std::string index = emitter.name(op.operands[i]);
    starts.push_back(steps[i - first] == 1 ? str("i64(", index, ")")
                                           : str("i64(", index, ") * ", steps[i - first]));
  }
  return "{" + join(starts) + "}";
}

void emit_staged_load(Emitter& emitter, const Staged& staged) {
  emitter.need("shared_tile.cuh");
  const Op& load = *staged.load;
  const std::string name = emitter.name(load.results[0]);
  const std::string* ring = emitter.ring_of(staged.loop);
  if (ring) {
    const std::vector<const Staged*> all = emitter.staging().ahead_of(*staged.loop);
    emitter.line(load, str("const ", tile_type(staged), " ", name, " = {", *ring, " + ",
                           offset_in(all, &staged), "};"));
    return;
  }
  emitter.line(load, str("const ", tile_type(staged), " ", name, " = {staged_memory() + ",
                         emitter.take_staged(load, staged.bytes()), "};"));
  if (load.parent->parent) emitter.line(load, str("synchronize(", line_number(load), ");"));
  emit_copy(emitter, staged, name);
  emitter.line(load, "copy_async_commit();");
  emitter.line(load, "copy_async_wait<0>();");
  emitter.line(load, str("synchronize(", line_number(load), ");"));
}

StagedLoop::StagedLoop(Emitter& emitter, const Op& op)
    : emitter_(emitter), op_(op), mark_(emitter.staged_mark()) {
  staged_ = emitter.staging().ahead_of(op);
  if (staged_.empty()) return;
  const int64_t bytes = bytes_of(staged_);
  stages_ = static_cast<int>(std::min<int64_t>(most_stages, emitter.staged_left() / bytes));
  if (stages_ < 2) {
    staged_.clear();
    return;
  }
  emitter.need("shared_tile.cuh");
  const int64_t base = emitter.take_staged(op, bytes * stages_);
  load_ = emitter.temporary();
  stage_ = emitter.temporary();
  const std::string memory = str("staged_memory() + ", base, " + ");
  // The address is computed from the turn's index, under names of its own.
  const auto names = emitter.names();
  const std::string index = emitter.temporary(), buffer = emitter.temporary(), type = str(op.type(0).dtype);
  emitter.define_alias(op.region().arguments[0], index);
  emitter.line(op, str("const auto ", load_, " = [&](", type, " ", index, ", int ", buffer, ") {"));
  emitter.indent(1);
  std::vector<const Op*> done;
  for (const Staged* staged : staged_)
    for (const Op* needed : staged->address)
      if (std::find(done.begin(), done.end(), needed) == done.end()) {
        if (!needed->is("constant")) emitter.forget(needed->results[0]);
        emitter.op(*needed);
        done.push_back(needed);
      }
  for (const Staged* staged : staged_)
    emit_copy(
        emitter, *staged,
        str(tile_type(*staged), "{", memory, buffer, " * ", bytes, " + ", offset_in(staged_, staged), "}"));
  emitter.indent(-1);
  emitter.close(";");
  emitter.set_names(names);
  const std::string low = emitter.name(op.operands[0]), high = emitter.name(op.operands[1]),
                    step = emitter.name(op.operands[2]), turn = emitter.temporary();
  emitter.line(op, str("for (int ", turn, " = 0; ", turn, " < ", stages_ - 1, "; ++", turn, ") {"));
  emitter.line(op, str("  if (", low, " + ", turn, " * ", step, " < ", high, ") ", load_, "(", low, " + ",
                       turn, " * ", step, ", ", turn, ");"));
  emitter.line(op, "  copy_async_commit();");
  emitter.close();
  emitter.line(op, str("int ", stage_, " = 0;"));
  emitter.set_ring(&op, str(memory, stage_, " * ", bytes));
}

void StagedLoop::begin_turn() {
  if (staged_.empty()) return;
  const std::string index = emitter_.name(op_.region().arguments[0]), high = emitter_.name(op_.operands[1]),
                    step = emitter_.name(op_.operands[2]);
  emitter_.line(op_, str("copy_async_wait<", stages_ - 2, ">();"));
  emitter_.line(op_, str("synchronize(", line_number(op_), ");"));
  const std::string ahead = str(index, " + ", stages_ - 1, " * ", step);
  emitter_.line(op_, str("if (", ahead, " < ", high, ") ", load_, "(", ahead, ", (", stage_, " + ",
                         stages_ - 1, ") % ", stages_, ");"));
  emitter_.line(op_, "copy_async_commit();");
}
void StagedLoop::end_turn() {
  if (!staged_.empty())
    emitter_.line(op_, str(stage_, " = ", stage_, " + 1 == ", stages_, " ? 0 : ", stage_, " + 1;"));
}
void StagedLoop::end() {
  if (!staged_.empty()) {
    emitter_.line(op_, "copy_async_wait<0>();");
    emitter_.line(op_, str("synchronize(", line_number(op_), ");"));
  }
  emitter_.release_staged(mark_);
}

}  // namespace tile::cuda
