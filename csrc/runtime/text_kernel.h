// A kernel given as Tile IR text, for tests and for front ends that have no C++ function.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/program.h"
#include "ir/op.h"
#include "ir/touched.h"
#include "runtime/argument.h"
#include "runtime/executable.h"

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
  // The same for arguments whose key the caller knows. writable: a bit for each argument that the kernel may
  // write; throws if it writes another.
  void launch(Grid grid, const LaunchKey& key, ArgumentRefs arguments, uint64_t writable) const;
  const std::string& name() const { return name_.name; }
  const std::vector<Type>& parameters() const { return parameters_; }
  // Returns the program that a GPU would run for such arguments, whatever device their arrays are on.
  cuda::Program gpu_program(const std::vector<Argument>& arguments, const cuda::Target& target,
                            const cuda::Configuration& configuration = {}) const;

 private:
  [[noreturn]] void fail_types(const std::vector<Type>& given) const;
  void check_types(ArgumentRefs arguments) const;
  static std::vector<ArgumentRef> refs(const std::vector<Argument>& arguments);
  Function parsed(ArgumentRefs arguments) const;
  Function compiled(ArgumentRefs arguments) const;
  std::string text_;
  KernelName name_;
  bool passes_;
  std::vector<Type> parameters_;
  Touched touched_;
  std::unique_ptr<KernelTable> table_, forward_table_;
};

}  // namespace tile
