#include "container/private_view.h"

#include <doctest/doctest.h>

#include "base/text.h"

namespace trainyard::container {
namespace {

const Submitter kSubmitter{.bwrap = "/usr/bin/bwrap", .uid = 1000, .gid = 1000};

TEST_CASE("a private view shows the whole machine, and new paths beside what is there") {
  const TempDir folder;
  const std::string source = folder.path();
  const Carried carried =
      plan_private_view({{source, "/no-such-data"}, {source, "/no-such-data/sub", true}},
                        {"python", "train.py"}, folder.path(), kSubmitter)
          .value();
  const std::string root = join(carried.plain, " ");
  CHECK(root.find("--dev-bind /etc /etc") != std::string::npos);
  CHECK(root.find("--dev-bind /proc /proc") != std::string::npos);
  CHECK(join(carried.words, " ") == "--bind " + source + " /no-such-data --ro-bind " + source +
                                        " /no-such-data/sub --chdir " + source);
  CHECK(carried.layer.empty());
  CHECK(carried.all_variables);
  CHECK(carried.command == std::vector<std::string>{"python", "train.py"});
}

TEST_CASE("a private view takes nothing that hides the run or the kernel, or is not there") {
  const TempDir folder;
  const fs::path own = folder.path() / "run" / "work";
  REQUIRE(make_dirs(own));
  const std::string source = folder.path();
  const auto error = [&](const Bind& bind) {
    const Result<Carried> carried = plan_private_view({bind}, {"true"}, own, kSubmitter);
    return carried ? std::string("none") : carried.error().message;
  };
  CHECK(error({source, "data"}) == "'data' is no absolute path");
  CHECK(error({source, "/"}) == "'/' would hide the run's own folder");
  CHECK(error({source, source}) == "'" + source + "' would hide the run's own folder");
  CHECK(error({source, own}) == "'" + own.string() + "' would hide the run's own folder");
  CHECK(error({source, own / "data"}) == "none");
  CHECK(error({source, "/dev/shm/x"}) == "'/dev/shm/x' is the kernel's");
  CHECK(error({"/no-such", "/data"}) == "show /no-such as /data: No such file or directory");
}

}  // namespace
}  // namespace trainyard::container
