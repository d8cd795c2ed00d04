#pragma once

#include <optional>
#include <string_view>

#include "dialects/document.h"
#include "dialects/findings.h"

namespace trainyard::dialects {

// What a v2 file or a run configuration describes, by its `$schema`, its `type`, or the keys that
// only such a file has.
struct FileKind {
  std::string_view noun;     // "a sweep job"
  std::string_view command;  // The command that takes the file; empty: not supported yet.
};

// Nothing for a command job, and for a file that does not say what it is.
std::optional<FileKind> other_kind(const Document& document);
bool is_runconfig(const Document& document);
// The one error to report for such a file.
Finding refuse_kind(const Document& document, const FileKind& kind);

}  // namespace trainyard::dialects
