#include "sdk/sdk.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

using namespace trainyard;

TEST_CASE("the package lies in a folder of its own, and a second install finds it there") {
  TempDir dir;
  const auto first = sdk::install(dir.path());
  REQUIRE(first);
  const auto init = read_file(*first / "trainyard" / "__init__.py");
  REQUIRE(init);
  CHECK(init->find("Run") != std::string::npos);
  REQUIRE(write_file(*first / "mark", "x", 0600, Durable::no));
  const auto second = sdk::install(dir.path());
  REQUIRE(second);
  CHECK(*second == *first);
  CHECK(fs::exists(*first / "mark"));
}

TEST_CASE("many installing at once leave one folder and no draft") {
  TempDir dir;
  std::vector<std::jthread> threads;
  std::vector<Result<fs::path>> places(8, fs::path());
  for (auto& place : places) threads.emplace_back([&] { place = sdk::install(dir.path()); });
  threads.clear();
  for (const auto& place : places) {
    REQUIRE(place);
    CHECK(*place == *places.front());
  }
  CHECK(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("a folder that cannot be written is an error that names it") {
  TempDir dir;
  REQUIRE(write_file(dir.path() / "file", "", 0600, Durable::no));
  const auto failed = sdk::install(dir.path() / "file");
  REQUIRE(!failed);
  CHECK(failed.error().message.find("file") != std::string::npos);
}
