// An NVRTC that does not compile: its "cubin" is the word cubin and the source.
#include "driver/fake_cuda/fake_nvrtc.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

extern "C" FakeNvrtc* fake_nvrtc() {
  static FakeNvrtc nvrtc;
  return &nvrtc;
}

// Called by Python through ctypes: sets the duration of each compile, and its log.
extern "C" void fake_compiles(double seconds, const char* log) {
  fake_nvrtc()->compiling = [seconds] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  };
  fake_nvrtc()->log = log;
}

static const std::string& log_of(void* program) {
  for (const auto& [piece, log] : fake_nvrtc()->logs)
    if (static_cast<std::string*>(program)->find(piece) != std::string::npos) return log;
  return fake_nvrtc()->log;
}

extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = fake_nvrtc()->major;
  *minor = fake_nvrtc()->minor;
  return 0;
}
int nvrtcGetNumSupportedArchs(int* count) {
  *count = 2;
  return 0;
}
int nvrtcGetSupportedArchs(int* archs) {
  archs[0] = 90;
  archs[1] = 80;
  return 0;
}
const char* nvrtcGetErrorString(int) { return "NVRTC_ERROR_OF_THE_FAKE"; }
int nvrtcCreateProgram(void** program, const char* text, const char*, int, const char* const*,
                       const char* const*) {
  *program = new std::string(std::string("cubin ") + text);
  return 0;
}
int nvrtcDestroyProgram(void** program) {
  delete static_cast<std::string*>(*program);
  return 0;
}
int nvrtcAddNameExpression(void*, const char*) { return 0; }
int nvrtcCompileProgram(void* program, int, const char* const*) {
  ++std::atomic_ref(fake_nvrtc()->compiled);
  if (fake_nvrtc()->compiling) fake_nvrtc()->compiling();
  for (const auto& [piece, code] : fake_nvrtc()->codes)
    if (static_cast<std::string*>(program)->find(piece) != std::string::npos) return code;
  return fake_nvrtc()->code;
}
int nvrtcGetProgramLogSize(void* program, size_t* size) {
  *size = log_of(program).size() + 1;
  return 0;
}
int nvrtcGetProgramLog(void* program, char* log) {
  std::strcpy(log, log_of(program).c_str());
  return 0;
}
int nvrtcGetCUBINSize(void* program, size_t* size) {
  *size = static_cast<std::string*>(program)->size();
  return 0;
}
int nvrtcGetCUBIN(void* program, char* bytes) {
  const std::string& text = *static_cast<std::string*>(program);
  std::copy(text.begin(), text.end(), bytes);
  return 0;
}
int nvrtcGetPTXSize(void*, size_t* size) {
  *size = 4;
  return 0;
}
int nvrtcGetPTX(void*, char* text) {
  std::memcpy(text, "ptx", 4);
  return 0;
}
int nvrtcGetLoweredName(void*, const char* name, const char** symbol) {
  *symbol = name;
  return 0;
}

}  // extern "C"
