# csrc/cpu: exact floating point everywhere, and csrc/cpu/isa once for each instruction set, in a namespace of its name.
set(cpu_options -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math)
set_property(SOURCE ${cpu_sources} APPEND PROPERTY COMPILE_OPTIONS ${cpu_options})

set(isa_levels baseline)
set(isa_flags_baseline "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND isa_levels avx2 avx512)
  set(isa_flags_avx2 -mavx2 -mfma -mf16c)
  set(isa_flags_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c)
endif()

# Archives, because those stand behind all objects on a link line, lowest level first: of an inline function that several
# files emit the linker keeps the first copy, which then is one that runs on every machine. Whole, for registrations.
set(isa_libraries "")
if(isa_sources)
  foreach(level IN LISTS isa_levels)
    add_library(tile_cpu_${level} STATIC ${isa_sources})
    target_include_directories(tile_cpu_${level} PRIVATE csrc)
    target_compile_definitions(tile_cpu_${level} PRIVATE TILE_ISA=${level})
    target_compile_options(tile_cpu_${level} PRIVATE ${cpu_options} ${isa_flags_${level}})
    list(APPEND isa_libraries "-Wl,--whole-archive,$<TARGET_FILE:tile_cpu_${level}>,--no-whole-archive" tile_cpu_${level})
  endforeach()
endif()
