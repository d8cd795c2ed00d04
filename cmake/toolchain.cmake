# Libraries by one door each, and the flags of our own code.
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Threads REQUIRED)
find_program(CCACHE ccache)
if(CCACHE)
  # Precompiled headers carry times; ccache is told that these do not matter.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${CCACHE})
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
endif()

# Linked in statically where Debian has an archive: fewer libraries to load makes a faster start, and
# the binary runs on machines that lack them.
add_library(crypto INTERFACE)
target_link_libraries(crypto INTERFACE libcrypto.a Threads::Threads ${CMAKE_DL_LIBS})
add_library(tls INTERFACE)
target_link_libraries(tls INTERFACE libssl.a libcrypto.a Threads::Threads ${CMAKE_DL_LIBS})
add_library(sodium INTERFACE)
target_link_libraries(sodium INTERFACE libsodium.a)
add_library(yaml INTERFACE)
target_link_libraries(yaml INTERFACE libyaml-cpp.a)
add_library(sqlite INTERFACE)
target_link_libraries(sqlite INTERFACE libsqlite3.a Threads::Threads ${CMAKE_DL_LIBS} m)
add_library(boost INTERFACE)
target_compile_definitions(boost INTERFACE BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_SEPARATE_COMPILATION
                                           BOOST_BEAST_SEPARATE_COMPILATION)

add_compile_definitions(TRAINYARD_VERSION="${PROJECT_VERSION}")
add_library(warnings INTERFACE)
target_compile_options(warnings INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow
  -Wnon-virtual-dtor -Wold-style-cast -Wno-missing-field-initializers
  $<$<BOOL:${TRAINYARD_WERROR}>:-Werror>
  # g++ 12 finds uninitialised members in std::expected and std::regex once a sanitizer is on; the
  # release build is without one and keeps the warning.
  $<$<CONFIG:Debug>:-Wno-maybe-uninitialized>
  # And its optimiser sees overflows inside std::string that are not there (GCC bugs 105329, 105651).
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>)

if(CMAKE_BUILD_TYPE STREQUAL "Release")
  # Not under the sanitizers: they look for the C++ runtime's symbols in a shared library.
  add_link_options(-static-libstdc++ -static-libgcc -Wl,--gc-sections -s)
  add_compile_options(-ffunction-sections -fdata-sections)
endif()
