# csrc/cpu: exact floating point everywhere. Its folders isa are compiled once for each instruction set, in a namespace
# named after it.
include(CheckCXXCompilerFlag)
include(CheckCXXSourceCompiles)
set(cpu_optimisation -O3)
if(TILE_OPS_SANITIZE)
  # Sanitizers check every access: -O3 would take minutes per file.
  set(cpu_optimisation -O1)
endif()
set(cpu_options ${cpu_optimisation} -ffp-contract=off -fno-math-errno -fno-trapping-math)
set_property(SOURCE ${cpu_sources} APPEND PROPERTY COMPILE_OPTIONS ${cpu_options})

set(isa_levels baseline)
set(isa_flags_baseline "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND isa_levels avx2 avx512)
  set(isa_flags_avx2 -mavx2 -mfma -mf16c)
  set(isa_flags_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c)
endif()

# Archives come after all objects on a link line, lowest level first: of an inline function that several files emit, the
# linker keeps the first copy, which is then one that runs on every machine. They are linked completely, because they
# contain registrations.
# isa_archives(NAME RESULT SOURCES…): RESULT is what a target links to have the sources at every level.
function(isa_archives name result)
  set(libraries "")
  foreach(level IN LISTS isa_levels)
    if(ARGN)
      set(target ${name}_${level})
      add_library(${target} STATIC ${ARGN})
      target_include_directories(${target} PRIVATE csrc)
      target_compile_definitions(${target} PRIVATE TILE_ISA=${level})
      target_compile_options(${target} PRIVATE ${cpu_options} ${isa_flags_${level}})
      list(APPEND libraries "-Wl,--whole-archive,$<TARGET_FILE:${target}>,--no-whole-archive" ${target})
    endif()
  endforeach()
  set(${result} ${libraries} PARENT_SCOPE)
endfunction()

# A generated file for each family of elementwise primitives, so that a new family needs no source file.
file(GLOB families CONFIGURE_DEPENDS csrc/prims/elementwise/*.def)
list(FILTER families EXCLUDE REGEX "/(all|end).def$")
# gemm's loops contain their own unrolling, so -O3 would only take longer to compile.
if(NOT TILE_OPS_SANITIZE)
  set_source_files_properties(csrc/cpu/gemm/isa/gemm.cpp PROPERTIES COMPILE_OPTIONS -O2)
endif()
foreach(rows IN LISTS families)
  get_filename_component(family ${rows} NAME_WE)
  set(source ${PROJECT_BINARY_DIR}/families/${family}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "\
// The elementwise primitives of one family.
#define TILE_FAMILY ${family}_rows
#define TILE_ROWS \"prims/elementwise/${family}.def\"
#include \"cpu/interpreter/isa/family.h\"
")
  list(APPEND isa_sources ${source})
endforeach()
set(bf16_gemm csrc/cpu/gemm/isa/gemm_bf16.cpp)
set(amx_gemm csrc/cpu/gemm/isa/gemm_amx.cpp)
list(FILTER isa_sources EXCLUDE REGEX "/gemm_(bf16|amx).cpp$")
isa_archives(tile_cpu isa_libraries ${isa_sources})
# For chips with AVX512_BF16 and with AMX, which are detected at run time, like the levels.
check_cxx_compiler_flag(-mavx512bf16 has_avx512bf16)
if(TARGET tile_cpu_avx512 AND has_avx512bf16)
  target_sources(tile_cpu_avx512 PRIVATE ${bf16_gemm})
  set_source_files_properties(${bf16_gemm} PROPERTIES COMPILE_OPTIONS "-O2;-mavx512bf16")
  set_property(SOURCE csrc/cpu/gemm/gemm_table.cpp APPEND PROPERTY COMPILE_DEFINITIONS TILE_BF16_GEMM)
endif()
# AMX code is inline assembly, so the assembler must support it.
check_cxx_source_compiles("int main() { asm volatile(\"tdpbf16ps %tmm6, %tmm4, %tmm0\"); }" has_amx)
if(TARGET tile_cpu_avx512 AND has_amx)
  target_sources(tile_cpu_avx512 PRIVATE ${amx_gemm})
  set_source_files_properties(${amx_gemm} PROPERTIES COMPILE_OPTIONS -O2)
  set_property(SOURCE csrc/cpu/gemm/gemm_table.cpp APPEND PROPERTY COMPILE_DEFINITIONS TILE_AMX_GEMM)
endif()
