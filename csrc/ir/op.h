// Structured SSA: a Function holds a Block of Ops; an Op has operands, results, attributes and regions
// (Blocks).
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ir/attribute.h"
#include "ir/primitive.h"
#include "ir/type.h"
#include "support/error.h"

namespace tile {

struct Block;

struct Value {
  Type type;
  Op* definition = nullptr;  // null: an argument of `owner`
  Block* owner = nullptr;    // the block that defines it
  Location location;
};

struct Op {
  const Primitive* primitive = nullptr;
  std::vector<Value*> operands;
  std::vector<Value*> results;
  Attributes attributes;
  std::vector<std::unique_ptr<Block>> regions;
  Location location;
  Block* parent = nullptr;

  std::string_view name() const { return primitive->name; }
  bool is(std::string_view other) const { return primitive->name == other; }
  const Traits& traits() const { return primitive->traits; }
  Value* result(size_t i = 0) const { return results.at(i); }
  const Type& type(size_t operand) const { return operands.at(operand)->type; }
  Block& region(size_t i = 0) const { return *regions.at(i); }

  bool has(std::string_view attribute) const { return attributes.find(attribute) != nullptr; }
  int64_t integer(std::string_view attribute) const;
  int64_t integer_or(std::string_view attribute, int64_t fallback) const;
  double number(std::string_view attribute) const;  // a double, or an integer converted to double
  const std::string& text(std::string_view attribute) const;
  const std::vector<int64_t>& integers(std::string_view attribute) const;
  DType dtype(std::string_view attribute) const;
};

// Throw an error if an attribute is not a number of the dtype, or if `pad` is not one of the first operand's
// dtype.
void require_number(const Op& op, std::string_view attribute, DType dtype);
void require_pad(const Op& op);

struct Block {
  std::vector<Value*> arguments;
  std::vector<std::unique_ptr<Op>> ops;
  Op* parent = nullptr;  // null: the function's body

  Op* terminator() const {
    return !ops.empty() && ops.back()->traits().terminator ? ops.back().get() : nullptr;
  }
};

// A kernel. Values live as long as the function; ops are owned by their blocks.
class Function {
 public:
  explicit Function(std::string name) : name_(std::move(name)), body_(std::make_unique<Block>()) {}
  Function(Function&&) = default;
  Function& operator=(Function&&) = default;

  const std::string& name() const { return name_; }
  Block& body() const { return *body_; }
  Value* add_value(Type type, Location location, Op* definition, Block* owner);
  Value* add_argument(Block& block, Type type,
                      Location location);  // a block argument; in the body, a parameter
  size_t value_count() const { return values_.size(); }
  Attributes& attributes() { return attributes_; }  // facts of the launch key: divisibility of extents, …
  const Attributes& attributes() const { return attributes_; }

 private:
  std::string name_;
  std::deque<Value> values_;  // deque: stable addresses
  std::unique_ptr<Block> body_;
  Attributes attributes_;
};

// Throws an error of the user's op: "file.cpp:27: mma: …".
template <class... A>
[[noreturn]] void fail(const Op& op, ErrorKind kind, const A&... parts) {
  fail(op.location, kind, op.name(), ": ", parts...);
}

}  // namespace tile
