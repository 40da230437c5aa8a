// Assigns frame indices and slots to values, and registers lowering rules.
#include "cpu/interpreter/lowering_context.h"

#include "cpu/interpreter/tables.h"
#include "ir/rounding.h"
#include "ir/walk.h"

namespace tile::cpu {
namespace {

std::multimap<std::string_view, LoweringRule>& registry() {
  static auto& table = *new std::multimap<std::string_view, LoweringRule>;
  return table;
}

template <class Map>
int number(Map& map, const Value* value) {
  return map.emplace(value, static_cast<int>(map.size())).first->second;
}

}  // namespace

AddLoweringRule::AddLoweringRule(const LoweringRule& lowering) {
  registry().emplace(lowering.name, lowering);
}

const LoweringRule* find_lowering(const LoweringContext& lower, const Op& op) {
  auto [from, to] = registry().equal_range(op.name());
  for (auto at = from; at != to; ++at)
    if (!at->second.applies || at->second.applies(lower, op)) return &at->second;
  return nullptr;
}

bool has_cpu_body(std::string_view name) {
  if (registry().count(name)) return true;
  static const std::string_view control[] = {"for",   "loop",     "if",       "yield",
                                             "break", "continue", "constant", "store"};
  if (std::find(std::begin(control), std::end(control), name) != std::end(control)) return true;
  for (int lane = 0; lane < lane_count; ++lane)
    if (find_elementwise(name, static_cast<Lane>(lane)) || find_reduce(name, static_cast<Lane>(lane)))
      return true;
  return rounding_of_cast(name).has_value();
}

void store_constant(Scalar& to, const Op& op) {
  Constant constant = Constant::of(op.dtype("dtype"), *op.attributes.find("value"));
  to.i = 0;
  switch (lane_of(constant.dtype)) {
    case Lane::f32:
      to.f = static_cast<float>(constant.floating);
      break;
    case Lane::f64:
      to.d = constant.floating;
      break;
    default:
      to.i = constant.integer;  // little-endian: the low bytes are the narrower lanes
  }
}

bool is_tile_view(const Op& op) {
  if (op.is("broadcast") || op.is("permute")) return !op.type(0).is_scalar();
  if (!op.is("reshape")) return false;
  Shape from = op.type(0).shape, to = op.results[0]->type.shape;
  std::erase(from, 1);
  std::erase(to, 1);
  return from == to;
}

const Value* viewed(const Value* value) {
  while (value->definition && !value->type.is_array() && is_tile_view(*value->definition))
    value = value->definition->operands[0];
  return value;
}

LoweringContext::LoweringContext(const Function& function)
    : function_(function), precision_(function), in_place_(find_in_place(function)) {
  walk(function.body(), [&](const Op& op) {
    read_.insert(op.operands.begin(), op.operands.end());
    if (!op.traits().writes) return;
    for (const Value* operand : op.operands)
      if (operand->type.is_array()) written_.insert(root_array(operand));
  });
}

OpNodes LoweringContext::body() {
  for (const Value* argument : function_.body().arguments)
    argument->type.is_array() ? array(argument) : scalar(argument);
  return block(function_.body());
}

int LoweringContext::tile(const Value* value) { return number(tiles_, value); }
int LoweringContext::array(const Value* value) { return number(arrays_, value); }

int LoweringContext::scalar(const Value* value) {
  auto [at, fresh] = scalars_.emplace(value, static_cast<int>(scalar_values_.size()));
  if (fresh) {
    scalar_values_.emplace_back();
    if (value->definition && value->definition->is("constant"))
      store_constant(scalar_values_.back(), *value->definition);
  }
  return at->second;
}

bool LoweringContext::is_written(const Value* array) const { return written_.count(root_array(array)) != 0; }
bool LoweringContext::stays_in_memory(const Op& load) const {
  return !load.results[0]->type.is_scalar() &&
         (!is_written(load.operands[0]) || in_place_.loads.count(&load));
}

bool LoweringContext::keeps_lanes(const Op& cast) const {
  const DType from = cast.type(0).dtype, to = cast.results[0]->type.dtype;
  return !cast.type(0).is_scalar() && to == DType::f32 && from != DType::f32 && lane_of(from) == Lane::f32 &&
         memory_load(cast.operands[0]);
}

const Op* LoweringContext::memory_load(const Value* value) const {
  const Op* op = viewed(value)->definition;
  while (op && op->is("astype") && keeps_lanes(*op)) op = viewed(op->operands[0])->definition;
  return op && op->is("load") && stays_in_memory(*op) ? op : nullptr;
}

bool LoweringContext::read_as_elements(const Value* value, const std::vector<const Op*>& but) const {
  if (stored_as_lane(value->type.dtype)) return false;  // lanes and elements have the same format
  bool all = true;
  walk(function_.body(), [&](const Op& op) {
    for (size_t k = 0; k < op.operands.size() && all; ++k) {
      if (op.operands[k] != value || std::find(but.begin(), but.end(), &op) != but.end()) continue;
      const LoweringRule* lowering = op.traits().terminator ? nullptr : find_lowering(*this, op);
      all = is_tile_view(op) ? read_as_elements(op.results[0], {})
                             : lowering && lowering->reads_elements && lowering->reads_elements(*this, op, k);
    }
  });
  return all;
}

int LoweringContext::new_slot(const Type& type, size_t bytes) {
  bytes = std::max(bytes, static_cast<size_t>(element_count(type.shape) * lane_bytes(lane_of(type.dtype))));
  slot_bytes_.push_back((bytes + 63) / 64 * 64);
  return static_cast<int>(slot_bytes_.size() - 1);
}

int LoweringContext::slot(const Value* value) {
  if (auto at = slots_.find(value); at != slots_.end()) return at->second;
  int slot = -1;
  auto bytes = static_cast<size_t>(element_count(value->type.shape) * lane_bytes(lane_of(value->type.dtype)));
  auto free = free_slots_.lower_bound(bytes);
  if (dedicated_.count(value)) {
    slot = new_slot(value->type);
    kept_slots_.insert(slot);
  } else if (free != free_slots_.end() && free->first <= 4 * bytes + 4096) {
    slot = free->second;
    free_slots_.erase(free);
  } else {
    slot = new_slot(value->type);
  }
  return slots_[value] = slot;
}

int LoweringContext::owned_slot(const Value* value) {
  dedicated_.insert(value);
  return slot(value);
}

int LoweringContext::slot_or_none(const Value* value) const {
  auto at = slots_.find(value);
  return at == slots_.end() ? -1 : at->second;
}

bool LoweringContext::exchangeable(int a, int b) const {
  return slot_bytes_[static_cast<size_t>(a)] == slot_bytes_[static_cast<size_t>(b)] && kept_slots_.count(a) &&
         kept_slots_.count(b);
}

bool LoweringContext::take_over(const Op& op, size_t operand) {
  const Value *from = op.operands[operand], *owner = viewed(from), *result = op.results[0];
  auto at = slots_.find(owner);
  // The buffer may be reused only if no view changes the order of the operand's elements.
  if (owner != from || at == slots_.end() || !last_used_here_.count(from) || from->type != result->type ||
      !kept_slots_.count(at->second))
    return false;
  slots_[result] = at->second;
  return true;
}

TileAddress LoweringContext::address(const Op& op, size_t first_index, const Shape& shape) {
  TileAddress address;
  address.array = array(op.operands[0]);
  for (size_t i = first_index; i < op.operands.size(); ++i) address.index.push_back(index(op.operands[i]));
  address.shape = shape;
  address.steps = op.integers("steps");
  if (op.has("pad")) address.pad = op.number("pad");
  return address;
}

namespace {
// A scalar as a tile of rank 0.
struct ScalarTile final : OpNode {
  int scalar, tile;
  DType dtype;
  Signal run(Frame& frame) const override {
    TileRef& ref = frame.tiles[static_cast<size_t>(tile)];
    ref = TileRef{};
    ref.data = frame.scalars[static_cast<size_t>(scalar)].bytes;
    ref.dtype = dtype;
    return Signal::next;
  }
};
}  // namespace

int LoweringContext::input(const Value* value, OpNodes& before) {
  if (!value->type.is_scalar()) return tile(value);
  auto node = std::make_unique<ScalarTile>();
  node->scalar = scalar(value);
  node->tile = tile(value);
  node->dtype = value->type.dtype;
  int id = node->tile;
  before.push_back(std::move(node));
  return id;
}

}  // namespace tile::cpu
