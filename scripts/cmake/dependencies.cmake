# Third-party libraries of the distribution. All are imported targets, hence SYSTEM; lib/ links them privately.

find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(spdlog REQUIRED)
if(TORCHLENS_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
endif()

# tl_find_c_library(target header library): the C libraries whose packages have no usable CMake config
# (libzip's asks for command-line tools that sit in another Debian package).
function(tl_find_c_library target header library)
  string(MAKE_C_IDENTIFIER ${target} id)
  find_path(${id}_INCLUDE_DIR ${header} REQUIRED)
  find_library(${id}_LIBRARY ${library} REQUIRED)
  add_library(${target} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${${id}_LIBRARY})
  if(NOT ${id}_INCLUDE_DIR STREQUAL "/usr/include")
    set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${${id}_INCLUDE_DIR})
  endif()
  mark_as_advanced(${id}_INCLUDE_DIR ${id}_LIBRARY)
endfunction()

tl_find_c_library(libzip::zip zip.h zip)
tl_find_c_library(xxHash::xxhash xxhash.h xxhash)
tl_find_c_library(deflate::deflate libdeflate.h deflate)
tl_find_c_library(re2::re2 re2/re2.h re2)
