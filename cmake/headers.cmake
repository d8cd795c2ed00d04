# Precompiled headers: the standard library with fmt for every room, JSON on top of it for the rooms
# that use wire, doctest on top of that for tests. Each is compiled once and shared, so the
# targets that share it must have the same optimisation and -D flags that its headers look at.
set(std_headers <algorithm> <array> <atomic> <chrono> <condition_variable> <cstdint> <deque> <expected>
    <filesystem> <functional> <map> <memory> <mutex> <optional> <set> <span> <stop_token> <string>
    <string_view> <thread> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)

function(shared_headers name)
  set(empty ${CMAKE_BINARY_DIR}/${name}.cc)
  file(CONFIGURE OUTPUT ${empty} CONTENT "")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${empty})
  target_link_libraries(${name} PRIVATE warnings)
  target_precompile_headers(${name} PRIVATE ${ARGN})
endfunction()

# in_batches(TARGET): several files of a room are compiled as one, which takes a fifth of the time: what
# they instantiate of the standard library, fmt and JSON is instantiated once. So names in anonymous
# namespaces differ within a room. TRAINYARD_BATCH=1 compiles each by itself, as tools want it that
# look at one file.
set(TRAINYARD_BATCH 16 CACHE STRING "Files that are compiled as one")
function(in_batches target)
  if(TRAINYARD_BATCH GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${TRAINYARD_BATCH})
  endif()
endfunction()

shared_headers(headers_std ${std_headers})
shared_headers(headers_json ${std_headers} <nlohmann/json.hpp>)
if(BUILD_TESTING)
  shared_headers(headers_test ${std_headers} <nlohmann/json.hpp> <doctest/doctest.h>)
  # A test's time goes into compiling it: doctest's macros unfold to much code that runs once.
  target_compile_options(headers_test PRIVATE -O0)

  add_library(test_main OBJECT tests/support/main.cc)
  target_compile_options(test_main PRIVATE -O0 -fno-sanitize=all)  # doctest itself is not our code.

  # test_program(NAME files...): a doctest program, and its test of the same name less "_test".
  function(test_program name)
    add_executable(${name} ${ARGN} $<TARGET_OBJECTS:test_main>)
    target_compile_options(${name} PRIVATE -O0)
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} PRIVATE warnings)
    target_precompile_headers(${name} REUSE_FROM headers_test)
    in_batches(${name})
    string(REGEX REPLACE "_test$" "" test ${name})
    add_test(NAME ${test} COMMAND ${name})
    set_tests_properties(${test} PROPERTIES TIMEOUT 300)
  endfunction()
endif()
