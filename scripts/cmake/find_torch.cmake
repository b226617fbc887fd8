# Sets TL_TORCH_ROOT and TL_TORCH_VERSION: the LibTorch to build against, the first of TORCHLENS_TORCH_ROOT, CMAKE_PREFIX_PATH,
# the `torch` that python3 would import, the private environment of scripts/setup. Also runs as a script (cmake -P), which
# fails where there is none.

set(TL_TORCH_MINIMUM 2.6)  # the first release whose wheels use the C++11 ABI

# Sets `out` to the version of the LibTorch in `root`, or to "" if there is none that can be used.
function(tl_torch_version root out)
  set(${out} "" PARENT_SCOPE)
  if(NOT EXISTS ${root}/include/torch/script.h OR NOT EXISTS ${root}/lib/libtorch_cpu.so)
    return()
  endif()
  set(version 0)
  foreach(header IN ITEMS torch/version.h torch/csrc/api/include/torch/version.h torch/headeronly/version.h)
    if(version VERSION_EQUAL 0 AND EXISTS ${root}/include/${header})
      file(STRINGS ${root}/include/${header} lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
      if(lines MATCHES "MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+)")
        set(version ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3})
      endif()
    endif()
  endforeach()
  set(config ${root}/share/cmake/Torch/TorchConfig.cmake)
  if(EXISTS ${config})
    file(STRINGS ${config} old_abi REGEX "_GLIBCXX_USE_CXX11_ABI=0")
  endif()
  if(old_abi OR version VERSION_LESS TL_TORCH_MINIMUM)
    message(STATUS "LibTorch ${version} in ${root} is passed over: ${TL_TORCH_MINIMUM} or later with the C++11 ABI is needed")
    return()
  endif()
  set(${out} ${version} PARENT_SCOPE)
endfunction()

set(_candidates ${TORCHLENS_TORCH_ROOT})
string(REPLACE ":" ";" _prefixes "$ENV{CMAKE_PREFIX_PATH}")
foreach(_prefix IN LISTS CMAKE_PREFIX_PATH _prefixes)
  list(APPEND _candidates ${_prefix} ${_prefix}/torch ${_prefix}/libtorch)
  cmake_path(SET _above NORMALIZE "${_prefix}/../..")  # torch.utils.cmake_prefix_path ends in share/cmake
  string(REGEX REPLACE "/$" "" _above "${_above}")
  list(APPEND _candidates ${_above})
endforeach()
find_program(TL_PYTHON3 python3)
if(TL_PYTHON3)
  execute_process(
    COMMAND ${TL_PYTHON3} -c "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE _importable OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  list(APPEND _candidates ${_importable})
endif()
file(GLOB _private ${CMAKE_CURRENT_LIST_DIR}/../../.torch/lib/python3*/site-packages/torch)
list(APPEND _candidates ${_private})

set(TL_TORCH_ROOT "")
foreach(_candidate IN LISTS _candidates)
  tl_torch_version(${_candidate} TL_TORCH_VERSION)
  if(TL_TORCH_VERSION)
    cmake_path(SET TL_TORCH_ROOT NORMALIZE ${_candidate})
    break()
  endif()
endforeach()
if(NOT TL_TORCH_ROOT)
  message(FATAL_ERROR "LibTorch was not found. Run scripts/setup, or name one with -DCMAKE_PREFIX_PATH=…, or build without "
    "the engine by -DTORCHLENS_TORCH=OFF.")
endif()
message(STATUS "LibTorch ${TL_TORCH_VERSION} in ${TL_TORCH_ROOT}")
