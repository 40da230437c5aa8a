// Parses signatures and finds the kernels in a source.
#include "raw_cuda/c_type.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <utility>

#include "support/error.h"

namespace tile {
namespace {

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  TILE_CHECK(text, name, " is no mangled name");
  return text.get();
}

// Splits at commas outside of brackets.
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '<' || text[i] == '(' || text[i] == '[' || text[i] == '{';
    depth -= text[i] == '>' || text[i] == ')' || text[i] == ']' || text[i] == '}';
    if (text[i] != ',' || depth) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 2;
  }
  if (begin < text.size()) parts.push_back(text.substr(begin));
  return parts;
}

std::string_view between(std::string_view text, std::string_view before, std::string_view after) {
  const size_t begin = text.find(before) + before.size();
  return text.substr(begin, text.rfind(after) - begin);
}

// Compilers name integer types of a width differently, so the width decides.
std::optional<DType> dtype_of(std::string_view text, int bytes) {
  constexpr std::pair<std::string_view, DType> others[] = {
      {"bool", DType::boolean},        {"float", DType::f32},          {"double", DType::f64},
      {"__half", DType::f16},          {"__nv_bfloat16", DType::bf16}, {"__nv_fp8_e4m3", DType::f8e4m3},
      {"__nv_fp8_e5m2", DType::f8e5m2}};
  for (const auto& [name, dtype] : others)
    if (text == name) return dtype;
  constexpr std::string_view integers[] = {"char", "signed char", "short", "int", "long", "long long"};
  constexpr std::string_view prefix = "unsigned ";
  const bool natural = text.starts_with(prefix);
  if (natural) text.remove_prefix(prefix.size());
  if (std::find(std::begin(integers), std::end(integers), text) == std::end(integers)) return std::nullopt;
  if (!bytes) bytes = text == "short" ? 2 : text == "int" ? 4 : text.starts_with("long") ? 8 : 1;
  const int power = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
  return static_cast<DType>(static_cast<int>(natural ? DType::u8 : DType::i8) + power);
}

// Returns the alignment of float4 and similar types, and of pairs of 16-bit values.
int vector_alignment(std::string_view text) {
  for (const std::string_view pair : {"__half2", "__nv_bfloat162"})
    if (text == pair) return 4;
  constexpr std::pair<std::string_view, int> numbers[] = {
      {"char", 1},  {"uchar", 1},  {"short", 2}, {"ushort", 2},   {"int", 4},       {"uint", 4},
      {"float", 4}, {"double", 8}, {"long", 8},  {"longlong", 8}, {"ulonglong", 8}, {"ulong", 8}};
  const std::string_view number = text.substr(0, text.empty() ? 0 : text.size() - 1);
  for (const auto& [name, bytes] : numbers)
    if (number == name) switch (text.back()) {
        case '1':
        case '3':
          return bytes;
        case '2':
          return 2 * bytes;
        case '4':
          return std::min(4 * bytes, 16);
      }
  return 1;
}

CType type_of(std::string_view text, int bytes, bool is_enum) {
  CType type{.bytes = bytes, .text = std::string(text)};
  if (text.ends_with('*')) {
    type.kind = CType::Kind::pointer;
    std::string_view to = text.substr(0, text.size() - 1);
    const auto strip = [&](std::string_view word) {
      const bool ends = to.ends_with(word);
      if (ends) to.remove_suffix(word.size());
      return ends;
    };
    strip(" volatile");  // follows const in a demangled name
    type.writes = !strip(" const");
    type.dtype = dtype_of(to, 0);
    type.alignment = type.dtype ? info(*type.dtype).bytes : vector_alignment(to);
  } else if (type.dtype = dtype_of(text, bytes); type.dtype) {
    type.kind = is_integer(*type.dtype)    ? CType::Kind::integer
                : is_floating(*type.dtype) ? CType::Kind::floating
                                           : CType::Kind::boolean;
    type.is_signed = is_signed(*type.dtype);
  } else if (is_enum) {
    type.kind = CType::Kind::integer;
    type.is_signed = true;
  }
  return type;
}

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Replaces comments and strings by spaces.
std::string code_of(std::string_view source) {
  std::string code(source);
  const auto blank = [&](size_t begin, size_t end) {
    end = std::min(end, code.size());
    std::fill(code.begin() + static_cast<long>(begin), code.begin() + static_cast<long>(end), ' ');
    return end;
  };
  for (size_t i = 0; i < code.size(); ++i) {
    if (code.compare(i, 2, "//") == 0)
      i = blank(i, code.find('\n', i));
    else if (code.compare(i, 2, "/*") == 0)
      i = blank(i, code.find("*/", i) == code.npos ? code.npos : code.find("*/", i) + 2);
    else if (code[i] == '"')
      i = blank(i, code.find('"', i + 1) == code.npos ? code.npos : code.find('"', i + 1) + 1);
  }
  return code;
}

}  // namespace

const char* const signature_text =
    "\ntemplate <class, unsigned long, bool> struct tile_parameter;\n"
    "template <class> struct tile_signature;\n"
    "template <class... P> struct tile_signature<void (*)(P...)> {\n"
    "  typedef void type(tile_parameter<P, sizeof(P), __is_enum(P)>...);\n"
    "};\n"
    "template <class> __device__ char tile_signature_of;\n";

std::string signature_name(const std::string& kernel) {
  return "&tile_signature_of<tile_signature<decltype(&" + kernel + ")>::type>";
}

std::vector<CType> parameters_of(const std::string& lowered) {
  const std::string text = demangled(lowered);
  std::vector<CType> parameters;
  for (const std::string_view each : split(between(text, "void (", ")"))) {
    const auto parts = split(between(each, "tile_parameter<", ">"));
    TILE_CHECK(parts.size() == 3, text);
    int bytes = 0;
    std::from_chars(parts[1].data(), parts[1].data() + parts[1].size(), bytes);
    parameters.push_back(type_of(parts[0], bytes, parts[2] == "true"));
  }
  return parameters;
}

std::vector<std::string> kernels_in(std::string_view source) {
  const std::string code = code_of(source);
  std::vector<std::string> names;
  constexpr std::string_view global = "__global__";
  for (size_t at = 0; (at = code.find(global, at)) != code.npos;) {
    at += global.size();
    // Finds the name before the first "(" that does not belong to an attribute.
    for (size_t open = at; (open = code.find_first_of("(;{", open)) != code.npos && code[open] == '(';
         ++open) {
      size_t end = open;
      while (end > at && code[end - 1] == ' ') --end;
      size_t begin = end;
      while (begin > at && is_name(code[begin - 1])) --begin;
      const std::string name = code.substr(begin, end - begin);
      if (name.empty() || name == "__launch_bounds__" || name == "__cluster_dims__" ||
          name == "__attribute__" || name == "__block_size__" || name == "__maxnreg__") {
        for (int depth = 1; depth && ++open < code.size();)
          depth += (code[open] == '(') - (code[open] == ')');
        if (open >= code.size()) break;
        continue;
      }
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      break;
    }
  }
  return names;
}

}  // namespace tile
