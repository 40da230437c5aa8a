// Memory for machine code: it is written first and then made executable, never both at once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tile::cpu::jit {

class CodeMemory {
 public:
  // Returns null if the system refuses executable memory. `data` is placed directly before the code.
  static std::unique_ptr<CodeMemory> make(const std::vector<uint8_t>& data, const std::vector<uint8_t>& code);
  ~CodeMemory();
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;
  const uint8_t* code() const { return code_; }
  size_t code_bytes() const { return code_bytes_; }

 private:
  CodeMemory() = default;
  void* pages_ = nullptr;
  size_t bytes_ = 0, code_bytes_ = 0;
  const uint8_t* code_ = nullptr;
};

}  // namespace tile::cpu::jit
