#include "base/result.h"

#include <doctest/doctest.h>

#include <memory>

namespace trainyard {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return fail(ErrorKind::invalid, "odd");
  return n / 2;
}

Result<int> quarter(int n) {
  TRY_SET(const int once, half(n));
  TRY_SET(const int twice, half(once));
  return twice;
}

Status check_quarter(int n) {
  TRY(quarter(n));
  return {};
}

Status check_loudly(int n) {
  TRY_WITHIN("divide " + std::to_string(n), quarter(n));
  return {};
}

Result<std::unique_ptr<int>> boxed(int n) {
  TRY_SET(auto box, Result<std::unique_ptr<int>>(std::make_unique<int>(n)));
  return box;
}

TEST_CASE("a value goes through and an error goes up") {
  CHECK(quarter(8) == 2);
  CHECK(quarter(6).error().message == "odd");
  CHECK(check_quarter(8).has_value());
  CHECK(check_quarter(6).error().kind == ErrorKind::invalid);
}

TEST_CASE("an error says what its caller was doing") {
  CHECK(check_loudly(8).has_value());
  CHECK(check_loudly(6).error().message == "divide 6: odd");
}

TEST_CASE("a value that can only be moved is moved") { CHECK(**boxed(3) == 3); }

TEST_CASE("an errno becomes an error with what we were doing") {
  const Status status = fail_errno(2, "open /x");
  CHECK(status.error().kind == ErrorKind::not_found);
}

}  // namespace
}  // namespace trainyard
