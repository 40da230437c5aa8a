// Definitions with a mistake, selected by name, and redefinition; the tests call them through ctypes.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <cstdio>
#include <map>

#include "torch/op.h"

namespace {

using at::Tensor;
using tile::op;
using tile::Operator;

Tensor same(const Tensor& x) { return at::empty_like(x); }
void fill(const Tensor&, Tensor&) {}
struct Scaling {
  const Tensor& x;
  int64_t factor;
};
struct Nested {
  Scaling scaling;
  bool round;
};
Operator unary(const char* schema, tile::Location where = tile::Location::current()) {
  return op(schema, where).outputs(same).run(fill);
}

const std::map<std::string, Operator (*)()> mistakes{
    {"derived_of_written",
     [] { return op("tw::derived_of_written(Tensor(a!) x) -> ()").grad_by_compiler(); }},
    {"derived_of_lists", [] { return op("tw::derived_of_lists(Tensor[] x) -> Tensor").grad_by_compiler(); }},
    {"derived_lists", [] { return op("tw::derived_lists(Tensor x) -> Tensor[]").grad_by_compiler(); }},
    {"saved_late",
     [] { return op("tw::saved_late(Tensor x) -> Tensor").grad_by_compiler().saves("Tensor mean"); }},
    {"derived_of_nothing", [] { return op("tw::derived_of_nothing(int n) -> Tensor").grad_by_compiler(); }},
    {"derived_constant",
     [] { return op("tw::derived_constant(Tensor x) -> Tensor").grad_by_compiler({"seed"}); }},
    {"syntax", [] { return op("tw::syntax(Tensor x -> Tensor"); }},
    {"type", [] { return op("tw::type(tensor x) -> Tensor"); }},
    {"namespace", [] { return op("scale(Tensor x) -> Tensor"); }},
    {"overload", [] { return op("tw::f.out(Tensor x) -> Tensor"); }},
    {"result", [] { return op("tw::result(Tensor x) -> (Tensor, int)"); }},
    {"writes", [] { return op("tw::writes(Tensor(a!) x) -> Tensor"); }},
    {"twice",
     [] { return unary("tw::twice(Tensor x) -> Tensor"), op("tw::twice(Tensor x, int k=3) -> Tensor"); }},
    {"torchs",
     [] { return op("aten::add.Tensor(Tensor x) -> Tensor"), op("aten::relu(Tensor x) -> Tensor"); }},
    {"count", [] { return op("tw::count(Tensor x, float f) -> Tensor").outputs(same); }},
    {"parameter",
     [] {
       return op("tw::parameter(Tensor x, float f) -> Tensor").outputs([](const Tensor& x, int64_t) {
         return x;
       });
     }},
    {"field",
     [] {
       return op("tw::field(Tensor x, float f) -> Tensor").outputs([](const Scaling& of) { return of.x; });
     }},
    {"nested_field",
     [] {
       return op("tw::nested_field(Tensor x, int f, float g) -> Tensor").outputs([](const Nested& of) {
         return of.scaling.x;
       });
     }},
    {"field_count",
     [] {
       return op("tw::field_count(Tensor x, int f) -> Tensor").outputs([](const Nested& of) {
         return of.scaling.x;
       });
     }},
    {"symbolic",
     [] {
       return op("tw::symbolic(Tensor x, SymInt n) -> Tensor").outputs([](const Tensor& x, int64_t) {
         return x;
       });
     }},
    {"optional",
     [] {
       return op("tw::optional(Tensor x, SymInt[]? n) -> Tensor").run([](const Tensor&, double, Tensor&) {});
     }},
    {"mask",
     [] {
       return op("tw::mask(Tensor x, bool[2] output_mask) -> Tensor")
           .outputs([](const Tensor& x, std::array<bool, 3>) { return x; });
     }},
    {"returns", [] { return op("tw::returns(Tensor x) -> (Tensor a, Tensor b)").outputs(same); }},
    {"run_results",
     [] {
       return op("tw::run_results(Tensor x) -> Tensor").outputs(same).run([](const Tensor&, double) {});
     }},
    {"run_returns",
     [] {
       return op("tw::run_returns(Tensor x) -> Tensor").outputs(same).run([](const Tensor& x, Tensor&) {
         return x;
       });
     }},
    {"no_run", [] { return op("tw::no_run(Tensor x) -> Tensor").outputs(same); }},
    {"no_outputs", [] { return op("tw::no_outputs(Tensor x) -> Tensor").run(fill); }},
    {"no_saved",
     [] {
       return op("tw::no_saved(Tensor x) -> Tensor")
           .outputs(same)
           .saves("Tensor s")
           .run([](const Tensor&, Tensor&, Tensor&) {});
     }},
    {"late_saves", [] { return unary("tw::late_saves(Tensor x) -> Tensor").saves("Tensor s"); }},
    {"saves_writes", [] { return op("tw::saves_writes(Tensor(a!) x) -> ()").saves("Tensor s"); }},
    {"early_saved", [] { return op("tw::early_saved(Tensor x) -> Tensor").saved_outputs(same); }},
    {"nameless", [] { return op("tw::nameless(Tensor x) -> Tensor").saves("Tensor"); }},
    {"nothing_early",
     [] { return op("tw::nothing_early(Tensor x) -> Tensor").saves("Tensor y_grad", "tw::s_"); }},
    {"grad_name", [] { return unary("tw::grad_name(Tensor x) -> Tensor").grad("back"); }},
    {"grad_writes", [] { return op("tw::grad_writes(Tensor(a!) x) -> ()").grad("tw::back"); }},
    {"grad_over_two",
     [] { return op("tw::grad_over_two(Tensor x) -> (Tensor a, Tensor b)").grad("tw::back", "tw::back_"); }},
    {"grad_over_name",
     [] { return unary("tw::grad_over_name(Tensor x) -> Tensor").grad("tw::back", "back_"); }},
    {"grad_missing", [] { return unary("tw::grad_missing(Tensor x) -> Tensor").grad("tw::nowhere"); }},
    {"grad_argument",
     [] {
       return op("tw::ga_back(Tensor grad_out, Tensor z) -> Tensor grad_x"),
              unary("tw::ga(Tensor x) -> Tensor").grad("tw::ga_back");
     }},
    {"grad_type",
     [] {
       return op("tw::gt_back(Tensor grad_a, int x) -> Tensor grad_x"),
              op("tw::gt(Tensor x) -> (Tensor a, Tensor b)")
                  .outputs([](const Tensor& x) { return std::tuple(x, x); })
                  .run([](const Tensor&, Tensor&, Tensor&) {})
                  .grad("tw::gt_back");
     }},
    {"grad_optional",
     [] {
       return op("tw::go_back(Tensor grad_a, Tensor? grad_b) -> Tensor grad_x"),
              op("tw::go(Tensor x) -> (Tensor a, Tensor b)")
                  .outputs([](const Tensor& x) { return std::tuple(x, x); })
                  .run([](const Tensor&, Tensor&, Tensor&) {})
                  .grad("tw::go_back");
     }},
    {"grad_result",
     [] {
       return op("tw::gr_back(Tensor grad_out) -> Tensor"),
              unary("tw::gr(Tensor x) -> Tensor").grad("tw::gr_back");
     }},
    {"grad_shared",
     [] {
       return op("tw::gs_back(Tensor grad_out) -> Tensor grad_x_and_z"),
              op("tw::gs(Tensor x, Tensor y, float f) -> Tensor")
                  .outputs([](const Tensor& x, const Tensor&, double) { return x; })
                  .run([](const Tensor&, const Tensor&, double, Tensor&) {})
                  .grad("tw::gs_back");
     }},
    {"grad_twice",
     [] {
       return op("tw::g2_back(Tensor grad_out) -> (Tensor grad_y, Tensor grad_x_and_y)"),
              op("tw::g2(Tensor x, Tensor y) -> Tensor")
                  .outputs([](const Tensor& x, const Tensor&) { return x; })
                  .run([](const Tensor&, const Tensor&, Tensor&) {})
                  .grad("tw::g2_back");
     }},
    {"grad_mask",
     [] {
       return op("tw::gm_back(Tensor grad_out, bool[2] output_mask) -> Tensor grad_x"),
              unary("tw::gm(Tensor x) -> Tensor").grad("tw::gm_back");
     }},
    {"autocast", [] { return unary("tw::autocast(Tensor x) -> Tensor").autocast("half"); }},
    {"leading", [] { return unary("tw::leading(Tensor x) -> Tensor").leading({"y"}); }},
    {"sums", [] { return unary("tw::sums(Tensor x) -> Tensor").fold({"x"}, {"z"}); }},
    {"number",
     [] {
       return op("tw::number(Tensor x) -> (Tensor a, Tensor b)")
           .outputs([](const Tensor& x) { return std::vector<Tensor>{x}; })
           .run([](const Tensor&, Tensor&, Tensor&) {});
     }},
};

int report(const std::exception& error, char* text, int size) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  std::snprintf(text, size, "%s", torch ? torch->what_without_backtrace() : error.what());
  return 1;
}

}  // namespace

// Makes the mistake and writes the error of the operator's check(); returns 0 if there is none.
extern "C" __attribute__((visibility("default"))) int tile_test_mistake(const char* name, char* text,
                                                                        int size) {
  try {
    mistakes.at(name)().check();
    return 0;
  } catch (const std::exception& error) {
    return report(error, text, size);
  }
}

// Its destructor runs when a definition is replaced, and defines another operator at once: that would reuse
// the dispatcher's memory, if it had been freed.
struct Successor {
  ~Successor() {
    static auto* const kept = new std::vector<std::unique_ptr<torch::Library>>;
    kept->push_back(std::make_unique<torch::Library>(torch::Library::FRAGMENT, "tr_other", std::nullopt,
                                                     __FILE__, __LINE__));
    kept->back()->def(tile::str("f", kept->size(), "(Tensor x) -> Tensor").c_str());
  }
};

// (Re)defines tr::f to fill with a value.
extern "C" __attribute__((visibility("default"))) int tile_test_redefine(const char* schema, double value,
                                                                         char* text, int size) {
  try {
    auto outputs = [](const Tensor& x) { return at::empty_symint(x.sym_sizes(), x.options()); };
    auto run = [value, successor = std::make_shared<Successor>()](const Tensor&, Tensor& out) {
      out.fill_(value);
    };
    tile::Operator f = tile::redefine(schema);
    if (std::string_view(schema).find("int k") == std::string_view::npos)
      f.outputs(outputs).run(run).grad("tr::f_backward");
    else
      f.outputs([=](const Tensor& x, int64_t) {
         return outputs(x);
       }).run([=](const Tensor& x, int64_t, Tensor& out) { run(x, out); });
    f.check();
    return 0;
  } catch (const std::exception& error) {
    return report(error, text, size);
  }
}
extern "C" __attribute__((visibility("default"))) int tile_test_redefine_gradient(const char* schema,
                                                                                  double value, char* text,
                                                                                  int size) {
  try {
    tile::Operator f = tile::redefine(schema);
    if (std::string_view(schema).find("Tensor x") == std::string_view::npos)
      f.outputs([](const Tensor& g) { return at::empty_like(g); }).run([value](const Tensor& g, Tensor& out) {
        out.copy_(g * value);
      });
    else
      f.outputs([](const Tensor& g, const Tensor&) {
         return at::empty_like(g);
       }).run([value](const Tensor& g, const Tensor&, Tensor& out) { out.copy_(g * value); });
    f.check();
    return 0;
  } catch (const std::exception& error) {
    return report(error, text, size);
  }
}

// Calls operators from C++: defaults, conversions, several results.
extern "C" __attribute__((visibility("default"))) int tile_test_call(char* text, int size) {
  try {
    static const auto pair =
        op("tc::pair(Tensor x, float f=2, Tensor? t=None, str s=\"a\") -> (Tensor a, Tensor b)")
            .outputs([](const Tensor& x, double, const std::optional<Tensor>&, const std::string&) {
              return std::tuple(at::empty_like(x), at::empty_like(x));
            })
            .run([](const Tensor& x, double f, const std::optional<Tensor>&, const std::string& s, Tensor& a,
                    Tensor& b) {
              a.copy_(x * f);
              b.fill_(static_cast<double>(s.size()));
            });
    const Tensor x = at::empty({2}).fill_(1);
    auto [a, b] = pair.call<std::tuple<Tensor, Tensor>>(x, 3, std::nullopt, "long");
    auto [c, d] = pair.call<std::tuple<Tensor, Tensor>>(x);
    TORCH_CHECK(a.sum().item<double>() == 6 && b.sum().item<double>() == 8 && c.sum().item<double>() == 4 &&
                d.sum().item<double>() == 2);
    pair.call(x);
    return 0;
  } catch (const std::exception& error) {
    return report(error, text, size);
  }
}
