include(GoogleTest)

# tl_test(name SOURCES … DEPS … [ONE_PROCESS] [LABELS …])
# A GoogleTest binary test_<name>; each case becomes one ctest entry, or with ONE_PROCESS the binary is one entry
# (for suites that link LibTorch, whose start alone costs 0.3 s).
# TL_SHARED_DIR names a folder beside the project with reference files that are not part of it; tests skip without it.
function(tl_test name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "ONE_PROCESS" "" "SOURCES;DEPS;LABELS")
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tl_test(${name}): unknown arguments ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  tl_missing_deps(missing ${ARG_DEPS})
  if(missing)
    return()
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  target_link_libraries(test_${name} PRIVATE ${ARG_DEPS} tl::settings tl::warnings GTest::gmock GTest::gtest_main)
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/lib ${PROJECT_SOURCE_DIR}/tests)
  cmake_path(SET shared_dir NORMALIZE "${PROJECT_SOURCE_DIR}/../shared")
  target_compile_definitions(test_${name} PRIVATE
    TL_SHARED_DIR="${shared_dir}" TL_SOURCE_DIR="${PROJECT_SOURCE_DIR}" TL_BINARY_DIR="${PROJECT_BINARY_DIR}")
  set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(ARG_ONE_PROCESS)
    add_test(NAME ${name} COMMAND test_${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT 1200 LABELS "${ARG_LABELS}")
  else()
    gtest_discover_tests(test_${name} TEST_PREFIX ${name}/ DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
      PROPERTIES TIMEOUT 300 LABELS "${ARG_LABELS}")
  endif()
endfunction()
