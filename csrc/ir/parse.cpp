// Parses the canonical text form. Any text yields a verified function or an Error, never a crash.
#include <charconv>
#include <map>
#include <unordered_map>

#include "ir/build.h"
#include "ir/lexer.h"
#include "ir/print.h"
#include "ir/verify.h"

namespace tile {
namespace {

constexpr int deepest_nesting = 64;  // of regions; bounds recursion on hostile text

class Parser {
 public:
  explicit Parser(std::string_view text) : lex_(text), function_("") {}

  Function function() {
    lex_.expect("kernel");
    function_ = Function(std::string(lex_.until("(")));
    lex_.expect("(");
    arguments(function_.body());
    if (lex_.accept("{")) {
      if (lex_.peek_assignment()) {
        function_.attributes() = attributes();
        lex_.expect("{");
      }
    } else {
      lex_.expect("{");
    }
    ops(function_.body());
    if (!lex_.at_end()) lex_.fail("expected the end of the text after the kernel");
    if (const auto broken = find_broken_rule(function_))
      lex_.fail_at(broken->op ? starts_.at(broken->op) : 0, broken->text);
    return std::move(function_);
  }

 private:
  Type type() {
    size_t start = lex_.position();
    if (lex_.accept("array<")) {
      DType element = dtype();
      lex_.expect(",");
      int64_t rank = lex_.integer();
      if (rank < 0 || rank > 64) lex_.fail_at(start, str("an array of rank ", rank, "; ranks are 0 to 64"));
      lex_.expect(">");
      return Type::array(element, static_cast<int>(rank));
    }
    Type type = Type::tile(dtype());
    if (lex_.peek("[")) type.shape = integers();
    if (std::any_of(type.shape.begin(), type.shape.end(), [](int64_t extent) { return extent < 1; }))
      lex_.fail_at(start, str(type, " has an extent below 1"));
    if (element_count(type.shape) > most_tile_elements) lex_.fail_at(start, too_large_text(type));
    return type;
  }

  static const DTypeInfo* find_dtype(std::string_view name) {
    for (const DTypeInfo& row : dtype_table)
      if (row.name == name) return &row;
    return nullptr;
  }
  DType dtype() {
    size_t start = lex_.position();
    std::string_view name = lex_.name();
    const DTypeInfo* row = find_dtype(name);
    if (!row) lex_.fail_at(start, str("there is no dtype '", name, "'"));
    return static_cast<DType>(row - dtype_table.data());
  }

  std::vector<int64_t> integers() {
    std::vector<int64_t> list;
    lex_.expect("[");
    if (lex_.accept("]")) return list;
    do list.push_back(lex_.integer());
    while (lex_.accept(","));
    lex_.expect("]");
    return list;
  }

  Attribute attribute() {
    if (lex_.peek("\"")) return lex_.string();
    if (lex_.peek("[")) return integers();
    size_t start = lex_.position();
    std::string_view word = lex_.number();
    if (const DTypeInfo* row = find_dtype(word)) return static_cast<DType>(row - dtype_table.data());
    const char* last = word.data() + word.size();
    int64_t integer = 0;
    if (auto [end, error] = std::from_chars(word.data(), last, integer); error == std::errc() && end == last)
      return integer;
    double floating = 0;
    if (auto [end, error] = std::from_chars(word.data(), last, floating); error == std::errc() && end == last)
      return floating;
    lex_.fail_at(start, str("expected a number, a dtype, a string or a list, found '", word, "'"));
  }

  Attributes attributes() {  // after the opening brace
    Attributes list;
    do {
      size_t start = lex_.position();
      std::string name(lex_.name());
      if (list.find(name)) lex_.fail_at(start, str("attribute '", name, "' is given twice"));
      lex_.expect("=");
      list.set(name, attribute());
    } while (lex_.accept(","));
    lex_.expect("}");
    return list;
  }

  struct Named {
    std::string name;
    Type type;
    size_t position;
  };
  Named definition() {
    size_t start = lex_.position();
    lex_.expect("%");
    std::string name(lex_.name());
    lex_.expect(":");
    return {std::move(name), type(), start};
  }
  void define(const Named& named, Value* value) {
    if (!values_.emplace(named.name, value).second)
      lex_.fail_at(named.position, str('%', named.name, " is defined twice"));
    scope_.push_back(named.name);
  }
  void arguments(Block& block) {  // after the opening parenthesis
    if (lex_.accept(")")) return;
    do {
      Named named = definition();
      define(named, function_.add_argument(block, named.type, {"", 0}));
    } while (lex_.accept(","));
    lex_.expect(")");
  }

  void ops(Block& block) {  // up to the closing brace
    while (!lex_.accept("}")) op(block);
  }

  std::unique_ptr<Block> region(Op& op) {  // after the opening parenthesis
    if (++depth_ > deepest_nesting) lex_.fail("regions are nested deeper than ", deepest_nesting);
    auto block = std::make_unique<Block>();
    block->parent = &op;
    size_t outer = scope_.size();
    arguments(*block);
    lex_.expect("{");
    if (op.regions.empty()) op.location = lex_.location_comment();
    ops(*block);
    for (; scope_.size() > outer; scope_.pop_back()) values_.erase(scope_.back());
    --depth_;
    return block;
  }

  void op(Block& block) {
    size_t start = lex_.position();
    std::vector<Named> results;
    if (lex_.peek("%")) {
      do results.push_back(definition());
      while (lex_.accept(","));
      lex_.expect("=");
    }
    size_t name_at = lex_.position();
    std::string_view name = lex_.name();
    const Primitive* primitive = find_primitive(name);
    if (!primitive) lex_.fail_at(name_at, str("there is no primitive '", name, "'"));
    auto op = std::make_unique<Op>();
    op->primitive = primitive;
    op->location = {"", 0};
    if (lex_.peek_on_line('%')) {  // on the next line, % begins the next op
      do operand(*op);
      while (lex_.accept_on_line(','));
    }
    if (lex_.accept_on_line('{')) op->attributes = attributes();
    while (lex_.accept_on_line('(')) op->regions.push_back(region(*op));
    if (op->regions.empty()) op->location = lex_.location_comment();
    insert(block, std::move(op), results, start);
  }

  void operand(Op& op) {
    size_t start = lex_.position();
    lex_.expect("%");
    std::string name(lex_.name());
    auto at = values_.find(name);
    if (at == values_.end()) lex_.fail_at(start, str('%', name, " is not defined here"));
    op.operands.push_back(at->second);
  }

  void insert(Block& block, std::unique_ptr<Op> op, const std::vector<Named>& results, size_t start) {
    Op& added = *op;
    op->parent = &block;
    starts_[op.get()] = start;
    try {
      infer_results(function_, *op);
    } catch (const Error& error) {
      lex_.fail_at(start, error.what(), error.kind());
    }
    block.ops.push_back(std::move(op));
    if (added.results.size() != results.size())
      lex_.fail_at(start, str(added.name(), " gives ", added.results.size(), " results, but ", results.size(),
                              " are named"));
    for (size_t i = 0; i < results.size(); ++i) {
      if (added.results[i]->type != results[i].type)
        lex_.fail_at(results[i].position,
                     str('%', results[i].name, " is ", added.results[i]->type, " by the type rule of ",
                         added.name(), ", but the text says ", results[i].type));
      define(results[i], added.results[i]);
    }
  }

  Lexer lex_;
  Function function_;
  std::map<std::string, Value*, std::less<>> values_;  // values that are visible here
  std::vector<std::string> scope_;                     // names in order of definition
  std::unordered_map<const Op*, size_t> starts_;
  int depth_ = 0;
};

}  // namespace

Function parse(std::string_view text) { return Parser(text).function(); }

}  // namespace tile
