// Builds fused loops by hand, assembles and runs them.
#pragma once
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "cpu/fusion/fused_loop.h"
#include "cpu/jit/fused_loop_code.h"
#include "cpu/jit/traced_rows.h"
#include "lanes.h"

namespace tile::cpu::testing {

using jit::FusedLoopArguments;
using jit::FusedLoopForm;

// The instruction set of the current test.
inline Isa current = Isa::avx2;
inline const Tables& interpreter() { return tables(current); }
inline jit::Vectors vectors() { return current == Isa::avx512 ? jit::Vectors::avx512 : jit::Vectors::avx2; }

// A fused loop built by hand: inputs first, then steps by the names of their rows.
struct Built {
  FusedLoop fused_loop;
  FusedLoopForm form;
  std::unique_ptr<jit::CodeMemory> code;

  int input(DType dtype = DType::f32, bool columns = true, std::optional<float> known = {},
            bool streams = false) {
    fused_loop.inputs.push_back(0);
    fused_loop.known.push_back(known);
    form.inputs.push_back({dtype, columns, streams});
    return value(dtype);
  }
  int step(std::string_view name, std::vector<int> operands, Lane result = Lane::f32) {
    FusedLoopStep step;
    step.name = name;
    step.arity = static_cast<int>(operands.size());
    std::copy(operands.begin(), operands.end(), step.in);
    step.out = value(dtype_of(result));
    fused_loop.steps.push_back(step);
    return step.out;
  }
  void store(int value, DType dtype = DType::f32, bool streams = false) {
    fused_loop.stores.push_back({value, {}});
    form.stores.push_back({dtype, true, streams});
  }
  void output(int value, DType dtype) {
    fused_loop.outputs.push_back({value, 0, 0, dtype});
    form.outputs.push_back({dtype, true, false});
  }
  void reduce(std::string_view name, bool columns, int value, int factor = -1) {
    FusedLoopReduction reduction;
    reduction.value = value;
    reduction.factor = factor;
    reduction.row = find_reduce(name, Lane::f32, interpreter());
    reduction.dtype = DType::f32;
    fused_loop.reductions.push_back(reduction);
    form.reductions.push_back({DType::f32, columns, false});
  }
  bool assemble() { return (code = jit::assemble(fused_loop, form, vectors())) != nullptr; }
  std::string disassembled() const {
    const std::string path = ::testing::TempDir() + "assembled_fused_loop" + std::to_string(getpid());
    FILE* file = std::fopen(path.c_str(), "wb");
    std::fwrite(code->code(), 1, code->code_bytes(), file);
    std::fclose(file);
    FILE* pipe = popen(("objdump -D -b binary -m i386:x86-64 " + path).c_str(), "r");
    std::string text;
    char piece[4096];
    while (const size_t n = std::fread(piece, 1, sizeof piece, pipe)) text.append(piece, n);
    EXPECT_EQ(pclose(pipe), 0);
    return text;
  }
  void run(int64_t rows, int64_t cols, const std::vector<std::pair<char*, int64_t>>& arrays) const {
    FusedLoopArguments arguments{rows, cols, {}};
    for (size_t i = 0; i < arrays.size(); ++i) arguments.arrays[i] = {arrays[i].first, arrays[i].second};
    reinterpret_cast<jit::FusedLoopFunction>(reinterpret_cast<uintptr_t>(code->code()))(&arguments);
  }

 private:
  int value(DType dtype) {
    fused_loop.lanes.push_back(lane_of(dtype));
    fused_loop.dtypes.push_back(dtype);
    return static_cast<int>(fused_loop.lanes.size()) - 1;
  }
};

template <class T>
bool same(T a, T b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b);
}

inline int arity_of(const ElementwiseRow& row) {
  int arity = 1;
  while (arity < most_operands && row.variants[1 << (arity - 1)]) ++arity;
  return row.variants[1] ? arity : 1;
}

// An array whose last row ends at an inaccessible page.
template <class T>
struct Array : Arena, Rows<T> {
  Array(int64_t rows, int64_t cols, int64_t pad = 3) : Rows<T>(*this, rows, cols, pad) {}
  void fill(Values<T>& values, int64_t rows) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < this->cols; ++c) this->set(r, c, values.next());
  }
  std::pair<char*, int64_t> place() const { return {this->data, this->stride}; }
};
using Floats = Array<float>;

// The parameter is an instruction set that this machine has; there is nothing to test on others.
class Assembler : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override { current = GetParam(); }
};
inline std::vector<Isa> assembled() {
  std::vector<Isa> found;
  for (Isa isa : {Isa::avx2, Isa::avx512})
    if (supported(isa)) found.push_back(isa);
  return found;
}

}  // namespace tile::cpu::testing
