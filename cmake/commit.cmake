# The commit of a release build, for `trainyard version`: read at configuration, which each commit
# repeats. Only one small file depends on it.
set(commit "")
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  cmake_path(GET CMAKE_SOURCE_DIR PARENT_PATH above)
  # A copy of the sources inside another repository is none of its commits.
  set(git ${CMAKE_COMMAND} -E env GIT_CEILING_DIRECTORIES=${above} git -C ${CMAKE_SOURCE_DIR})
  execute_process(COMMAND ${git} rev-parse HEAD OUTPUT_VARIABLE commit ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  execute_process(COMMAND ${git} rev-parse --git-path logs/HEAD OUTPUT_VARIABLE moves ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(moves AND EXISTS ${CMAKE_SOURCE_DIR}/${moves})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${moves})
  endif()
endif()
set(file ${CMAKE_BINARY_DIR}/commit.cc)
file(CONFIGURE OUTPUT ${file} CONTENT [[
#include <string_view>
namespace trainyard::cli {
std::string_view commit();
std::string_view commit() { return "@commit@"; }
}  // namespace trainyard::cli
]] @ONLY)
set_source_files_properties(${file} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
target_sources(cli PRIVATE ${file})
