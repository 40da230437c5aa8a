// Converts arguments to the parameter types that a CUDA C++ kernel declares.
#include "raw_cuda/raw_argument.h"

#include <cstring>
#include <limits>

#include "ir/constant.h"
#include "support/error.h"

namespace tile {
namespace {

using Kind = RawArgument::Kind;

// Builds errors such as "saxpy: argument 2 is …, but the kernel takes float const*; …".
struct Parameter {
  const std::string& kernel;
  size_t position;
  const CType& type;

  [[noreturn]] void refuse(ErrorKind kind, const std::string& given, const std::string& fix) const {
    fail(kind, kernel, ": argument ", position, " is ", given, ", but the kernel takes ", type.text, "; ",
         fix);
  }
};

std::string given_text(const RawArgument& argument) {
  switch (argument.kind) {
    case Kind::null:
      return "None";
    case Kind::boolean:
      return argument.integer ? "True" : "False";
    case Kind::integer:
      return str(argument.integer);
    case Kind::natural:
      return str(argument.natural);
    case Kind::floating:
      return str(argument.floating);
    case Kind::bytes:
      return str(argument.size, " bytes");
    case Kind::array:
      break;
  }
  return argument.dtype ? str("a tensor of ", *argument.dtype)
                        : str("a tensor of elements of ", argument.size, " bytes");
}

// An unsigned integer type may hold the bits of any dtype of its size.
bool points_to(const CType& type, const RawArgument& array) {
  if (!type.dtype || array.dtype == type.dtype) return true;
  if (static_cast<size_t>(info(*type.dtype).bytes) != array.size) return false;
  return is_unsigned(*type.dtype) || (is_integer(*type.dtype) && array.dtype && !is_floating(*array.dtype));
}

void put_pointer(const Parameter& parameter, const RawArgument& argument, void* to) {
  if (argument.kind == Kind::null) {
    std::memset(to, 0, sizeof(void*));
    return;
  }
  if (argument.kind != Kind::array)
    parameter.refuse(ErrorKind::type, given_text(argument), "give a tensor, or None for a null pointer");
  if (argument.device != DeviceKind::cuda) [[unlikely]]
    parameter.refuse(ErrorKind::value, "a tensor on the CPU", "move it to the GPU with .cuda()");
  if (!points_to(parameter.type, argument)) [[unlikely]]
    parameter.refuse(ErrorKind::type, given_text(argument), "convert it, or view it as that dtype");
  if (reinterpret_cast<uintptr_t>(argument.data) & static_cast<uintptr_t>(parameter.type.alignment - 1))
      [[unlikely]]
    parameter.refuse(
        ErrorKind::value, str("a tensor at address ", argument.data),
        str("copy it first, with .clone(): its address must be a multiple of ", parameter.type.alignment));
  std::memcpy(to, &argument.data, sizeof(void*));
}

void put_integer(const Parameter& parameter, const RawArgument& argument, void* to) {
  const CType& type = parameter.type;
  if (argument.kind == Kind::floating)
    parameter.refuse(ErrorKind::type, given_text(argument), "convert it to an integer");
  const int bits = type.bytes * 8;
  bool fits;
  if (argument.kind == Kind::natural)
    fits = argument.natural <= std::numeric_limits<uint64_t>::max() >> (64 - bits + type.is_signed);
  else if (type.is_signed)
    fits = bits == 64 || argument.integer >> (bits - 1) == argument.integer >> 63;
  else
    fits = argument.integer >= 0 && (bits == 64 || argument.integer >> bits == 0);
  if (!fits) [[unlikely]]
    parameter.refuse(
        ErrorKind::value, given_text(argument),
        str("it has ", bits, " bits", type.is_signed ? "" : " and no sign", ": give a number in its range"));
  std::memcpy(to, &argument.natural, static_cast<size_t>(type.bytes));
}

void put_floating(const Parameter& parameter, const RawArgument& argument, void* to) {
  const double value = argument.kind == Kind::floating  ? argument.floating
                       : argument.kind == Kind::natural ? static_cast<double>(argument.natural)
                                                        : static_cast<double>(argument.integer);
  const DType dtype = *parameter.type.dtype;
  if (dtype == DType::f32) {
    const float narrow = static_cast<float>(value);
    std::memcpy(to, &narrow, sizeof narrow);
  } else if (dtype == DType::f64) {
    std::memcpy(to, &value, sizeof value);
  } else if (parameter.type.bytes == 2) {
    const auto bits = static_cast<uint16_t>(small_bits(dtype, round_to(dtype, value)));
    std::memcpy(to, &bits, sizeof bits);
  } else {
    parameter.refuse(ErrorKind::type, given_text(argument), "take it as a float");
  }
}

}  // namespace

void put_argument(const std::string& kernel, size_t position, const CType& type, const RawArgument& argument,
                  void* to) {
  const Parameter parameter{kernel, position, type};
  if (argument.kind == Kind::bytes && type.kind != CType::Kind::pointer) {
    if (argument.size != static_cast<size_t>(type.bytes))
      parameter.refuse(ErrorKind::value, given_text(argument), str("that has ", type.bytes, " bytes"));
    std::memcpy(to, argument.data, argument.size);
    return;
  }
  if (type.kind == CType::Kind::pointer) return put_pointer(parameter, argument, to);
  if (type.kind == CType::Kind::other)
    parameter.refuse(ErrorKind::type, given_text(argument), str("give its ", type.bytes, " bytes"));
  if (argument.kind == Kind::array)
    parameter.refuse(ErrorKind::type, "a tensor", "give a number, as x.item() is");
  if (argument.kind == Kind::null || argument.kind == Kind::bytes)
    parameter.refuse(ErrorKind::type, given_text(argument), "give a number");
  if (type.kind == CType::Kind::floating) return put_floating(parameter, argument, to);
  if (type.kind == CType::Kind::integer) return put_integer(parameter, argument, to);
  if (argument.kind == Kind::floating)
    parameter.refuse(ErrorKind::type, given_text(argument), "give True or False");
  const bool yes = argument.natural != 0;
  std::memcpy(to, &yes, sizeof yes);
}

}  // namespace tile
