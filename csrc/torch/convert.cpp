// Reads the parameters of operators' lambdas from boxed arguments; shared by all operators.
#include "torch/convert.h"

namespace tile {
namespace {

// AOTInductor's executor gives None for an empty list.
bool is_none(const c10::IValue& value) { return value.isNone(); }

}  // namespace

ParameterType OpParameter<at::Tensor>::type() { return {"at::Tensor", "Tensor", ""}; }
ParameterType OpParameter<double>::type() { return {"double", "float", ""}; }
double OpParameter<double>::from(const c10::IValue& value) { return value.toDouble(); }
ParameterType OpParameter<int64_t>::type() { return {"int64_t", "int", "SymInt"}; }
int64_t OpParameter<int64_t>::from(const c10::IValue& value) {
  return value.isInt() ? value.toInt() : value.toSymInt().guard_int(__FILE__, __LINE__);
}
ParameterType OpParameter<c10::SymInt>::type() { return {"c10::SymInt", "SymInt", ""}; }
c10::SymInt OpParameter<c10::SymInt>::from(const c10::IValue& value) { return value.toSymInt(); }
ParameterType OpParameter<bool>::type() { return {"bool", "bool", ""}; }
bool OpParameter<bool>::from(const c10::IValue& value) { return value.toBool(); }
ParameterType OpParameter<std::string>::type() { return {"std::string", "str", ""}; }
const std::string& OpParameter<std::string>::from(const c10::IValue& value) { return value.toStringRef(); }
ParameterType OpParameter<at::ScalarType>::type() { return {"at::ScalarType", "ScalarType", ""}; }
at::ScalarType OpParameter<at::ScalarType>::from(const c10::IValue& value) { return value.toScalarType(); }
ParameterType OpParameter<at::Scalar>::type() { return {"at::Scalar", "Scalar", ""}; }
at::Scalar OpParameter<at::Scalar>::from(const c10::IValue& value) { return value.toScalar(); }
ParameterType OpParameter<at::Device>::type() { return {"at::Device", "Device", ""}; }
at::Device OpParameter<at::Device>::from(const c10::IValue& value) { return value.toDevice(); }
ParameterType OpParameter<std::vector<double>>::type() { return {"std::vector<double>", "float[]", ""}; }
std::vector<double> OpParameter<std::vector<double>>::from(const c10::IValue& value) {
  return value.toDoubleVector();
}
ParameterType OpParameter<std::vector<int64_t>>::type() {
  return {"std::vector<int64_t>", "int[]", "SymInt[]"};
}
std::vector<int64_t> OpParameter<std::vector<int64_t>>::from(const c10::IValue& value) {
  if (value.isIntList()) return value.toIntVector();
  if (is_none(value)) return {};
  std::vector<int64_t> sizes;
  for (const c10::SymInt& size : value.toSymIntVector()) sizes.push_back(size.guard_int(__FILE__, __LINE__));
  return sizes;
}
ParameterType OpParameter<std::vector<c10::SymInt>>::type() {
  return {"std::vector<c10::SymInt>", "SymInt[]", ""};
}
std::vector<c10::SymInt> OpParameter<std::vector<c10::SymInt>>::from(const c10::IValue& value) {
  return is_none(value) ? std::vector<c10::SymInt>() : value.toSymIntVector();
}
c10::SmallVector<int64_t, 5> OpParameter<at::IntArrayRef>::from(const c10::IValue& value) {
  c10::SmallVector<int64_t, 5> list;
  if (is_none(value)) return list;
  for (const c10::IValue& each : value.toListRef()) list.push_back(OpParameter<int64_t>::from(each));
  return list;
}
c10::SmallVector<c10::SymInt, 5> OpParameter<c10::SymIntArrayRef>::from(const c10::IValue& value) {
  c10::SmallVector<c10::SymInt, 5> list;
  if (is_none(value)) return list;
  for (const c10::IValue& each : value.toListRef()) list.push_back(each.toSymInt());
  return list;
}
ParameterType OpParameter<std::vector<bool>>::type() { return {"std::vector<bool>", "bool[]", ""}; }
std::vector<bool> OpParameter<std::vector<bool>>::from(const c10::IValue& value) {
  const c10::List<bool> list = value.toBoolList();
  return {list.begin(), list.end()};
}
ParameterType OpParameter<std::vector<at::Tensor>>::type() {
  return {"std::vector<at::Tensor>", "Tensor[]", ""};
}
std::vector<at::Tensor> OpParameter<std::vector<at::Tensor>>::from(const c10::IValue& value) {
  return is_none(value) ? std::vector<at::Tensor>() : value.toTensorVector();
}
ParameterType OpParameter<std::vector<std::optional<at::Tensor>>>::type() {
  return {"std::vector<std::optional<at::Tensor>>", "Tensor?[]", ""};
}
std::vector<std::optional<at::Tensor>> OpParameter<std::vector<std::optional<at::Tensor>>>::from(
    const c10::IValue& value) {
  return value.toOptionalTensorVector();
}

ParameterType bools_type(size_t count) {
  const std::string n = std::to_string(count);
  return {"std::array<bool, " + n + ">", "bool[" + n + "]", ""};
}
void read_bools(const c10::IValue& value, bool* bits, size_t count) {
  const c10::List<bool> list = value.toBoolList();
  TORCH_CHECK_VALUE(list.size() == count, "expected ", count, " bools, got ", list.size());
  for (size_t i = 0; i < count; ++i) bits[i] = list[i];
}

ParameterType optional_type(const ParameterType& inner) {
  return {"std::optional<" + inner.cpp + ">", inner.schema + "?",
          inner.concrete.empty() ? "" : inner.concrete + "?"};
}

namespace op_detail {

std::vector<ParameterType> parameter_types(std::initializer_list<ParameterType (*)()> types) {
  std::vector<ParameterType> result;
  for (auto* type : types) result.push_back(type());
  return result;
}
std::vector<std::string> result_types(std::initializer_list<std::vector<std::string> (*)()> parts) {
  std::vector<std::string> result;
  for (auto* part : parts) result.push_back(part().front());
  return result;
}

}  // namespace op_detail
}  // namespace tile
