# trainyard-node: the supervisor alone, linked statically from the rooms' own objects (so it costs one
# link and no second compilation), and put into the room `node`, which hands it to nodes. In release
# builds only: a sanitizer does not link statically.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(embedded 1)
  add_executable(trainyard-node src/node_main.cc)
  target_link_libraries(trainyard-node PRIVATE supervisor warnings)
  # Names are looked up by http/resolve.cc and GPUs by gpu/smi.cc: what the linker says of getaddrinfo
  # and dlopen does not come to pass.
  target_link_options(trainyard-node PRIVATE -static -Wl,--no-warnings)
  # Or CMake goes back to shared libraries behind each archive that is named, and -static is half done.
  set_target_properties(trainyard-node PROPERTIES LINK_SEARCH_START_STATIC ON
                                                  LINK_SEARCH_END_STATIC ON)

  set(program ${CMAKE_BINARY_DIR}/trainyard-node)
  set(asm ${CMAKE_BINARY_DIR}/node_program.S)
  file(CONFIGURE OUTPUT ${asm} CONTENT [[
.section .rodata
.balign 64
.global trainyard_node_program
trainyard_node_program:
.incbin "@program@"
.global trainyard_node_program_end
trainyard_node_program_end:
.byte 0
.section .note.GNU-stack,"",@progbits
]] @ONLY)
  set_source_files_properties(${asm} PROPERTIES OBJECT_DEPENDS ${program})
  target_sources(node PRIVATE ${asm})
  add_dependencies(node trainyard-node)
else()
  set(embedded 0)
endif()
target_compile_definitions(node PRIVATE TRAINYARD_NODE_EMBEDDED=${embedded})
