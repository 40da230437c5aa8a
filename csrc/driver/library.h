// A shared library opened while the process runs, and its functions by name.
#pragma once
#include <string>

namespace tile {

class Library {
 public:
  Library() = default;  // none: not open

  // By path, or by a name that the system's loader looks up. Never closed: its threads may outlive us.
  static Library open(const std::string& name);

  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& why() const { return why_; }    // why it is not open
  const std::string& path() const { return path_; }  // the file, once it is open

  template <class F>
  void find(const char* symbol, F*& function) const {
    function = reinterpret_cast<F*>(address(symbol));
  }
  // `fix` ends the error's text.
  template <class F>
  void require(const char* symbol, F*& function, const char* fix) const {
    find(symbol, function);
    if (!function) missing(symbol, fix);
  }

 private:
  void* address(const char* symbol) const;
  [[noreturn]] void missing(const char* symbol, const char* fix) const;

  void* handle_ = nullptr;
  std::string path_, why_;
};

}  // namespace tile
