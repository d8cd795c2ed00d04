#include "base/error.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace trainyard {
namespace {

constexpr std::pair<ErrorKind, std::string_view> kNames[] = {
    {ErrorKind::invalid, "invalid"},         {ErrorKind::denied, "denied"},
    {ErrorKind::not_found, "not_found"},     {ErrorKind::conflict, "conflict"},
    {ErrorKind::unavailable, "unavailable"}, {ErrorKind::no_space, "no_space"},
    {ErrorKind::cancelled, "cancelled"},     {ErrorKind::internal, "internal"},
};

ErrorKind kind_of(int number) {
  switch (number) {
    case ENOENT:
    case ENOTDIR:
      return ErrorKind::not_found;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorKind::denied;
    case ENOSPC:
    case EDQUOT:
      return ErrorKind::no_space;
    case EEXIST:
    case ENOTEMPTY:
    case EISDIR:
      return ErrorKind::conflict;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP:
      return ErrorKind::invalid;
    case EBADF:
    case EFAULT:
      return ErrorKind::internal;
    default:
      return ErrorKind::unavailable;
  }
}

}  // namespace

std::string_view to_string(ErrorKind kind) {
  for (const auto& [known, name] : kNames) {
    if (known == kind) return name;
  }
  return "internal";
}

ErrorKind error_kind_from(std::string_view name) {
  for (const auto& [kind, known] : kNames) {
    if (known == name) return kind;
  }
  return ErrorKind::internal;
}

Error Error::within(std::string_view doing) && {
  message.insert(0, ": ").insert(0, doing);
  return std::move(*this);
}

std::string told(const Error& error) {
  return error.message + (error.hint.empty() ? "" : " (" + error.hint + ")");
}

Error errno_error(int number, std::string_view doing) {
  char buffer[128];
  const char* text =
      strerror_r(number, buffer, sizeof buffer);  // glibc's form; strerror shares a buffer.
  return Error{kind_of(number), std::string(doing) + ": " + text, {}};
}

}  // namespace trainyard
