# embed(TARGET files...): puts files into the library TARGET as one table, declared for its code as
#
#   namespace trainyard::TARGET {
#   std::string_view embedded(std::string_view name);
#   std::span<const std::string_view> embedded_names();
#   }
#
# `name` is the file's path below src/TARGET/, or below the root for a file of another folder; an
# unknown one gives an empty view.
function(embed target)
  set(asm ".section .rodata\n")
  set(externs "")
  set(rows "")
  set(names "")
  foreach(file ${ARGN})
    string(MAKE_C_IDENTIFIER "trainyard_${file}" symbol)
    string(REGEX REPLACE "^src/${target}/" "" name ${file})
    string(APPEND asm ".global ${symbol}\n${symbol}:\n.incbin \"${CMAKE_SOURCE_DIR}/${file}\"\n.global ${symbol}_end\n${symbol}_end:\n.byte 0\n")
    string(APPEND externs "extern \"C\" const char ${symbol}[];\nextern \"C\" const char ${symbol}_end[];\n")
    string(APPEND names "\"${name}\", ")
    string(APPEND rows "  if (name == \"${name}\") return {${symbol}, static_cast<size_t>(${symbol}_end - ${symbol})};\n")
  endforeach()
  string(APPEND asm ".section .note.GNU-stack,\"\",@progbits\n")
  set(code "#include <cstddef>\n#include <span>\n#include <string_view>\n${externs}namespace trainyard::${target} {\nstd::string_view embedded(std::string_view name);\nstd::string_view embedded(std::string_view name) {\n${rows}  return {};\n}\nstd::span<const std::string_view> embedded_names();\nstd::span<const std::string_view> embedded_names() {\n  static constexpr std::string_view kNames[] = {${names}};\n  return kNames;\n}\n}  // namespace trainyard::${target}\n")
  set(base ${CMAKE_BINARY_DIR}/embed_${target})
  file(CONFIGURE OUTPUT ${base}.S CONTENT "${asm}" @ONLY)
  file(CONFIGURE OUTPUT ${base}.cc CONTENT "${code}" @ONLY)
  set(full ${ARGN})
  list(TRANSFORM full PREPEND ${CMAKE_SOURCE_DIR}/)
  set_source_files_properties(${base}.S PROPERTIES OBJECT_DEPENDS "${full}")
  target_sources(${target} PRIVATE ${base}.S ${base}.cc)
endfunction()
