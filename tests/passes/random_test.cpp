// Tests that the pipeline preserves the meaning of random programs: loops with all kinds of masks, branches,
// breaks, and loads and stores of shared arrays.
#include <random>

#include "evaluate.h"
#include "ir/build.h"
#include "pass_text.h"

namespace tile {
namespace {

constexpr int64_t width = 4;

class Generator {
 public:
  explicit Generator(unsigned seed)
      : random_(seed), function_("random"), build_(function_, function_.body()) {
    Block& body = function_.body();
    for (int i = 0; i < 3; ++i)
      arrays_.push_back(function_.add_argument(body, Type::array(DType::f32, 1), {"", 0}));
    for (int i = 0; i < 3; ++i)
      scalars_.push_back(function_.add_argument(body, Type::tile(DType::i32), {"", 0}));
    scalars_.push_back(build_.emit("bid", {}, {{"axis", int64_t{0}}}));
    for (Value* array : arrays_) scalars_.push_back(build_.emit("dim", {array}, {{"axis", int64_t{0}}}));
    Value* lanes = build_.emit("arange", {}, {{"dtype", DType::i32}, {"size", width}});
    indices_.push_back(lanes);
    tiles_.push_back(build_.emit("astype", {lanes}, {{"dtype", DType::f32}}));
    ops(8 + below(6), 0);
    for (int i = 0; i < 3; ++i)
      build_.create(primitive("store"),
                    {arrays_[0], tiles_[tiles_.size() - 1 - below(std::min<size_t>(4, tiles_.size()))],
                     build_.constant(DType::i32, i)},
                    {{"steps", Shape{width}}});
  }
  Function take() { return std::move(function_); }

 private:
  size_t below(size_t n) { return random_() % n; }
  template <class T>
  T& pick(std::vector<T>& list) {
    return list[below(list.size())];
  }
  std::string_view any(std::initializer_list<std::string_view> names) {
    return names.begin()[below(names.size())];
  }
  Value* number() { return build_.constant(DType::i32, static_cast<int>(below(9)) - 3); }
  Value* wide(Value* value) { return build_.broadcast(value, {width}); }
  Value* scalar() { return below(4) ? pick(scalars_) : number(); }

  // index * a + lanes + offset, compared with a scalar.
  Value* mask() {
    Value* x = below(3) ? indices_.back() : pick(indices_);
    Value* y = wide(scalar());
    if (below(2)) std::swap(x, y);
    return build_.emit(any({"lt", "le", "gt", "ge", "lt", "ge", "eq", "ne"}), {x, y});
  }
  void store() {
    build_.create(primitive("store"), {pick(arrays_), pick(tiles_), scalar()}, {{"steps", Shape{width}}});
  }

  void ops(size_t count, int depth) {
    for (size_t i = 0; i < count; ++i) op(depth);
  }
  void op(int depth) {
    switch (below(depth < 3 ? 13 : 9)) {
      case 0:
        scalars_.push_back(build_.emit(any({"add", "sub", "minimum", "maximum"}), {scalar(), scalar()}));
        break;
      case 1:
        scalars_.push_back(build_.emit(any({"floordiv", "cdiv", "mod"}), {pick(scalars_), number()}));
        break;
      case 2: {
        Value* scaled = build_.emit("mul", {pick(scalars_), number()});
        indices_.push_back(build_.emit("add", {wide(scaled), pick(indices_)}));
        if (indices_.size() > 12) indices_.pop_back();
        break;
      }
      case 3:
        tiles_.push_back(
            build_.emit("load", {pick(arrays_), scalar()},
                        {{"pad", below(2) ? 0.0 : -1.5}, {"shape", Shape{width}}, {"steps", Shape{width}}}));
        break;
      case 4:
        store();
        break;
      // No minimum or maximum, since their result for 0 and -0 may be either.
      case 5:
        tiles_.push_back(build_.emit(any({"add", "sub", "mul"}), {pick(tiles_), pick(tiles_)}));
        break;
      case 6:
        tiles_.push_back(build_.emit(any({"neg", "abs", "floor"}), {pick(tiles_)}));
        break;
      case 7:
      case 8:
        tiles_.push_back(build_.emit("where", {masks(), pick(tiles_), pick(tiles_)}));
        break;
      case 9:
      case 10:
        counted(depth);
        break;
      case 11:
        branch(depth);
        break;
      case 12:
        unbounded_loop(depth);
        break;
    }
  }
  Value* masks() {
    Value* first = mask();
    return below(2) ? first : build_.emit(any({"bitwise_and", "bitwise_or"}), {first, mask()});
  }

  // Runs `fill` with the builder in a new block, and forgets the values created there.
  template <class Fill>
  std::unique_ptr<Block> region(Op& op, std::vector<Type> arguments, Fill fill) {
    auto block = std::make_unique<Block>();
    block->parent = &op;
    for (const Type& type : arguments) function_.add_argument(*block, type, {"", 0});
    auto scalars = scalars_, indices = indices_, tiles = tiles_;
    Block& outer = build_.block();
    build_.to_end(*block);
    fill(*block);
    build_.to_end(outer);
    scalars_ = scalars, indices_ = indices, tiles_ = tiles;
    return block;
  }
  Op& place(std::unique_ptr<Op> op) { return build_.insert(std::move(op)); }
  Type tile() const { return Type::tile(DType::f32, {width}); }

  void counted(int depth) {
    auto loop = std::make_unique<Op>();
    loop->primitive = &primitive("for");
    loop->location = {"", 0};
    Value* limit = build_.constant(DType::i32, 7);
    Value* high = build_.emit("minimum", {scalar(), limit});
    Value* low = build_.emit("maximum", {below(2) ? number() : scalar(), build_.constant(DType::i32, -3)});
    loop->operands = {low, high, build_.constant(DType::i32, below(3) ? 1 : 2), pick(tiles_), pick(tiles_)};
    loop->regions.push_back(region(*loop, {Type::tile(DType::i32), tile(), tile()}, [&](Block& block) {
      Value* index = block.arguments[0];
      scalars_.push_back(index);
      Value* scaled = build_.emit("mul", {index, number()});
      indices_.push_back(build_.emit("add", {wide(scaled), pick(indices_)}));
      for (int i = 0; i < 2; ++i) tiles_.push_back(block.arguments[static_cast<size_t>(1 + i)]);
      ops(below(5), depth + 1);
      Value* masked = build_.emit("where", {masks(), tiles_.back(), pick(tiles_)});
      // Subtraction makes the result depend on the order of iterations.
      Value* sum = build_.emit("sub", {masked, block.arguments[1]});
      build_.create(primitive("yield"), {sum, below(4) ? pick(tiles_) : block.arguments[2]});
    }));
    Op& op = place(std::move(loop));
    tiles_.insert(tiles_.end(), op.results.begin(), op.results.end());
  }
  void branch(int depth) {
    auto op = std::make_unique<Op>();
    op->primitive = &primitive("if");
    op->location = {"", 0};
    op->operands = {build_.emit(any({"lt", "ge"}), {scalar(), scalar()})};
    for (int i = 0; i < 2; ++i)
      op->regions.push_back(region(*op, {}, [&](Block&) {
        ops(1 + below(3), depth + 1);
        build_.create(primitive("yield"), {pick(tiles_)});
      }));
    tiles_.push_back(place(std::move(op)).result());
  }
  void unbounded_loop(int depth) {  // a counter bounds it
    auto loop = std::make_unique<Op>();
    loop->primitive = &primitive("loop");
    loop->location = {"", 0};
    loop->operands = {build_.constant(DType::i32, 0), pick(tiles_), pick(tiles_)};
    Value* limit = build_.emit("minimum", {scalar(), build_.constant(DType::i32, 5)});
    loop->regions.push_back(region(*loop, {Type::tile(DType::i32), tile(), tile()}, [&](Block& block) {
      Value* count = block.arguments[0];
      tiles_.push_back(block.arguments[1]);
      ops(1 + below(3), depth + 1);
      auto leave = std::make_unique<Op>();
      leave->primitive = &primitive("if");
      leave->location = {"", 0};
      leave->operands = {build_.emit("ge", {count, limit})};
      leave->regions.push_back(region(*leave, {}, [&](Block&) {
        ops(1, depth + 1);
        build_.create(primitive("break"), {count, pick(tiles_), block.arguments[2]});
      }));
      leave->regions.push_back(region(*leave, {}, [&](Block&) { build_.create(primitive("yield"), {}); }));
      place(std::move(leave));
      ops(1 + below(2), depth + 1);
      Value* next = build_.emit("add", {count, build_.constant(DType::i32, 1)});
      build_.create(primitive("continue"),
                    {next, pick(tiles_), below(3) ? block.arguments[2] : pick(tiles_)});
    }));
    Op& op = place(std::move(loop));
    scalars_.push_back(op.results[0]);
    tiles_.insert(tiles_.end(), op.results.begin() + 1, op.results.end());
  }

  std::mt19937 random_;
  Function function_;
  Builder build_;
  std::vector<Value*> arrays_, scalars_, indices_, tiles_;
};

std::vector<Elements> arguments(std::mt19937& random) {
  std::vector<Elements> list;
  for (int i = 0; i < 3; ++i) {
    Elements elements;
    for (unsigned n = (i == 0 ? 12 : 0) + random() % 23; n-- > 0;)
      elements.push_back(Constant::of(DType::f32, static_cast<double>(random() % 64) / 4 - 8));
    if (!elements.empty() && random() % 4 == 0) elements[0] = Constant::of(DType::f32, -0.0);
    list.push_back(elements);
  }
  for (int i = 0; i < 3; ++i) list.push_back({Constant::of(DType::i32, static_cast<int>(random() % 24) - 6)});
  return list;
}

void compare(const PipelineOptions& options, unsigned first_seed, unsigned programs) {
  for (unsigned seed = first_seed; seed < first_seed + programs; ++seed) {
    Function before = Generator(seed).take();
    std::string text = print(before, false);
    ASSERT_EQ(print(parse(text), false), text);
    Function after = parse(text);
    ASSERT_NO_THROW(run_passes(after, options)) << "seed " << seed << '\n' << text;
    std::string result = print(after, false);
    std::mt19937 random(seed);
    for (int round = 0; round < 6; ++round) {
      auto given = arguments(random);
      int64_t block = static_cast<int64_t>(random() % 4);
      try {
        Evaluation x(before, given, block), y(after, given, block);
        ASSERT_TRUE(x.memory() == y.memory()) << "seed " << seed << '\n' << text << "became\n" << result;
      } catch (const std::exception& error) {
        FAIL() << error.what() << " at seed " << seed << '\n' << text << "became\n" << result;
      }
    }
  }
}

TEST(RandomPrograms, MeanTheSameAfterThePipeline) { compare({}, 1, 600); }
TEST(RandomPrograms, MeanTheSameWithSplitTails) { compare({.split_tails = true}, 1001, 600); }

}  // namespace
}  // namespace tile
