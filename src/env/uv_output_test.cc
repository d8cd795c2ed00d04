#include "env/uv_output.h"

#include <doctest/doctest.h>

namespace trainyard::env {
namespace {

bool passed_over(std::initializer_list<std::string_view> lines) {
  UvSelections selections;
  for (const std::string_view line : lines) selections.line(line);
  return selections.passed_over();
}

constexpr std::string_view kSearchApple = "DEBUG Searching for a compatible version of apple (*)";
constexpr std::string_view kSearchAgain =
    "DEBUG Searching for a compatible version of apple (<=1.0)";
constexpr std::string_view kSearchPear = "DEBUG Searching for a compatible version of pear (*)";
constexpr std::string_view kSearchUrl =
    "DEBUG Searching for a compatible version of apple @ `file:///apple-1.0-py3-none-any.whl` (*)";
constexpr std::string_view kSelected = "DEBUG Selecting: apple==1.0 [compatible] (apple-1.0.whl)";

TEST_CASE("a search that selects nothing has passed over a version") {
  CHECK_FALSE(passed_over({kSearchApple, kSelected, kSearchPear, kSelected}));
  CHECK(passed_over({kSearchApple, kSearchAgain, kSelected}));
  CHECK(passed_over({kSearchApple, kSearchPear, kSelected}));
  CHECK(passed_over({kSearchApple, kSelected, kSearchPear}));
}

TEST_CASE("a URL leaves nothing to select") {
  CHECK_FALSE(passed_over({kSearchUrl}));
  CHECK_FALSE(passed_over({kSearchUrl, kSearchPear, kSelected}));
  CHECK(passed_over({kSearchApple, kSearchUrl, kSearchPear, kSelected}));
}

TEST_CASE("a log without searches proves nothing") { CHECK(passed_over({"Resolved 2 packages"})); }

}  // namespace
}  // namespace trainyard::env
