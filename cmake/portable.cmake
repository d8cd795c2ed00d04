# trainyard-portable: the same program, linked against glibc 2.31 instead of this machine's, so that it
# runs wherever glibc is 2.31 or newer. `make dist` builds it, after scripts/unpack-debian11.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(glibc ${CMAKE_SOURCE_DIR}/build/debian11)
  set(glibc_libs ${glibc}/usr/lib/x86_64-linux-gnu)
  add_executable(trainyard-portable EXCLUDE_FROM_ALL src/main.cc src/glibc_compat.c)
  target_compile_definitions(trainyard-portable PRIVATE $<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE>)
  target_link_libraries(trainyard-portable PRIVATE cli dl pthread)
  # -B for its crt1.o, --sysroot for the paths in its libc.so, which is a linker script.
  target_link_options(trainyard-portable PRIVATE -B${glibc_libs} -L${glibc_libs}
                      -L${glibc}/lib/x86_64-linux-gnu -Wl,--sysroot=${glibc})
endif()
