#include "base/variables.h"

#include <doctest/doctest.h>
#include <stdlib.h>

namespace trainyard {
namespace {

TEST_CASE(
    "our variables are those that are set, and some are left out by the beginning of their name") {
  REQUIRE(setenv("TRAINYARD_OF_A_TEST", "a=b", 1) == 0);
  REQUIRE(setenv("OF_A_TEST", "", 1) == 0);
  const auto all = own_variables();
  CHECK(all.at("TRAINYARD_OF_A_TEST") == "a=b");
  CHECK(all.at("OF_A_TEST").empty());
  const auto some = own_variables("TRAINYARD_");
  CHECK(!some.contains("TRAINYARD_OF_A_TEST"));
  CHECK(some.contains("OF_A_TEST"));
  unsetenv("TRAINYARD_OF_A_TEST");
  unsetenv("OF_A_TEST");
}

}  // namespace
}  // namespace trainyard
