#include "wire/records.h"

#include <doctest/doctest.h>

namespace trainyard::wire {
namespace {

std::string read_back(const std::string& value) {
  const auto record = parse_record(R"({"k":"metric","n":"x","v":)" + value + "}", WallTime{});
  REQUIRE(record);
  return dump(point_value(record->points.at(0)));
}

TEST_CASE("a number reads back with its type and its digits") {
  for (const char* value :
       {"1", "1.0", "-0.0", "0", "0.5", "1e+20", "4611686018427387904", "-3.0"}) {
    CHECK(read_back(value) == value);
  }
  CHECK(read_back("true") == "1");
  // As points were kept before their type was.
  CHECK(dump(point_value({.value = 2.0})) == "2");
  CHECK(dump(point_value({.value = 2.5})) == "2.5");
}

TEST_CASE("an end without a run is the run's own") {
  const auto record = parse_record(R"({"k":"end","v":"Failed","e":"no data"})", WallTime{});
  REQUIRE(record);
  CHECK(record->kind == RecordKind::end);
  CHECK(record->run.empty());
  CHECK(record->error == "no data");
}

}  // namespace
}  // namespace trainyard::wire
