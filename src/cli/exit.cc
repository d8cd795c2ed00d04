#include "cli/exit.h"

#include "base/text.h"

namespace trainyard::cli {
namespace {

constexpr std::string_view kHead = "error: ";

std::string one_line(std::string_view text) { return printable(trim(text)); }

}  // namespace

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid:
      return kExitInvalid;
    case ErrorKind::denied:
      return 3;
    case ErrorKind::not_found:
      return 4;
    case ErrorKind::conflict:
      return 5;
    case ErrorKind::unavailable:
    case ErrorKind::no_space:
      return kExitUnavailable;
    case ErrorKind::cancelled:
      return kExitInterrupted;
    case ErrorKind::internal:
      return kExitBug;
  }
  return kExitBug;
}

std::string format_error(const Error& error) {
  std::string text = std::string(kHead) + one_line(error.message) + "\n";
  if (trim(error.hint).empty()) return text;
  for (const std::string& line : split(error.hint, '\n')) {
    text.append(kHead.size(), ' ').append(one_line(line)).append("\n");
  }
  return text;
}

}  // namespace trainyard::cli
