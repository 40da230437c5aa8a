// A kernel given as Tile IR text, for tests and for front ends that have no C++ function.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/program.h"
#include "ir/op.h"
#include "runtime/argument.h"

namespace tile {

class KernelTable;

class TextKernel {
 public:
  // Throws if the text does not parse (with line:column) or the function does not verify. `passes`: run the
  // passes.
  explicit TextKernel(std::string_view text, bool passes = true);
  ~TextKernel();
  // Arguments are in the order of the text's parameters. Throws if their types or number differ.
  void launch(Grid grid, const std::vector<Argument>& arguments) const;
  // Returns the program that a GPU would run for such arguments, whatever device their arrays are on.
  cuda::Program gpu_program(const std::vector<Argument>& arguments, const cuda::Target& target,
                            const cuda::Configuration& configuration = {}) const;

 private:
  std::vector<ArgumentRef> checked(const std::vector<Argument>& arguments) const;
  Function compiled(ArgumentRefs arguments) const;
  std::string text_, name_;
  bool passes_;
  std::vector<Type> parameters_;
  std::unique_ptr<KernelTable> table_;
};

}  // namespace tile
