// A shared library that is opened at run time, and its functions by name.
#pragma once
#include <string>

namespace tile {

class Library {
 public:
  Library() = default;  // an object without an open library

  // Opens a library by path, or by a name that the system's loader looks up. It is never closed, because its
  // threads may outlive the object.
  static Library open(const std::string& name);

  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& why() const { return why_; }    // the reason why it is not open
  const std::string& path() const { return path_; }  // the file, if it is open

  template <class F>
  void find(const char* symbol, F*& function) const {
    function = reinterpret_cast<F*>(address(symbol));
  }
  // Returns the function of this name. An error ends with `fix`.
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
