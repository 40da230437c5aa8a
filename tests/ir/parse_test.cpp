// Tests the text form: parse() reads what print() writes, and invalid text is an error with line and column.
#include <gtest/gtest.h>

#include <random>

#include "error_text.h"
#include "ir/build.h"
#include "ir/print.h"

namespace tile {
namespace {

constexpr std::string_view loops = R"(kernel loops(%0: array<f32,2>, %1: i32) {dim.0.1.divisor=16} {
  %2: i32 = constant {dtype=i32, value=0}  // loops.cpp:3
  %3: f32 = constant {dtype=f32, value=-inf}
  %4: f32[1,8] = broadcast %3 {shape=[1,8]}  // loops.cpp:4
  %5: bool = constant {dtype=bool, value=1}
  %6: f32[1,8] = for %2, %1, %1, %4 (%7: i32, %8: f32[1,8]) {  // loops.cpp:5
    %9: f32[1,8] = if %5 () {  // loops.cpp:6
      yield %8
    } () {
      yield %4  // loops.cpp:9
    }
    yield %9  // loops.cpp:10
  }
  %10: i32, %11: f32[1,8] = loop %2, %6 (%12: i32, %13: f32[1,8]) {
    if %5 () {
      break %2, %13
    } () {
      yield
    }
    continue %12, %13
  }
}
)";

std::string parse_error(std::string_view text) {
  return error_of([&] { parse(text); });
}

TEST(Parse, ReadsBackWhatPrintWrites) {
  Function function = parse(loops);
  EXPECT_EQ(print(function), loops);
  EXPECT_EQ(print(parse(print(function, false))), print(function, false));
}

TEST(Parse, CommentsBecomeLocations) {
  Function function = parse(loops);
  const Op& loop = *function.body().ops[4];
  EXPECT_EQ(str(loop.location), "loops.cpp:5");
  EXPECT_FALSE(function.body().ops[1]->location.known());
  EXPECT_EQ(str(loop.region().ops[0]->region(1).ops[0]->location), "loops.cpp:9");
}

TEST(Parse, LocationsDoNotChangeTheHash) {
  Function function = parse(loops);
  EXPECT_EQ(hash(function), hash(parse(print(function, false))));
}

TEST(Parse, EveryKindOfAttribute) {
  std::string text =
      "kernel k() {a=-3, b=0.1, c=1e+300, d=-0.0, e=nan, f=-inf, g=[], h=[1,-2], i=bf16, "
      "j=\"a \\\"b\\\" \\\\ \\n\"} {\n}\n";
  EXPECT_EQ(print(parse(text)), text);
  EXPECT_EQ(print(parse("kernel k() {2=1} {\n}\n")), "kernel k() {2=1} {\n}\n");
  EXPECT_EQ(std::get<std::string>(*parse(text).attributes().find("j")), "a \"b\" \\ \n");
}

TEST(Parse, AnyNamesAndSpacing) {
  EXPECT_EQ(
      print(parse("kernel k ( %x : i32 )\n{ // a note\n %out : f32 = constant{ value = 1 , dtype = f32 } }")),
      "kernel k(%0: i32) {\n  %1: f32 = constant {dtype=f32, value=1}\n}\n");
}

TEST(Parse, ErrorsNameLineAndColumn) {
  EXPECT_EQ(parse_error(""), "tile text 1:1: expected 'kernel', found the end of the text");
  EXPECT_EQ(parse_error("kernel k() {\n  %0: f32 = sine %1\n}"),
            "tile text 2:13: there is no primitive 'sine'");
  EXPECT_EQ(parse_error("kernel k() {\n  yield %7\n}"), "tile text 2:9: %7 is not defined here");
  EXPECT_EQ(parse_error("kernel k(%0: f33) {}"), "tile text 1:14: there is no dtype 'f33'");
  EXPECT_EQ(parse_error("kernel k(%0: f32[0]) {}"), "tile text 1:14: f32[0] has an extent below 1");
  EXPECT_EQ(parse_error("kernel k(%0: array<f32,99>) {}"),
            "tile text 1:14: an array of rank 99; ranks are 0 to 64");
  EXPECT_EQ(parse_error("kernel k(%0: f32, %0: f32) {}"), "tile text 1:19: %0 is defined twice");
  EXPECT_EQ(parse_error("kernel k() {a=1, a=2} {}"), "tile text 1:18: attribute 'a' is given twice");
  EXPECT_EQ(parse_error("kernel k() {a=99999999999999999999x} {}"),
            "tile text 1:15: expected a number, a dtype, a string or a list, found '99999999999999999999x'");
  EXPECT_EQ(parse_error("kernel k() {a=[1,9999999999999999999]} {}"),
            "tile text 1:18: expected an integer of 64 bits, found '9999999999999999999'");
  EXPECT_EQ(parse_error("kernel k() {a=\"x} {}"), "tile text 1:21: this string has no closing '\"'");
  EXPECT_EQ(parse_error("kernel k() {\n"), "tile text 2:1: expected a name, found the end of the text");
  EXPECT_EQ(parse_error("kernel k() {} kernel"),
            "tile text 1:15: expected the end of the text after the kernel");
}

TEST(Parse, StructureErrorsNameLineAndColumn) {
  EXPECT_EQ(parse_error("kernel k(%0: i32) {\n  yield %0\n}"),
            "tile text 2:3: yield: it is a terminator but not the last op of its region");
}

TEST(Parse, ErrorsShowWholeCharacters) {
  EXPECT_EQ(parse_error("kernel k(é) {}"), "tile text 1:10: expected '%', found 'é'");
}

TEST(Parse, APlaceIsTheNameOfAFile) {
  const char* text = "kernel k() {\n  %0: i32 = constant {dtype=i32, value=1}  // a/  b c.cpp:07\n}\n";
  const Function function = parse(text);
  EXPECT_EQ(str(function.body().ops[0]->location), "b c.cpp:7");
  EXPECT_EQ(print(parse(print(function))), print(function));
}

TEST(Parse, TypesMustBeThoseOfTheTypeRule) {
  EXPECT_EQ(parse_error("kernel k() {\n  %0: f16 = constant {dtype=f32, value=0}\n}"),
            "tile text 2:3: %0 is f32 by the type rule of constant, but the text says f16");
  EXPECT_EQ(parse_error("kernel k() {\n  constant {dtype=f32, value=0}\n}"),
            "tile text 2:3: constant gives 1 results, but 0 are named");
  EXPECT_EQ(parse_error("kernel k() {\n  %0: f32 = broadcast {shape=[2]}\n}"),
            "tile text 2:3: broadcast: takes 1 operands, got 0");
  EXPECT_EQ(parse_error("kernel k(%0: i32) {\n  %1: f32 = constant {value=0} // k.cpp:4\n}"),
            "tile text 2:3: k.cpp:4: constant: attribute 'dtype' is missing");
}

TEST(Parse, ConstantsFitTheirDtype) {
  const auto error = [](const char* dtype, const char* value) {
    std::string text =
        parse_error(str("kernel k() {\n  %0: ", dtype, " = constant {dtype=", dtype, value, "}\n}"));
    const std::string place = "tile text 2:3: constant: attribute 'value' is ";
    return text.starts_with(place) ? text.substr(place.size()) : text;
  };
  EXPECT_EQ(error("i32", ", value=nan"),
            "nan, which is not a value of i32; give an integer from -2147483648 to 2147483647");
  EXPECT_EQ(error("i32", ", value=2.0"),
            "2.0, which is not a value of i32; give an integer from -2147483648 to 2147483647");
  EXPECT_EQ(error("i8", ", value=128"), "128, which is not a value of i8; give an integer from -128 to 127");
  EXPECT_EQ(error("u8", ", value=-1"), "-1, which is not a value of u8; give an integer from 0 to 255");
  EXPECT_EQ(
      error("i64", ", value=inf"),
      "inf, which is not a value of i64; give an integer from -9223372036854775808 to 9223372036854775807");
  EXPECT_EQ(error("u64", ", value=1.5"),
            "1.5, which is not a value of u64; give an integer, as 64 bits with a sign");
  EXPECT_EQ(error("bool", ", value=2"), "2, which is not a value of bool; give 0 or 1");
  EXPECT_EQ(error("f16", ", value=65520.0"),
            "65520.0, which is not a value of f16; give a number of at most 65504.0, inf or nan");
  EXPECT_EQ(error("f16", ", value=65520"),
            "65520, which is not a value of f16; give a number of at most 65504.0, inf or nan");
  EXPECT_EQ(
      error("f32", ", value=-1e+39"),
      "-1e+39, which is not a value of f32; give a number of at most 3.4028234663852886e+38, inf or nan");
  EXPECT_EQ(error("f8e4m3", ", value=465.0"),
            "465.0, which is not a value of f8e4m3; give a number of at most 448.0, inf or nan");
  EXPECT_EQ(
      error("f32", ", value=\"1\""),
      "\"1\", which is not a value of f32; give a number of at most 3.4028234663852886e+38, inf or nan");
  EXPECT_EQ(error("f32", ""), "missing");
  for (const auto& [dtype, value] : {std::pair("i8", "-128"),
                                     {"u8", "255"},
                                     {"u64", "-1"},
                                     {"bool", "1"},
                                     {"f16", "65519.0"},
                                     {"f16", "-inf"},
                                     {"bf16", "nan"},
                                     {"f8e4m3", "464.0"},
                                     {"f64", "1e+308"},
                                     {"f32", "3"}})
    EXPECT_NO_THROW(
        parse(str("kernel k() {\n  %0: ", dtype, " = constant {dtype=", dtype, ", value=", value, "}\n}")))
        << dtype << " " << value;
}

TEST(Parse, PadsFitTheirArray) {
  const auto error = [](const char* dtype, const char* op, const char* rest) {
    std::string text =
        parse_error(str("kernel k(%0: array<", dtype, ",1>, %1: i32[8], %2: i32) {\n  %3: ", dtype,
                        "[8] = ", op, " %0, ", rest, "}\n}"));
    const std::string place = str("tile text 2:3: ", op, ": attribute 'pad' is ");
    return text.starts_with(place) ? text.substr(place.size()) : text;
  };
  const char* rest = "%2 {shape=[8], steps=[8], pad=";
  EXPECT_EQ(error("i32", "load", str(rest, "nan").c_str()),
            "nan, which is not a value of i32; give an integer from -2147483648 to 2147483647");
  EXPECT_EQ(error("u8", "load", str(rest, "256").c_str()),
            "256, which is not a value of u8; give an integer from 0 to 255");
  EXPECT_EQ(
      error("bf16", "load", str(rest, "3.5e+38").c_str()),
      "3.5e+38, which is not a value of bf16; give a number of at most 3.3895313892515355e+38, inf or nan");
  EXPECT_EQ(error("f32", "load", "%2 {shape=[8], steps=[8]"), "missing");
  EXPECT_EQ(error("bool", "gather", "%1 {pad=2"), "2, which is not a value of bool; give 0 or 1");
  EXPECT_EQ(error("f16", "gather", "%1 {pad=1e+6"),
            "1e+06, which is not a value of f16; give a number of at most 65504.0, inf or nan");
  EXPECT_EQ(error("i64", "load_offset", "%1 {pad=9007199254740994"),
            "9007199254740994; give an integer from -2^53 to 2^53");
  EXPECT_EQ(error("i16", "gather_rows", "%1 {axis=0, shape=[8], steps=[1], pad=0.5"),
            "0.5, which is not a value of i16; give an integer from -32768 to 32767");
}

TEST(Parse, ACombiningRegionTakesTwoScalarsATile) {
  const auto error = [](const char* op, const char* result, const char* region) {
    return parse_error(
        str("kernel k(%0: f32[8]) {\n  %1: ", result, " = ", op, " %0 {axis=0} ", region, "\n}"));
  };
  EXPECT_EQ(error("reduce", "f32", "(%2: f32) {\n    yield %2\n  }"),
            "tile text 2:3: reduce: its region takes 1 scalars and must take 2 and yield 1");
  EXPECT_EQ(error("scan", "f32[8]", "(%2: f32, %3: f32) {\n    yield\n  }"),
            "tile text 2:3: scan: its region takes 2 scalars and must take 2 and yield 1");
  EXPECT_EQ(error("reduce", "f32", "(%2: f32, %3: f32) {\n    yield %2\n  }"), "no error");
}

TEST(Primitives, ANameThatIsNoneIsAnError) {
  EXPECT_EQ(error_of([] { primitive("sine"); }), "there is no primitive 'sine'; check its spelling");
  EXPECT_EQ(primitive("constant").name, "constant");
}

TEST(Parse, ArraysStandWhereTheyAreTaken) {
  EXPECT_EQ(parse_error("kernel k(%0: array<f32,1>, %1: f32[8]) {\n  %2: f32[8] = add %1, %0\n}"),
            "tile text 2:3: add: operand 2 is array<f32,1>; it must be a tile: load() it from the array");
  EXPECT_EQ(
      parse_error("kernel k(%0: f32[8], %1: i32) {\n  %2: i32 = dim %0 {axis=0}\n}"),
      "tile text 2:3: dim: operand 1 is f32[8]; it must be an array: a parameter of the kernel or a view of "
      "one");
  EXPECT_EQ(
      parse_error("kernel k(%0: array<f32,1>, %1: i32) {\n  %2: array<f32,1> = slice %0, %1, %1 {axis=9}\n}"),
      "tile text 2:3: slice: axis 9 is out of range for array<f32,1>; it has 1 axes");
}

TEST(Parse, OperandsAndArgumentsThatAreMissingOrTooMany) {
  EXPECT_EQ(parse_error("kernel k(%0: array<f32,1>) {\n  atomic_store %0\n}"),
            "tile text 2:3: atomic_store: 0 index tiles for array<f32,1>; give one per axis");
  EXPECT_EQ(parse_error("kernel k() {\n  %0: f32[8] = load {shape=[8], steps=[8], pad=0.0}\n}"),
            "tile text 2:3: load: takes more operands than the 0 that it is given");
  EXPECT_EQ(parse_error("kernel k(%0: bool) {\n  if %0 (%1: f32) {\n    yield\n  } () {\n    yield\n  }\n}"),
            "tile text 2:3: if: its region takes (f32) but is given nothing; remove them");
}

TEST(Parse, ElementCountsDoNotOverflow) {
  EXPECT_EQ(
      parse_error("kernel k(%0: f32[8]) {\n  %1: f32[8] = reshape %0 {shape=[4611686018427387906,4]}\n}"),
      "tile text 2:3: reshape: cannot view f32[8] as [4611686018427387906,4]; the element counts must be "
      "equal");
}

TEST(Parse, NamesEndWithTheirRegion) {
  EXPECT_EQ(
      parse_error("kernel k(%c: bool, %i: i32) {\n  if %c () {\n    %x: i32 = constant {dtype=i32, value=1}\n"
                  "    yield\n  } () {\n    yield\n  }\n  for %x, %i, %i (%j: i32) {\n    yield\n  }\n}"),
      "tile text 8:7: %x is not defined here");
}

TEST(Parse, DeepNestingIsAnError) {
  std::string text = "kernel k(%c: bool) {\n";
  for (int i = 0; i < 100000; ++i) text += "if %c () {";
  EXPECT_EQ(parse_error(text), "tile text 2:648: regions are nested deeper than 64");
}

// Damaged text gives an Error, or another function that can be printed and parsed; it never crashes.
TEST(Parse, SurvivesRandomDamage) {
  std::mt19937 random(7);
  const std::string pieces[] = {"%",      "{",         "}",        "(",  ")", "=",   ",",   "\"",  "[",
                                "]",      "i32",       "-",        "9",  ".", "\n",  "//",  "for", "yield",
                                "array<", "broadcast", "constant", "\\", "e", "nan", "%99", "\0"};
  for (int round = 0; round < 4000; ++round) {
    std::string text(loops);
    for (unsigned edits = 1 + random() % 4; edits-- > 0;) {
      size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text.erase(at, 1 + random() % 12);
          break;
        case 1:
          text.insert(at, pieces[random() % std::size(pieces)]);
          break;
        case 2:
          text[at] = static_cast<char>(random() % 256);
          break;
      }
    }
    try {
      std::string printed = print(parse(text), false);
      EXPECT_EQ(print(parse(printed), false), printed);
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace tile
