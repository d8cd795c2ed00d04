#include "control/yard.h"
#include "model/limits.h"
#include "store/metrics.h"
#include "store/warnings.h"

// What scripts tell of their runs and of the children they have.
using namespace trainyard;
using namespace trainyard::control;

namespace {

RunSpec interactive(const std::string& parent = "") {
  RunSpec spec = Yard::spec();
  spec.command.clear();
  spec.interactive = true;
  spec.parent = parent;
  return spec;
}

std::string metric(int value, const std::string& about = "") {
  const std::string whose = about.empty() ? "" : R"("r":")" + about + R"(",)";
  return R"({"k":"metric","n":"x",)" + whose + R"("v":)" + std::to_string(value) + "}\n";
}

std::string child(const std::string& id, const std::string& parent = "") {
  const std::string whose = parent.empty() ? "" : R"(,"p":")" + parent + '"';
  return R"({"k":"child","r":")" + id + '"' + whose + "}\n";
}

std::string end(const std::string& id, const std::string& status) {
  return R"({"k":"end","r":")" + id + R"(","v":")" + status + "\"}\n";
}

// The points of x, one after the other.
std::string points(Yard& yard, const std::string& id) {
  std::string found;
  REQUIRE(yard.store->read([&](db::Db& db) -> Status {
    TRY_SET(const store::RunHead head, store::run_head(db, RunId{id}));
    TRY_SET(const store::SeriesPage page, store::load_series(db, head.number, "x", 0, 100));
    for (const Point& point : page.points) found += std::to_string(static_cast<int>(*point.value));
    return {};
  }));
  return found;
}

}  // namespace

TEST_CASE("a run that names itself in its records is the run itself, in the same order") {
  Yard yard;
  yard.submit("run-1", interactive());
  const std::string tags = R"({"k":"tag","n":"a","v":"1"})"
                           "\n"
                           R"({"k":"tag","n":"b","v":"2","r":"run-1"})"
                           "\n";
  REQUIRE(yard.control->take_records(RunId{"run-1"},
                                     metric(1, "run-1") + metric(2) + metric(3, "run-1") + tags));
  CHECK(points(yard, "run-1") == "123");
  CHECK(yard.run("run-1").labels.tags ==
        std::map<std::string, std::string>{{"a", "1"}, {"b", "2"}});
}

TEST_CASE("an end that is none changes nothing, and nothing counts twice") {
  Yard yard;
  yard.submit("run-1", interactive());
  CHECK(yard.control->take_records(RunId{"run-1"}, child("c") + metric(1, "c") +
                                                       end("c", "Running") + metric(2, "c")) == 3);
  CHECK(points(yard, "c") == "12");
  CHECK(yard.status("c") == RunStatus::running);
}

TEST_CASE("a child that ends takes its own children with it, and what they told is kept") {
  Yard yard;
  yard.submit("run-1", interactive());
  REQUIRE(yard.control->take_records(RunId{"run-1"}, child("c") + child("g", "c")));
  CHECK(yard.control->take_records(RunId{"run-1"}, metric(1, "g") + metric(2, "c") +
                                                       end("c", "Completed") + metric(3, "g") +
                                                       metric(4)) == 4);
  CHECK(points(yard, "g") == "1");
  CHECK(points(yard, "c") == "2");
  CHECK(points(yard, "run-1") == "4");
  CHECK(yard.status("g") == RunStatus::completed);
  CHECK(yard.status("run-1") == RunStatus::running);
  CHECK(yard.changed.with([](auto& all) { return all.contains("g"); }));
}

TEST_CASE("whoever reads a child of a child learns that it ended with them") {
  Yard yard;
  yard.submit("run-1", interactive());
  REQUIRE(yard.control->take_records(RunId{"run-1"}, child("c") + child("g", "c")));
  yard.changed.with([](auto& all) { all.clear(); });
  REQUIRE(yard.control->end(RunId{"run-1"}, RunStatus::failed, "it went wrong"));
  CHECK(yard.status("g") == RunStatus::failed);
  CHECK(yard.changed.with([](auto& all) { return all.count("c") == 1 && all.count("g") == 1; }));
}

TEST_CASE("one that is over has no more interactive children") {
  Yard yard;
  yard.submit("run-1", interactive());
  yard.submit("c", interactive("run-1"));
  REQUIRE(yard.control->end(RunId{"run-1"}, RunStatus::completed, ""));
  CHECK(kind_of(yard.control->submit({RunId{"late"}, interactive("run-1"), "ada"})) ==
        ErrorKind::conflict);
  CHECK(yard.control->submit({RunId{"c"}, interactive("run-1"), "ada"}));  // The same again.
  RunSpec carried = Yard::spec();
  carried.parent = "run-1";
  CHECK(yard.control->submit({RunId{"carried"}, carried, "ada"}));  // It has its own supervisor.
}

TEST_CASE("what exceeds a limit is left out, and all else of its batch is taken") {
  Yard yard;
  yard.submit("run-1", interactive());
  const std::string long_value(limits::kValueBytes + 1, 'v');
  const auto told = [](const std::string& kind, const std::string& name, const std::string& value) {
    return R"({"k":")" + kind + R"(","n":")" + name + R"(","v":")" + value + "\"}\n";
  };
  std::string lines = told("tag", "long", long_value) + told("param", "long", long_value) +
                      told("property", "long", long_value) +
                      told("param", std::string(limits::kNameBytes + 1, 'n'), "1") + metric(1);
  for (size_t i = 0; i < limits::kTags + 5; ++i) lines += told("tag", std::to_string(i), "1");
  lines += told("tag", "0", "changed") + metric(2);
  CHECK(yard.control->take_records(RunId{"run-1"}, lines) ==
        static_cast<int64_t>(limits::kTags) + 3);
  const Run run = yard.run("run-1");
  CHECK(points(yard, "run-1") == "12");
  CHECK(run.labels.tags.size() == limits::kTags);
  CHECK(run.labels.tags.at("0") == "changed");
  CHECK(run.parameters.empty());
  CHECK(run.labels.properties.empty());
}

TEST_CASE("a record that cannot be taken counts as taken, and warns on the run") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  REQUIRE(yard.report("run-1", 1, {phase(1, ReportKind::preparing)}));
  const auto nested = [](size_t levels) {
    return R"({"k":"doc","n":"d","v":)" + std::string(levels, '[') + std::string(levels, ']') +
           "}\n";
  };
  const AttemptId attempt{RunId{"run-1"}, 1};
  const std::string lines = metric(1) + nested(200'000) + metric(2) + nested(120);
  for (int sent = 0; sent < 2; ++sent) {  // The second time it counts for nothing.
    const auto taken = yard.control->take_records(attempt, 0, 0, lines);
    REQUIRE(taken);
    CHECK(*taken == static_cast<int64_t>(lines.size()));
    CHECK(points(yard, "run-1") == "12");
    CHECK(yard.run("run-1").metrics.size() == 2);
    CHECK(yard.run("run-1").warnings ==
          Words{"a record was not taken: this JSON nests deeper than 128 levels"});
  }
  const auto from = static_cast<int64_t>(lines.size());
  const std::string unknown = "{\"k\":\"what\",\"n\":\"x\",\"v\":\"1\"}\n";
  REQUIRE(yard.control->take_records(attempt, 0, from, unknown + nested(130)));
  CHECK(yard.run("run-1").warnings ==
        Words{"a record was not taken: its kind 'what' is not known",
              "a record was not taken: this JSON nests deeper than 128 levels (2 times)"});
  yard.restart();
  CHECK(points(yard, "run-1") == "12");
}

TEST_CASE("a wide record costs linear time, and one that is too wide is not taken") {
  Yard yard;
  yard.submit("run-1", interactive());
  const auto wide = [](int members) {
    std::string line = R"({"k":"doc","n":"d","v":{)";
    for (int i = 0; i < members; ++i) line += "\"" + std::to_string(i) + "\":1,";
    line.back() = '}';
    return line + "}\n";
  };
  CHECK(yard.control->take_records(RunId{"run-1"}, wide(90'000)) == 1);
  CHECK(yard.control->take_records(RunId{"run-1"}, wide(100'001)) == 0);
  CHECK(yard.run("run-1").warnings ==
        Words{"a record was not taken: an object of this JSON has more than 100000 members"});
}

TEST_CASE("a run has one warning for each cause of records that were not taken, up to a limit") {
  Yard yard;
  yard.submit("run-1", interactive());
  const auto dropped = [](const std::string& name, const std::string& why = "") {
    return R"({"k":"dropped","n":")" + name + R"(","e":")" + why + "\"}\n";
  };
  REQUIRE(yard.control->take_records(RunId{"run-1"}, dropped("a") + dropped("b", "is odd")));
  REQUIRE(yard.control->take_records(RunId{"run-1"}, dropped("c") + dropped("d")));
  CHECK(yard.run("run-1").warnings ==
        Words{"a record was not taken: 'a' is larger than 1 MB (3 times)",
              "a record was not taken: 'b' is odd"});
  for (const int first : {0, 8, 50}) {
    std::string lines;
    for (int i = first; i < first + 20; ++i) lines += dropped("x", "cause " + std::to_string(i));
    REQUIRE(yard.control->take_records(RunId{"run-1"}, lines));
  }
  const Words warnings = yard.run("run-1").warnings;
  CHECK(warnings.size() == store::kCausesMax + 1);
  CHECK(warnings.back().starts_with("and more, of other causes, the first: a record was not"));
}
