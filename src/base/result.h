#pragma once

#include <expected>
#include <string>
#include <utility>

#include "base/error.h"

namespace trainyard {

// A value, or why there is none. A class rather than an alias, so that the compiler warns when one
// is dropped: std::expected itself is not [[nodiscard]].
template <class T>
class [[nodiscard]] Result : public std::expected<T, Error> {
 public:
  using std::expected<T, Error>::expected;
};

using Status = Result<void>;

inline std::unexpected<Error> fail(ErrorKind kind, std::string message, std::string hint = {}) {
  return std::unexpected(Error{kind, std::move(message), std::move(hint)});
}

inline std::unexpected<Error> fail_errno(int number, std::string_view doing) {
  return std::unexpected(errno_error(number, doing));
}

}  // namespace trainyard

// TRY(store.save(run));
// Hands the error to our caller, or goes on.
#define TRY(expr)                                            \
  do {                                                       \
    if (auto try_result = (expr); !try_result) {             \
      return std::unexpected(std::move(try_result).error()); \
    }                                                        \
  } while (false)

// TRY_SET(const Manifest manifest, read_manifest(path));
#define TRY_SET(var, ...) \
  TRAINYARD_TRY_SET_(TRAINYARD_CONCAT_(try_result_, __LINE__), var, (__VA_ARGS__))
#define TRAINYARD_TRY_SET_(tmp, var, expr)          \
  auto tmp = (expr);                                \
  if (!tmp) {                                       \
    return std::unexpected(std::move(tmp).error()); \
  }                                                 \
  var = *std::move(tmp)
#define TRAINYARD_CONCAT_(a, b) TRAINYARD_CONCAT_2_(a, b)
#define TRAINYARD_CONCAT_2_(a, b) a##b

// TRY_WITHIN("stage dataset cifar", stage(dataset));
// As TRY, and says what we were doing: "stage dataset cifar: open ...".
#define TRY_WITHIN(doing, expr)                                            \
  do {                                                                     \
    if (auto try_result = (expr); !try_result) {                           \
      return std::unexpected(std::move(try_result).error().within(doing)); \
    }                                                                      \
  } while (false)
