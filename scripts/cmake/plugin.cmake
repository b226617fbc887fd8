# tl_plugin(name SOURCES … DEPS … PRIVATE_DEPS … [PCH header …])
# A plugin torchlens_<name>.so beside the executable in the build tree, under lib/torchlens/plugins when installed.
# Its RPATH names the LibTorch it was linked with, also when installed. Tests of its inside link
# torchlens_<name>_objects. Include roots are lib/ and the plugin's own directory.
function(tl_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS;PCH")
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tl_plugin(${name}): unknown arguments ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  set(objects torchlens_${name}_objects)
  add_library(${objects} OBJECT ${ARG_SOURCES})
  target_include_directories(${objects} PUBLIC ${PROJECT_SOURCE_DIR}/lib ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${objects} PUBLIC ${ARG_DEPS} ${ARG_PRIVATE_DEPS} PRIVATE tl::settings tl::warnings)
  if(ARG_PCH AND TORCHLENS_TORCH_PCH)
    target_precompile_headers(${objects} PRIVATE ${ARG_PCH})
  endif()
  if(TORCHLENS_TORCH_UNITY)
    set_target_properties(${objects} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 3)
  endif()

  add_library(torchlens_${name} MODULE)
  target_link_libraries(torchlens_${name} PRIVATE ${objects} tl::settings)
  # Symbols of the static libraries inside stay inside: the plugin exports its entry point only.
  target_link_options(torchlens_${name} PRIVATE -Wl,--exclude-libs,ALL)
  set_target_properties(torchlens_${name} PROPERTIES
    PREFIX "" LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  if("tl::torch" IN_LIST ARG_DEPS OR "tl::torch" IN_LIST ARG_PRIVATE_DEPS)
    # CMAKE_INSTALL_RPATH_USE_LINK_PATH leaves out directories inside the project, where the private LibTorch is.
    set_target_properties(torchlens_${name} PROPERTIES INSTALL_RPATH ${TL_TORCH_ROOT}/lib)
  endif()
  install(TARGETS torchlens_${name} LIBRARY DESTINATION lib/torchlens/plugins)
endfunction()
