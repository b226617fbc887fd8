# tl::torch: LibTorch's headers (SYSTEM) and libraries. TorchConfig.cmake is not used: it also asks for kineto, MKL and, where
# the build has CUDA, a CUDA toolkit.

set(TORCHLENS_TORCH_ROOT "" CACHE PATH "directory of LibTorch, the one with include/ and lib/; empty: looked for")
include(find_torch)

add_library(tl::torch INTERFACE IMPORTED GLOBAL)
foreach(_library IN ITEMS torch_cpu c10)
  add_library(tl::${_library} SHARED IMPORTED GLOBAL)
  set_target_properties(tl::${_library} PROPERTIES IMPORTED_LOCATION ${TL_TORCH_ROOT}/lib/lib${_library}.so)
  target_link_libraries(tl::torch INTERFACE tl::${_library})
endforeach()
# libtorch.so is empty but for its own dependencies, which register the devices that the build knows; kept for them.
target_link_options(tl::torch INTERFACE
  "LINKER:--push-state,--no-as-needed" ${TL_TORCH_ROOT}/lib/libtorch.so "LINKER:--pop-state")
target_include_directories(tl::torch SYSTEM INTERFACE
  ${TL_TORCH_ROOT}/include ${TL_TORCH_ROOT}/include/torch/csrc/api/include)
target_compile_definitions(tl::torch INTERFACE _GLIBCXX_USE_CXX11_ABI=1)

# For scripts/bench, which makes its models with the Python beside this LibTorch.
set(TL_TORCH_ROOT_FOUND ${TL_TORCH_ROOT} CACHE INTERNAL "the LibTorch this build uses")
