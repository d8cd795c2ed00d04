#include "dialects/keys.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdlib>

#include "base/file.h"
#include "dialects/compute.h"
#include "dialects/job.h"
#include "dialects/runconfig.h"

using namespace trainyard;
using namespace trainyard::dialects;

namespace {

constexpr auto kRows = std::to_array<Key>({
    {"name", Type::text, Support::works, "", "a name"},
    {"nodeCount", Type::whole, Support::works, "1", "nodes"},
    {"flag", Type::boolean, Support::no_effect, "false", "there is no flag"},
    {"words", Type::texts, Support::later, "[logs]", "words"},
    {"ratio", Type::number, Support::works, "", ""},
    {"box.lid", Type::boolean, Support::later, "false", "lids", "", "Leave it off."},
    {"box.color", Type::text, Support::works, "red", "its color", "the lid is on"},
    {"box.label", Type::text, Support::later, "", "labels", "the lid is on", "", true},
    {"vars", Type::map, Support::works, "", ""},
    {"vars.*", Type::text, Support::works, "", ""},
});

bool lid_is_on(std::string_view condition, const Node& root) {
  CHECK(condition == "the lid is on");
  const Node* lid = at(root, "box.lid");
  return lid != nullptr && lid->text == "true";
}

constexpr Dialect kFree = {"test", kRows, Dialect::Spelling::free, lid_is_on};
constexpr Dialect kExact = {"test", kRows, Dialect::Spelling::exact, lid_is_on};

// All findings, a line each: "E f:1: …" or "W f:2: …".
std::string findings_of(const Dialect& dialect, std::string_view text) {
  const KeyTable table(dialect);
  auto document = parse_document(text, "f");
  REQUIRE(document);
  Findings findings;
  table.spell(*document, findings);
  table.check(*document, document->root, findings);
  std::string all;
  for (const Finding& found : findings) {
    all += (found.severity == Severity::error ? "E " : "W ") + found.str() + "\n";
  }
  return all;
}

}  // namespace

TEST_CASE("what is in the table and of its type is no word worth") {
  CHECK(findings_of(kExact, "name: x\nnodeCount: 4\nratio: 0.5\nvars: {A: 1, b_c: x}\n") == "");
  CHECK(findings_of(kExact, "name:\nnodeCount:\nflag:\nwords:\nbox:\nvars:\n") == "");
  CHECK(findings_of(kExact, "") == "");
}

TEST_CASE("an unknown key warns with its line and the nearest known one") {
  CHECK(findings_of(kExact, "name: x\nnodeCont: 1\n") ==
        "W f:2: unknown key 'nodeCont'; did you mean 'nodeCount'?\n");
  CHECK(findings_of(kExact, "box:\n  lit: false\n") ==
        "W f:2: unknown key 'lit' in box; did you mean 'lid'?\n");
  CHECK(findings_of(kExact, "color: red\n") ==
        "W f:1: unknown key 'color'; did you mean 'box.color'?\n");
  CHECK(findings_of(kExact, "zzzzzz: 1\n") == "W f:1: unknown key 'zzzzzz'\n");
}

TEST_CASE("very many unknown keys are not all looked up") {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "unknown_key_" + std::to_string(i) + ": 1\n";
  const std::string said = findings_of(kExact, text);
  CHECK(std::count(said.begin(), said.end(), '\n') == 21);
  CHECK(said.ends_with("W f:21: more unknown keys follow\n"));
}

TEST_CASE("a wrong type is an error that says what it must be") {
  CHECK(findings_of(kExact, "nodeCount: many\n") == "E f:1: nodeCount: must be a whole number\n");
  CHECK(findings_of(kExact, "nodeCount: '4'\n") == "E f:1: nodeCount: must be a whole number\n");
  CHECK(findings_of(kExact, "ratio: [1]\n") == "E f:1: ratio: must be a number\n");
  CHECK(findings_of(kExact, "name: [x]\n") == "E f:1: name: must be a text\n");
  CHECK(findings_of(kExact, "words: x\n") == "E f:1: words: must be a list of plain values\n");
  CHECK(findings_of(kExact, "words: [[x]]\n") == "E f:1: words: must be a list of plain values\n");
  CHECK(findings_of(kExact, "box: 1\n") == "E f:1: box: must be a map of keys and values\n");
  CHECK(findings_of(kExact, "vars: [A]\n") == "E f:1: vars: must be a map of keys and values\n");
  CHECK(findings_of(kExact, "vars:\n  A: {b: 1}\n") == "E f:2: vars.A: must be a text\n");
}

TEST_CASE("a key without effect warns unless it is as it would be anyhow") {
  CHECK(findings_of(kExact, "flag: true\n") == "W f:1: flag: has no effect (there is no flag)\n");
  CHECK(findings_of(kExact, "flag: false\n") == "");
  CHECK(findings_of(kExact, "flag: off\n") == "");
}

TEST_CASE("a key of a later version is refused when it asks for something") {
  CHECK(findings_of(kExact, "box:\n  lid: true\n") ==
        "E f:2: box.lid: comes with a later version (lids)\n");
  CHECK(findings_of(kExact, "box:\n  lid: no\n") == "");
  CHECK(findings_of(kExact, "words: [logs]\n") == "");
  CHECK(findings_of(kExact, "words: []\n") == "");
  CHECK(findings_of(kExact, "words: [logs, x]\n") ==
        "E f:1: words: comes with a later version (words)\n");
}

TEST_CASE("a key whose condition does not hold warns, but a generated one does not") {
  CHECK(findings_of(kExact, "box: {color: blue}\n") ==
        "W f:1: box.color: has no effect unless the lid is on\n");
  CHECK(findings_of(kExact, "box: {color: red, label: x}\n") == "");
  CHECK(findings_of(kExact, "box: {lid: true, label: x}\n") ==
        "E f:1: box.lid: comes with a later version (lids)\n"
        "E f:1: box.label: comes with a later version (labels)\n");
}

TEST_CASE("a free dialect takes any case and underscores, and a user's own keys as they are") {
  const KeyTable table(kFree);
  auto document = parse_document("Node_Count: 2\nVARS: {a_B: 1}\nbox: {Lid: false}\n", "f");
  REQUIRE(document);
  Findings findings;
  table.spell(*document, findings);
  CHECK(findings.empty());
  CHECK(at(document->root, "nodeCount")->text == "2");
  CHECK(at(document->root, "vars.a_B")->text == "1");
  CHECK(at(document->root, "box.lid")->text == "false");
  CHECK(findings_of(kExact, "node_count: 1\n") ==
        "W f:1: unknown key 'node_count'; did you mean 'nodeCount'?\n");
  CHECK(findings_of(kFree, "nodeCount: 1\nnode_count: 1\n") ==
        "E f:2: nodeCount: is given twice, first on line 1\n");
}

TEST_CASE("the tables of the docs are the tables of the code") {
  const std::pair<std::string, const KeyTable*> pages[] = {
      {"docs/dialects/runconfig.md", &runconfig_keys()},
      {"docs/dialects/job.md", &job_keys()},
      {"docs/dialects/compute.md", &compute_keys()},
  };
  for (const auto& [name, table] : pages) {
    const fs::path file = fs::path(TRAINYARD_SOURCE_DIR) / name;
    const auto page = read_file(file);
    REQUIRE_MESSAGE(page, file.string());
    const size_t begin = page->find("| key | type | default | state | meaning |");
    REQUIRE_MESSAGE(begin != std::string::npos, file.string());
    const size_t end = page->find("\n\n", begin);
    REQUIRE_MESSAGE(end != std::string::npos, file.string());
    const std::string shown = page->substr(begin, end + 1 - begin);
    if (std::getenv("TRAINYARD_ACCEPT") != nullptr && shown != table->markdown()) {
      REQUIRE(write_file(file, page->substr(0, begin) + table->markdown() + page->substr(end + 1)));
      continue;
    }
    CHECK_MESSAGE(shown == table->markdown(), "TRAINYARD_ACCEPT=1 writes ", name, " anew");
  }
}

TEST_CASE("the docs' examples are good") {
  const auto example = [](const char* page) {
    const auto text = read_file(fs::path(TRAINYARD_SOURCE_DIR) / page);
    REQUIRE(text);
    constexpr std::string_view kOpen = "```yaml\n";
    const size_t begin = text->find(kOpen) + kOpen.size();
    return text->substr(begin, text->find("```", begin) - begin);
  };
  CHECK(validate_runconfig(example("docs/dialects/runconfig.md"), "f").empty());
  CHECK(validate_job(example("docs/dialects/job.md"), "f").empty());
  const TempDir dir;
  REQUIRE(write_file(dir.path() / "f", example("docs/dialects/compute.md")));
  const auto compute = load_compute({dir.path() / "f", {}}, {});
  REQUIRE(compute);
  CHECK(compute->warnings.empty());
}
