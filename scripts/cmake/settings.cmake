# tl::settings and tl::warnings: linked privately by our own code only.

set(_ccache_given ${CMAKE_CXX_COMPILER_LAUNCHER})
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT _ccache_given)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(tl_settings INTERFACE)
add_library(tl::settings ALIAS tl_settings)
# A member that a document lacks is an exception in every build, not undefined behaviour in the shipped one:
# operator[] of a const document only asserts that it is there.
target_compile_definitions(tl_settings INTERFACE
  "JSON_ASSERT=[](bool holds){if(!holds)throw::std::logic_error(\"a JSON document lacks a member\")\;}")
find_program(MOLD_PROGRAM mold)
find_program(LLD_PROGRAM ld.lld)
if(MOLD_PROGRAM)
  target_link_options(tl_settings INTERFACE -fuse-ld=mold)
elseif(LLD_PROGRAM)
  target_link_options(tl_settings INTERFACE -fuse-ld=lld)
endif()
if(TORCHLENS_SANITIZE)
  set(_sanitize -fsanitize=${TORCHLENS_SANITIZE} -fno-omit-frame-pointer)
  if(TORCHLENS_SANITIZE MATCHES "undefined")
    list(APPEND _sanitize -fno-sanitize-recover=undefined)
  endif()
  target_compile_options(tl_settings INTERFACE ${_sanitize})
  target_link_options(tl_settings INTERFACE ${_sanitize})
endif()

add_library(tl_warnings INTERFACE)
add_library(tl::warnings ALIAS tl_warnings)
target_compile_options(tl_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual $<$<BOOL:${TORCHLENS_WERROR}>:-Werror>)
