// The tracer of the language: variables, scopes, and loop-carried values that are found while the body runs.
// SSA form is built in one pass: entering a loop gives each variable that is used there a provisional block
// argument, and closing the loop keeps the arguments of variables that changed.
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "dsl/tile.h"
#include "ir/build.h"

namespace tile {

class Tracer {
 public:
  explicit Tracer(std::string name);
  ~Tracer();
  Tracer(const Tracer&) = delete;

  static Tracer& current(const Location& use);  // error: no trace is running
  static Tracer* current_or_null();
  static std::unique_ptr<Tracer> unentered(std::string name);  // does not become the current trace

  Builder& builder() { return build_; }
  Function& function() { return function_; }
  Block& block() { return block_of(scopes_.back()); }  // where operations are added
  uint32_t serial() const { return serial_; }
  // Makes dim() and num_tiles() return i64 instead of i32 from now on.
  void count_in_i64() { extent_dtype_ = DType::i64; }
  DType extent_dtype() const { return extent_dtype_; }
  // From now on, what belongs to no loop, branch or combine region is added at the end of this block. For
  // passes that write ops with functions of the language.
  void write_into(Block& block) { base_ = &block; }
  bool nested() const { return scopes_.size() > 1; }  // in a loop, branch or combine region
  const Location& made_at(uint32_t variable) const { return variables_[variable].location; }

  // Variables.
  uint32_t new_variable(Value* value, const Location& location);
  Value* read(uint32_t variable, uint32_t trace, const Location& use);
  Value* touch(uint32_t variable);  // null: no value yet
  void assign(uint32_t variable, uint32_t trace, Value* value, const Location& use);
  Value* emit(const Primitive& primitive, std::vector<Value*> operands, Attributes attributes,
              const Location& at);
  void check_visible(const Value* value, const char* what, const Location& use);

  // Loops. open_loop returns the index, or null for a loop without bounds. close_loop returns false if the
  // body must be traced once more.
  Value* open_loop(std::vector<Value*> bounds, const Location& location);
  bool close_loop();
  Value* loop_index() const { return scopes_.back().index; }
  // Leaves the innermost loop, or continues with its next iteration.
  void jump(bool leaves, const Location& location);
  void abandon_loop(const Location& location, bool unwinding);
  void branch(Value* condition, const std::function<void()>& then, const std::function<void()>& otherwise,
              const Location& location);

  // Creates an op with a combine region, traced from a function of two scalars per tile: accumulated and new
  // ones.
  using Combine = std::function<std::vector<Tile>(std::vector<Tile>, std::vector<Tile>)>;
  std::vector<Value*> combine(const Primitive& primitive, std::vector<Value*> operands,
                              const Combine& combine, Attributes attributes, const Location& location);

  // Ends the trace: checks dominance and pending errors, and returns the function.
  Function finish();

 private:
  struct Variable {
    Value* value;
    int depth;
    Location location;
  };
  struct Seen {
    uint32_t variable;
    Value *outer, *inner;
  };
  // A break or continue. Its operands are known when its loop is closed.
  struct Jump {
    Op* op;
    Value* next_index;  // for `continue` in a counted loop
    int depth;          // of the loop
    std::vector<Variable> variables;
    Value* value_of(const Seen& seen) const {
      const bool touched = seen.variable < variables.size() && variables[seen.variable].depth >= depth;
      return touched ? variables[seen.variable].value : seen.inner;
    }
  };
  struct Scope {
    std::unique_ptr<Block> block;  // null: the function's body
    bool loop = false;
    bool left = false;  // ends with a jump
    size_t first_variable = 0;
    std::vector<Seen> seen;
    std::unordered_map<uint32_t, size_t> assigned;  // variables, in the order of their first assignment here
    // Only for loops.
    std::vector<Value*> bounds;
    Value* index = nullptr;
    Location location;
    std::string first_trace;
    int height = 1;  // depth of the loop nest, including this loop
    std::vector<Jump> jumps;
  };
  int depth() const { return static_cast<int>(scopes_.size()) - 1; }
  Block& block_of(Scope& scope) { return scope.block ? *scope.block : *base_; }
  // Returns the changes of a scope in the order of assignments. The order of variables would depend on the
  // compiler if Tiles are arguments.
  std::vector<std::pair<Seen, Value*>> changed(Scope& scope);
  void set(uint32_t variable, Value* value);
  void forget_locals(const Scope& scope);
  std::string signature(const Scope& scope, const std::vector<std::pair<Seen, Value*>>& carried);
  void restart(Scope& scope);
  Value* next_index(const Scope& scope);
  void end_block(Block& block, std::string_view name, std::vector<Value*> operands, const Location& location);
  std::unique_ptr<Op> loop_of(Scope& scope, const std::vector<std::pair<Seen, Value*>>& carried);
  void pop_scope();
  void raise_pending();
  // Throws an error if the variable belongs to another trace.
  void check_own(uint32_t variable, uint32_t trace, const Location& use) const;
  void check_reached(const Location& at) const;  // error: it follows a jump

  Function function_;
  Builder build_;
  Block* base_ = &function_.body();
  std::vector<Variable> variables_;
  std::vector<Scope> scopes_;
  std::string pending_;
  uint32_t serial_;
  Tracer* outer_;
  DType extent_dtype_ = DType::i32;
};

}  // namespace tile
