#include "cli/snapshot_advice.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::cli;

namespace {

snapshot::Captured captured_of(const std::vector<std::pair<std::string, uint64_t>>& files) {
  snapshot::Captured captured;
  for (const auto& [path, size] : files) {
    captured.tree.entries.push_back({.path = path, .size = size, .digest = {}, .target = {}});
  }
  captured.ignore_file = ".gitignore";
  return captured;
}

}  // namespace

TEST_CASE("ordinary code has no advice") {
  CHECK(snapshot_advice(captured_of({{"train.py", 900}, {"venv.py", 3}, {"lib/env", 4}})).empty());
}

TEST_CASE("large code is told with its largest parts") {
  const auto advice = snapshot_advice(captured_of({{"data/a", 150 << 20}, {"train.py", 900}}));
  REQUIRE(advice.size() == 1);
  CHECK(advice[0].starts_with("the code is 2 files, 150 MB: data/ (1 file, 150 MB), train.py"));
  CHECK(advice[0].ends_with("in .gitignore"));
  std::vector<std::pair<std::string, uint64_t>> many;
  for (int i = 0; i < 5'001; ++i) many.emplace_back("f" + std::to_string(i), 1);
  CHECK(snapshot_advice(captured_of(many)).at(0).starts_with("the code is 5001 files"));
}

TEST_CASE("what belongs to one machine, or holds secrets, is named with the lines to ignore it") {
  const auto advice = snapshot_advice(captured_of({{".env", 30},
                                                   {".venv/bin/python", 5'120},
                                                   {".venv/lib/x.py", 5'120},
                                                   {"src/__pycache__/a.pyc", 100}}));
  REQUIRE(advice.size() == 1);
  CHECK(advice[0] ==
        "the code has .venv/ (2 files, 10 kB), src/__pycache__/ (1 file, 100 B), .env (1 file, "
        "30 B). To leave them out, add to .gitignore: .env .venv/ __pycache__/");
}
