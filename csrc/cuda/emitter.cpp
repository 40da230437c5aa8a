// Emits names, layouts and lines, and arranges the definitions that precede the kernel.
#include "cuda/emitter.h"

#include <algorithm>

#include "cuda/literal.h"
#include "cuda/lowering_rule.h"
#include "ir/walk.h"
#include "support/error.h"

namespace tile::cuda {
namespace {

// The prefix avoids names of CUDA C++ and its headers, such as max, printf and memory.
std::string identifier(const std::string& name) {
  std::string text = "kernel_" + name;
  for (char& c : text)
    if (!(std::isalnum(static_cast<unsigned char>(c)) || c == '_')) c = '_';
  return text;
}

int64_t round_up(int64_t bytes) { return (bytes + 127) / 128 * 128; }

// Selects the sum of an axis: "axis == 0 ? … : …".
std::string by_axis(const std::vector<std::string>& terms) {
  std::string text;
  for (size_t axis = 0; axis < terms.size(); ++axis) {
    const std::string term = terms[axis].empty() ? "0" : terms[axis];
    text += axis + 1 < terms.size() ? str("axis == ", axis, " ? ", term, " : ") : term;
  }
  return text.empty() ? "0" : text;
}

std::string layout_body(const Layout& layout, int threads, int blocks) {
  std::vector<std::string> of_thread(layout.shape().size()), of_register(layout.shape().size()), extents;
  for (const Mode& mode : layout.modes()) {
    std::string& terms = (mode.level == Level::reg ? of_register : of_thread)[static_cast<size_t>(mode.axis)];
    if (!terms.empty()) terms += " + ";
    terms += index_text(mode, layout.registers(), threads, blocks);
  }
  for (int64_t extent : layout.shape()) extents.push_back(str(extent));
  return str("  // ", layout.shape(), layout.modes().empty() ? "" : ": ", describe(layout), "\n",
             "  static constexpr int rank = ", layout.rank(), ", registers = ", layout.registers(),
             ", replicas = ", layout.replicas(threads), ", block_replicas = ", layout.block_replicas(blocks),
             ";\n", "  static constexpr bool padded = ", layout.padded() ? "true" : "false", ";\n",
             "  TILE static constexpr int extent(int axis) { return ", by_axis(extents), "; }\n",
             "  TILE static int thread(int axis) { return ", by_axis(of_thread), "; }\n",
             "  TILE static constexpr int element(int axis, int r) { return ", by_axis(of_register), "; }\n");
}

}  // namespace

std::string index_text(const Mode& mode, int registers, int threads, int blocks) {
  switch (mode.level) {
    case Level::reg:
      return mode_text(mode, "r", registers);
    case Level::lane:
      return mode_text(mode, "lane()", 32);
    case Level::warp:
      return mode_text(mode, "warp()", threads / 32);
    case Level::group:
      return mode_text(mode, "group_of_block()", mode.stride * mode.extent);
    case Level::cta:
      return mode_text(mode, "block_of_cluster()", blocks);
  }
  return {};
}
std::string line_number(const Op& op) { return str(op.location.line); }

Emitter::Emitter(const Function& function, const KernelArrays& arrays, const StagingPlan& staging,
                 const LayoutPlan& plan, const Target& target, const Configuration& configuration)
    : function_(function),
      arrays_(arrays),
      staging_(staging),
      plan_(plan),
      target_(target),
      configuration_(configuration),
      order_(function, plan),
      precision_(function),
      entry_(identifier(function.name())),
      register_loops_(*this, function) {
  headers_.insert("tile.cuh");
  if (may_start_early(target)) headers_.insert("dependent.cuh");
  for (const Value* parameter : function.body().arguments) name(parameter);
  met_ = plan.cluster() == 1;
  block(function.body());
}

// Returns true if CTAs of a cluster may exchange data in this op.
bool Emitter::exchanges(const Op& op) const {
  const auto across = [&](const Op& each) {
    if (order_.barrier_before(each)) return true;
    const LoweringRule* lowering = find_lowering(each.name());
    return lowering && lowering->exchanges &&
           std::any_of(each.operands.begin(), each.operands.end(),
                       [&](const Value* operand) { return layout_of(operand).across_blocks(); });
  };
  bool any = across(op);
  for (const auto& region : op.regions) walk(*region, [&](const Op& inner) { any = any || across(inner); });
  return any;
}

std::string Emitter::name(const Value* value) {
  if (value->definition && value->definition->is("constant")) {
    headers_.insert("cast.cuh");
    return literal(Constant::of(value->type.dtype, *value->definition->attributes.find("value")));
  }
  if (register_loops_.waits(value)) register_loops_.write(value);
  auto [at, fresh] = names_.emplace(value, "");
  if (fresh) at->second = str("v", values_++);
  return at->second;
}

std::string Emitter::layout(const Layout& layout) {
  auto at = std::find(layouts_.begin(), layouts_.end(), layout);
  if (at == layouts_.end()) at = layouts_.insert(layouts_.end(), layout);
  return str("L", at - layouts_.begin());
}

std::string Emitter::array_type(const Value* array) const {
  return str("Array<", array->type.dtype, ", ", array->type.array_rank, ", ", facts(array).index_type(), ">");
}

std::string Emitter::type(const Type& type, const Layout& layout) {
  if (type.is_scalar()) return str(type.dtype);
  return str("Tile<", type.dtype, ", ", this->layout(layout), ">");
}

void Emitter::line(const Op& op, const std::string& text) {
  body_ += std::string(static_cast<size_t>(depth_) * 2, ' ') + text;
  if (op.location.known()) body_ += str("  // ", op.location);
  body_ += '\n';
}

void Emitter::synchronize(const Op& op) {
  line(op, str("synchronize(", line_number(op), ");"));
  shared_is_read_ = false;
}
void Emitter::await_copies(const Op& op) {
  if (!copying_) return;
  line(op, "copy_async_wait<0>();");
  synchronize(op);
  copying_ = false;
}
void Emitter::wait_for_readers(const Op& op) {
  if (shared_is_read_) synchronize(op);
}
void Emitter::synchronize_memory(const Op& op) {
  leave_group(op);  // a barrier of a group does not order the accesses of the others
  if (plan_.cluster() == 1) return synchronize(op);
  meet_blocks(op);
  line(op, str("arrive_in_cluster(", line_number(op), ");"));
  line(op, str("wait_in_cluster(", line_number(op), ");"));
}
void Emitter::meet_blocks(const Op& op) {
  if (met_) return;
  line(op, str("wait_in_cluster(", line_number(op), ");"));
  met_ = true;
}

void Emitter::result(const Op& op, const std::string& expression) { result(op, op.results[0], expression); }
void Emitter::result(const Op& op, const Value* value, const std::string& expression) {
  const std::string type =
      value->type.is_array() ? array_type(value) : this->type(value->type, layout_of(value));
  line(op, str("const ", type, " ", name(value), " = ", expression, ";"));
}

void Emitter::result_in(const Op& op, const Layout& given, const std::string& expression) {
  result_in(op, op.results[0], given, expression);
}
void Emitter::result_in(const Op& op, const Value* value, const Layout& given,
                        const std::string& expression) {
  if (value->type.is_scalar() || given == layout_of(value)) return result(op, value, expression);
  const std::string before = temporary();
  line(op, str("const ", type(value->type, given), " ", before, " = ", expression, ";"));
  const Weights weights = row_major(value->type.shape);
  result(op, value, moved(op, before, value->type.dtype, given, weights, layout_of(value), weights));
}

std::string Emitter::made_anew(const Value* value, const Layout& wanted) {
  const Op* made = value->definition;
  if (repeats_scalar(value)) return str("full<", layout(wanted), ">(", name(made->operands[0]), ")");
  if (made && made->is("arange")) return str("arange<", value->type.dtype, ", ", layout(wanted), ">()");
  return {};
}

std::string Emitter::in_layout(const Op& op, const Value* value, const Layout& wanted) {
  if (value->type.is_scalar()) return str("full<", layout(wanted), ">(", name(value), ")");
  if (layout_of(value) == wanted) return name(value);
  if (std::string recomputed = made_anew(value, wanted); !recomputed.empty()) return recomputed;
  const std::string to = temporary();
  const Weights weights = row_major(value->type.shape);
  const std::string expression =
      moved(op, name(value), value->type.dtype, layout_of(value), weights, wanted, weights);
  line(op, str("const ", type(value->type, wanted), " ", to, " = ", expression, ";"));
  return to;
}

std::optional<std::vector<int>> Emitter::registers_of(const Op& op, const Value* operand) const {
  if (operand->type.is_scalar()) return std::vector<int>();
  const Layout &from = layout_of(operand), &to = layout_of(op.results[0]);
  const LoweringRule* lowering = find_lowering(op.name());
  const auto [from_weights, to_weights] =
      lowering->weights ? lowering->weights(op)
                        : std::pair(row_major(operand->type.shape), row_major(op.results[0]->type.shape));
  return register_map(from, from_weights, to, to_weights, plan_.threads(), plan_.cluster());
}

void Emitter::need_row(int operands, std::string_view row, std::string_view expression) {
  need("map.cuh");
  rows_.emplace(row, str("ROW", operands, "(", row, ", ", expression, ")\n"));
}

void Emitter::leave_group(const Op& op) {
  if (plan_.async() && !leaves_group_) leaves_group_ = &op;
}

void Emitter::need_shared(const Op& op, int64_t bytes) {
  leave_group(op);
  wait_for_readers(op);
  forget_operands();
  scratch_bytes_ = std::max(scratch_bytes_, round_up(bytes));
  check_shared(op);
}

int64_t Emitter::take_operand(const Op& op, const Value* operand, int64_t bytes, const std::string& name) {
  if (operands_.empty()) {
    need_shared(op, bytes);
    operand_bytes_ = 0;
  }
  operands_.emplace_back(operand, name);
  const int64_t offset = operand_bytes_;
  operand_bytes_ += round_up(bytes);
  scratch_bytes_ = std::max(scratch_bytes_, operand_bytes_);
  check_shared(op);
  return offset;
}

std::string Emitter::written_operand(const Value* operand) const {
  for (const auto& [value, name] : operands_)
    if (value == operand) return name;
  return {};
}

std::string Emitter::double_buffer(const Op& op, int64_t bytes) {
  leave_group(op);
  double_buffer_bytes_ = std::max(double_buffer_bytes_, round_up(bytes));
  check_shared(op);
  return "double_buffer(buffer)";
}
std::string Emitter::cluster_memory(const Op& op, int64_t bytes) {
  across_bytes_ = std::max(across_bytes_, round_up(bytes));
  check_shared(op);
  return "cluster_memory(cluster_buffer)";
}

size_t Emitter::add_assertion(const Op& op) {
  assertions_.push_back(Assertion::of(op, function_.name()));
  return assertions_.size() - 1;
}

std::string Emitter::tensor_map(const TensorMapSpec& map) {
  need("tensor_copies.cuh");
  auto at = std::find(tensor_maps_.begin(), tensor_maps_.end(), map);
  if (at == tensor_maps_.end()) at = tensor_maps_.insert(tensor_maps_.end(), map);
  return str("m", at - tensor_maps_.begin());
}

std::vector<Parameter> Emitter::parameters() const {
  const bool persistent = plan_.async() && plan_.async()->persistent;
  return parameters_of(function_.body().arguments.size() - (persistent ? 3 : 0), persistent,
                       tensor_maps_.size(), plan_.async() && plan_.async()->draws, !assertions_.empty(),
                       may_start_early(target_));
}

std::string Emitter::shared_pointer(DType dtype, int64_t offset) {
  return str("(", dtype, "*)", offset ? str("(shared_memory() + ", offset, ")") : "shared_memory()");
}

std::string Emitter::write_shared(const Op& op, const Value* tile, int64_t& bytes) {
  need("move.cuh");
  const Type& type = tile->type;
  const std::string memory = shared_pointer(type.dtype, bytes);
  bytes += (bytes_of(type) + 15) / 16 * 16;
  need_shared(op, bytes);
  line(op, str("write_shared<", weights_text(row_major(type.shape)), ">(", memory, ", ", name(tile), ", ",
               line_number(op), ");"));
  return memory;
}

int64_t Emitter::take_staged(const Op& op, int64_t bytes) {
  const int64_t offset = staged_;
  staged_ += round_up(bytes);
  staged_peak_ = std::max(staged_peak_, staged_);
  check_shared(op);
  return offset;
}

void Emitter::check_shared(const Op& op) const {
  if (shared_bytes() <= target_.shared_bytes) return;
  const std::string staged =
      staged_peak_ ? str(", ", staged_peak_, " of them for the tiles that are multiplied") : "";
  fail(op, ErrorKind::unsupported, "of ", op.results.empty() ? op.type(0) : op.results[0]->type, " needs ",
       shared_bytes(), " bytes of shared memory per block", staged, ", but the GPU has ",
       target_.shared_bytes, "; use smaller tiles");
}

std::string Emitter::define_struct(const std::string& prefix, const std::string& body) {
  int number = 0;
  for (const auto& [name, text] : structs_) {
    if (!name.starts_with(prefix)) continue;
    if (text == body) return name;
    ++number;
  }
  structs_.emplace_back(str(prefix, number), body);
  return structs_.back().first;
}

const Ring* Emitter::ring_of(const Op* loop) const {
  const auto found = rings_.find(loop);
  return found == rings_.end() ? nullptr : &found->second;
}

void Emitter::block(const Block& block) {
  forget_operands();
  for (const auto& each : block.ops) {
    // The CTAs of a cluster synchronize once before they first exchange data, outside of loops and branches.
    if (depth_ == 1 && !met_ && exchanges(*each)) meet_blocks(*each);
    op(*each);
  }
  forget_operands();
}

void Emitter::op(const Op& op) {
  if (op.is("constant") || emitted_.count(&op)) return;
  if (staging_.left_to_products(op)) return;
  const LoweringRule* lowering = find_lowering(op.name());
  if (!lowering)
    fail(op, ErrorKind::unsupported, "has no GPU implementation; run this kernel on CPU tensors");
  if (order_.barrier_before(op)) synchronize_memory(op);
  if (register_loops_.defer(op)) return;
  register_loops_.before_regions(op);
  if (!op.regions.empty() && !op.is("for")) await_copies(op);
  lowering->emit(*this, op);
}

std::string Emitter::declaration_of(const Parameter& parameter) const {
  switch (parameter.kind) {
    case ParameterKind::argument: {
      const Value* argument = function_.body().arguments[static_cast<size_t>(parameter.index)];
      const Type& type = argument->type;
      if (!type.is_array()) return str(type.dtype, " ", names_.at(argument));
      return str("ArrayParameter<", type.dtype, ", ", type.array_rank, facts(argument).wide ? ", i64" : "",
                 "> p", parameter.index);
    }
    case ParameterKind::grid: {
      const auto& arguments = function_.body().arguments;
      return str("i32 ", names_.at(arguments[arguments.size() - 3 + static_cast<size_t>(parameter.index)]));
    }
    case ParameterKind::tensor_map:
      return str("const TILE_CONSTANT TensorMap m", parameter.index);
    case ParameterKind::block_counter:
      return "u32 block_counter";
    case ParameterKind::failures:
      return "FailureLocation failures";
    case ParameterKind::starts_early:
      return "u32 starts_early";
  }
  return {};
}

// Initialises the barriers of the rings before any thread waits at one.
std::string Emitter::async_prologue() const {
  std::string text =
      "  const int group = this_group();\n"
      "  const SharedAddress memory = shared_address(shared_memory());\n"
      "  if (first_thread()) {\n";
  for (size_t i = 0; i < plan_.async()->rings.size(); ++i)
    text += str("    init_ring<Ring", i, ">(memory, 0);\n");
  if (plan_.async()->draws) text += "    init_queue<Queue0>(memory, 0);\n";
  text += "    publish_barriers();\n  }\n";
  if (plan_.async()->cluster == 1) return text + "  synchronize_all(0);\n";
  return text + "  const int half = block_of_cluster();\n  meet_pair(0);\n";
}

int Emitter::held() const {
  if (configuration_.single_cta) return 1;
  const int most = std::max(1, 2048 / plan_.threads());  // CTAs whose threads fit on a multiprocessor
  return configuration_.occupancy ? std::min(configuration_.occupancy, most) : plan_.blocks();
}

std::string Emitter::text() const {
  const AsyncPlan* async = plan_.async();
  const int threads = async ? async->threads() : plan_.threads();
  std::string text = str("// ", function_.name(), " for sm_", target_.arch, ", ", threads, " threads a block",
                         plan_.cluster() > 1 ? str(", clusters of ", plan_.cluster(), " blocks") : "",
                         async && async->cluster > 1 ? ", in pairs" : "", ".\n");
  for (const Conversion& conversion : conversions_) text += describe(conversion);
  if (async) text += "#define TILE_GROUPS\n";
  for (const std::string& header : headers_) text += str("#include \"cuda/device/", header, "\"\n");
  text += "\nnamespace tile {\n\n";
  for (const auto& [name, row] : rows_) text += row;
  if (!rows_.empty()) text += '\n';
  for (size_t i = 0; i < layouts_.size(); ++i)
    text += str("struct L", i, " {\n", layout_body(layouts_[i], plan_.threads(), plan_.cluster()), "};\n");
  for (const auto& [name, body] : structs_) text += str("struct ", name, " {\n", body, "};\n");
  if (staged_peak_)
    text += str("\nTILE char* staged_memory() { return shared_memory() + ",
                scratch_bytes_ + 2 * (double_buffer_bytes_ + across_bytes_), "; }\n");
  std::string views = may_start_early(target_) ? "  wait_for_kernels_before(starts_early);\n" : "";
  const auto add_double_buffer = [&](const char* memory, const char* index, int64_t offset, int64_t bytes) {
    if (!bytes) return;
    text += str("\nTILE char* ", memory, "(int& buffer) {\n  buffer ^= 1;\n  return shared_memory() + ",
                offset, " + buffer * ", bytes, ";\n}\n");
    views += str("  int ", index, " = 0;\n");
  };
  add_double_buffer("double_buffer", "buffer", scratch_bytes_, double_buffer_bytes_);
  add_double_buffer("cluster_memory", "cluster_buffer", scratch_bytes_ + 2 * double_buffer_bytes_,
                    across_bytes_);
  if (plan_.cluster() > 1) views += "  arrive_in_cluster(0);\n";
  if (async) views += async_prologue();
  const auto& arguments = function_.body().arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i]->type.is_array()) continue;
    views += str("  const ", array_type(arguments[i]), " ", names_.at(arguments[i]), " = array_of<",
                 facts(arguments[i]).unit, ", ", facts(arguments[i]).index_type(), ">(p", i, ");\n");
  }
  const std::string declarations =
      join(parameters(), ", ", [&](const Parameter& parameter) { return declaration_of(parameter); });
  text += str("\nTILE_KERNEL(", threads, ", ", held(), ") ", entry_, "(", declarations, ") {\n", views, body_,
              plan_.cluster() > 1 && !met_ ? "  wait_in_cluster(0);\n" : "",
              async && async->cluster > 1 ? "  meet_pair(0);\n" : "", "}\n\n", "}  // namespace tile\n");
  return text;
}

}  // namespace tile::cuda
