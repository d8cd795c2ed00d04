#include "cli/compute_options.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::cli;

namespace {

using Words = std::vector<std::string>;

Result<ComputeSpec> given(const Words& words, const ComputeSpec& before = {}) {
  const Grammar grammar{{kComputeSettings}};
  TRY_SET(const Args args, Args::parse(grammar, words));
  return with_settings(args, before);
}

ComputeSpec good(const Words& words, const ComputeSpec& before = {}) {
  const auto spec = given(words, before);
  REQUIRE_MESSAGE(spec, (spec ? "" : spec.error().message));
  return *spec;
}

}  // namespace

TEST_CASE("the spellings of both generations and our own mean the same") {
  const ComputeSpec expected{.min_nodes = 1,
                             .max_nodes = 4,
                             .idle_seconds = 300,
                             .vm_size = "STANDARD_D3_V2",
                             .vm_priority = "lowpriority"};
  CHECK(good({"--min-nodes", "1", "--max-nodes", "4", "--idle-seconds-before-scaledown", "300",
              "-s", "STANDARD_D3_V2", "-p", "lowpriority"}) == expected);
  CHECK(good({"--min-instances", "1", "--max-instances=4", "--idle-time-before-scale-down", "5m",
              "--size", "STANDARD_D3_V2", "--tier", "low_priority"}) == expected);
  CHECK(good({"--min-nodes=1", "--max-nodes=4", "--idle-seconds-before-scaledown=300",
              "--vm-size=STANDARD_D3_V2", "--vm-priority=LowPriority"}) == expected);
}

TEST_CASE("what is given replaces what was there, and the rest stays") {
  const ComputeSpec before{.name = "c",
                           .partition = "gpu",
                           .account = "lab",
                           .sbatch = {"--a", "--b"},
                           .setup = "module load x",
                           .max_nodes = 3};
  CHECK(good({}, before) == before);
  ComputeSpec expected = before;
  expected.sbatch = {"--gres=gpu:1", "--exclusive"};
  expected.partition = "";
  expected.node_up = "/opt/up --fast";
  expected.node_down = "/opt/down";
  CHECK(good({"--sbatch=--gres=gpu:1", "--sbatch", "--exclusive", "--partition", "", "--node-up",
              "/opt/up --fast", "--node-down", "/opt/down"},
             before) == expected);
  CHECK(good({"--sbatch="}, before).sbatch.empty());
}

TEST_CASE("the setup is a text, or what a file holds") {
  const TempDir dir;
  REQUIRE(write_file(dir.path() / "setup.sh", "module load cuda\n"));
  CHECK(good({"--setup", "module load x"}).setup == "module load x");
  CHECK(good({"--setup", "@" + (dir.path() / "setup.sh").string()}).setup == "module load cuda\n");
  CHECK_FALSE(given({"--setup", "@" + (dir.path() / "none").string()}));
}

TEST_CASE("what cannot be is refused, and the option is named") {
  const std::pair<Words, std::string> rows[] = {
      {{"--max-nodes", "0"}, "--max-nodes"},
      {{"--min-instances", "-1"}, "--min-nodes"},
      {{"--max-nodes", "many"}, "--max-nodes"},
      {{"--idle-seconds-before-scaledown", "soon"}, "--idle-seconds-before-scaledown"},
      {{"--tier", "cheap"}, "--vm-priority: 'cheap' is not known"},
      {{"--node-up", "bin/up", "--node-down", "/down"}, "--node-up bin/up: must be an absolute"},
  };
  for (const auto& [words, says] : rows) {
    const auto spec = given(words);
    CAPTURE(says);
    REQUIRE(!spec);
    CHECK(spec.error().kind == ErrorKind::invalid);
    CHECK(spec.error().message.find(says) != std::string::npos);
  }
}

TEST_CASE("only what differs is sent as a change") {
  const ComputeSpec before{.name = "c", .partition = "gpu", .max_nodes = 3};
  CHECK(changes_between(before, before).empty());
  ComputeSpec after = before;
  after.partition = "";
  after.max_nodes = 4;
  CHECK(changes_between(before, after) == wire::Json({{"partition", ""}, {"maxNodes", 4}}));
}
