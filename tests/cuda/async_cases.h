// Kernels that several tests of asynchronous passes change, and matrices to run them on.
#pragma once
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/async/roles.h"
#include "cuda/program.h"
#include "dense_arrays.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "runtime/text_kernel.h"
#include "support/text.h"

namespace tile::cuda {

constexpr Target hopper{.arch = 90, .shared_bytes = 227 * 1024, .wgmma = true, .pairs = Pairs::hinted};

// Divides a kernel of a plan among its roles, and returns its text.
inline std::string divided_among_roles(Function& function, const AsyncPlan& plan) {
  EXPECT_EQ(plan.why_not, "");
  EXPECT_EQ(divide_into_roles(function, plan), std::nullopt);
  verify(function, "divide_into_roles");
  return print(function, false);
}

// Returns the text with each `from` replaced.
inline std::string with(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// Matrices of float32, with which a kernel begins.
class Matrices {
 public:
  // value(at): of the element at this index of the rows one after another.
  template <class F>
  void add(int64_t rows, int64_t columns, const F& value) {
    std::vector<float>& values = data_.emplace_back(static_cast<size_t>(rows * columns));
    for (size_t at = 0; at < values.size(); ++at) values[at] = value(at);
    ArrayArgument array;
    array.data = values.data(), array.dtype = DType::f32, array.rank = 2;
    array.sizes[0] = static_cast<int32_t>(rows), array.sizes[1] = static_cast<int32_t>(columns);
    array.strides[0] = columns, array.strides[1] = 1;
    arguments_.emplace_back(array);
  }
  // Runs a kernel of them and of further arguments. Returns what it leaves in the last matrix.
  const std::vector<float>& run(const std::string& kernel, const Grid& grid,
                                const std::vector<Argument>& further = {}) {
    std::vector<Argument> all = arguments_;
    all.insert(all.end(), further.begin(), further.end());
    TextKernel(kernel).launch(grid, all);
    return data_.back();
  }

 private:
  std::vector<std::vector<float>> data_;
  std::vector<Argument> arguments_;
};

// A product of three tiles of %a and %b, in rows of so many columns, and the epilogue behind it.
inline std::string product_and(const std::string& epilogue, int columns) {
  return with(
      R"(kernel k(%a: array<f32,2>, %b: array<f32,2>, %bias: array<f32,2>, %c: array<f32,2>) {
  %i: i32 = bid {axis=0}
  %j: i32 = bid {axis=1}
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %t: i32 = constant {dtype=i32, value=3}
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[8,COLUMNS] = broadcast %z {shape=[8,COLUMNS]}
  %r: f32[8,COLUMNS] = for %0, %t, %1, %zs (%k: i32, %acc: f32[8,COLUMNS]) {
    %x: f32[8,16] = load %a, %i, %k {pad=0.0, shape=[8,16], steps=[8,16]}
    %y: f32[16,COLUMNS] = load %b, %k, %j {pad=0.0, shape=[16,COLUMNS], steps=[16,COLUMNS]}
    %m: f32[8,COLUMNS] = mma %x, %y, %acc
    yield %m
  }
  %row: f32[1,COLUMNS] = load %bias, %0, %j {pad=0.0, shape=[1,COLUMNS], steps=[1,COLUMNS]}
  %rows: f32[8,COLUMNS] = broadcast %row {shape=[8,COLUMNS]}
  %s: f32[8,COLUMNS] = add %r, %rows
)" + epilogue +
          "}\n",
      "COLUMNS", std::to_string(columns));
}
// Runs such a kernel with further arguments, and returns %c, which has so many columns.
inline std::vector<float> run_product(const std::string& kernel, int64_t columns = 200,
                                      const Grid& grid = {3, 2, 1},
                                      const std::vector<Argument>& further = {}) {
  const int64_t sizes[][2] = {{20, 40}, {40, columns}, {1, columns}, {20, columns}};
  Matrices matrices;
  for (size_t i = 0; i < 4; ++i)
    matrices.add(sizes[i][0], sizes[i][1],
                 [i](size_t at) { return static_cast<float>((at * 37 + i * 11) % 101) / 64 - 0.7f; });
  return matrices.run(kernel, grid, further);
}

// A sum of weights and of weighted values over tiles of 64 keys, for 128 queries. Tiles before %at are taken
// by the first loop, and those from there on, whose scores are not below 0, by the second.
inline std::string two_loops(const std::string& dtype) {
  const auto loop = [](const std::string& n, const std::string& head, const std::string& mask) {
    return with(
        with(R"(  %x*: f32[128,1], %o*: f32[128,64] = for HEAD (%j*: i32, %a*: f32[128,1], %b*: f32[128,64]) {
    %k*: TYPE[64,64] = load %key, %j*, %0 {pad=0.0, shape=[64,64], steps=[64,64]}
    %t*: TYPE[64,64] = permute %k* {axes=[1,0]}
    %u*: f32[128,64] = mma %q, %t*, %zs
    )",
             "HEAD", head) +
            mask + R"(
    %e*: f32[128,64] = abs %w*
    %s*: f32[128] = reduce_sum %e* {axes=[1]}
    %c*: f32[128,1] = reshape %s* {shape=[128,1]}
    %d*: f32[128,1] = add %a*, %c*
    %h*: f32[128,1] = minimum %c*, %twos
    %p*: TYPE[128,64] = astype %e* {dtype=TYPE}
    %v*: TYPE[64,64] = load %value, %j*, %0 {pad=0.0, shape=[64,64], steps=[64,64]}
    %f*: f32[128,64] = broadcast %h* {shape=[128,64]}
    %g*: f32[128,64] = mul %b*, %f*
    %m*: f32[128,64] = mma %p*, %v*, %g*
    yield %d*, %m*
  }
)",
        "*", n);
  };
  return with(
      R"(kernel k(%query: array<TYPE,2>, %key: array<TYPE,2>, %value: array<TYPE,2>, %out: array<TYPE,2>, %low: i32, %at: i32, %high: i32) {
  %i: i32 = bid {axis=0}
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[128,64] = broadcast %z {shape=[128,64]}
  %zc: f32[128,1] = broadcast %z {shape=[128,1]}
  %two: f32 = constant {dtype=f32, value=2.0}
  %twos: f32[128,1] = broadcast %two {shape=[128,1]}
  %from: i32 = maximum %low, %at
  %q: TYPE[128,64] = load %query, %i, %0 {pad=0.0, shape=[128,64], steps=[128,64]}
)" + loop("m", "%low, %at, %1, %zc, %zs {split=1}", "%wm: f32[128,64] = neg %um") +
          loop("n", "%from, %high, %1, %xm, %om {edge=1, split=1}", R"(%ln: bool = lt %jn, %at
    %ls: bool[128,64] = broadcast %ln {shape=[128,64]}
    %yn: f32[128,64] = maximum %un, %zs
    %rn: f32[128,64] = where %ls, %un, %yn
    %wn: f32[128,64] = neg %rn)") +
          R"(  %h: f32[128,64] = broadcast %xn {shape=[128,64]}
  %r: f32[128,64] = add %on, %h
  %w: TYPE[128,64] = astype %r {dtype=TYPE}
  store %out, %w, %i, %0 {steps=[128,64]}
}
)",
      "TYPE", dtype);
}

}  // namespace tile::cuda
