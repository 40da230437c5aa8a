// Prints the canonical text form.
#include "ir/print.h"

#include <unordered_map>

namespace tile {
namespace {

class Printer {
 public:
  explicit Printer(bool locations) : locations_(locations) {}

  void function(const Function& function) {
    out_ << "kernel " << function.name() << '(' << arguments(function.body()) << ')';
    attributes(function.attributes());
    out_ << " {\n";
    block(function.body(), 2);
    out_ << "}\n";
  }
  void block(const Block& block, int indent) {
    for (const auto& op : block.ops) print(*op, indent);
  }
  std::string text() const { return out_.str(); }

 private:
  std::string define(const Value* value) { return ids_[value] = "%" + std::to_string(next_++); }
  std::string use(const Value* value) {
    auto at = ids_.find(value);
    if (at == ids_.end()) at = ids_.emplace(value, "%outer" + std::to_string(outer_++)).first;
    return at->second;
  }
  std::string arguments(const Block& block) {
    return join(block.arguments, ", ",
                [&](const Value* value) { return str(define(value), ": ", value->type); });
  }
  void attributes(const Attributes& attributes) {
    if (attributes.empty()) return;
    out_ << " {"
         << join(attributes, ", ", [](const auto& entry) { return str(entry.first, "=", entry.second); })
         << '}';
  }
  void print(const Op& op, int indent) {
    std::string pad(static_cast<size_t>(indent), ' ');
    // Operands are numbered before results, and regions after both, which is the order in which a reader
    // sees the names.
    std::string operands = join(op.operands, ", ", [&](const Value* value) { return use(value); });
    out_ << pad;
    if (!op.results.empty())
      out_ << join(op.results, ", ", [&](const Value* value) {
        return str(define(value), ": ", value->type);
      }) << " = ";
    out_ << op.name();
    if (!operands.empty()) out_ << ' ' << operands;
    attributes(op.attributes);
    for (size_t i = 0; i < op.regions.size(); ++i) {
      out_ << " (" << arguments(*op.regions[i]) << ") {";
      if (i == 0) location_comment(op);
      out_ << '\n';
      block(*op.regions[i], indent + 2);
      out_ << pad << '}';
    }
    if (op.regions.empty()) location_comment(op);
    out_ << '\n';
  }
  void location_comment(const Op& op) {
    if (locations_ && op.location.known()) out_ << "  // " << op.location;
  }

  std::ostringstream out_;
  std::unordered_map<const Value*, std::string> ids_;
  int next_ = 0, outer_ = 0;
  bool locations_;
};

}  // namespace

std::string print(const Function& function, bool locations) {
  Printer printer(locations);
  printer.function(function);
  return printer.text();
}

std::string print(const Block& block, bool locations) {
  Printer printer(locations);
  printer.block(block, 0);
  return printer.text();
}

Hash128 hash(const Function& function) { return hash128(print(function, false)); }

}  // namespace tile
