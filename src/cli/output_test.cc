#include "cli/output.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::cli;

namespace {

const Json kValue = {{"name", "a"},
                     {"count", 3},
                     {"none", nullptr},
                     {"text", "12"},
                     {"list", {1, "yes"}},
                     {"empty", Json::array()},
                     {"items", Json::array({{{"x", true}, {"y", "two words"}}})}};

}  // namespace

TEST_CASE("json keeps the order of keys and is indented by two") {
  CHECK(render_json({{"b", 1}, {"a", "x"}}, false) == "{\n  \"b\": 1,\n  \"a\": \"x\"\n}\n");
  CHECK(render_json(Json::array(), false) == "[]\n");
}

TEST_CASE("coloured json without its colours is the same json") {
  std::string text = render_json(kValue, true);
  CHECK(text.find("\x1b[") != std::string::npos);
  for (size_t at; (at = text.find('\x1b')) != std::string::npos;) {
    text.erase(at, text.find('m', at) - at + 1);
  }
  CHECK(text == render_json(kValue, false));
}

TEST_CASE("yaml quotes what a reader would take for something else") {
  CHECK(render_yaml(kValue, false) ==
        "name: a\n"
        "count: 3\n"
        "none: null\n"
        "text: \"12\"\n"
        "list:\n"
        "- 1\n"
        "- \"yes\"\n"
        "empty: []\n"
        "items:\n"
        "- x: true\n"
        "  \"y\": two words\n");
  for (const char* word :
       {"No", "null", "1e3", "2026-11-15", "a: b", "#x", "", "x ", "-", "é", "y"}) {
    CHECK(render_yaml(Json(word), false).starts_with('"'));
  }
  CHECK(render_yaml(Json("/tmp/a-b_c.txt"), false) == "/tmp/a-b_c.txt\n");
  CHECK(render_yaml(Json::array({Json::array({1, 2})}), false) == "- - 1\n  - 2\n");
}

TEST_CASE("a table's columns are as wide as their widest cell, counted in characters") {
  const Table table = {{"RUN", "WHAT"}, {{"é", "x"}, {"long-name", "y\nz"}}};
  CHECK(render_table(table, {}) == "RUN        WHAT\né          x\nlong-name  y z\n");
}

TEST_CASE("columns are cut with an ellipsis to the width of a terminal, the first one last") {
  const Table table = {{"RUN", "WHAT"}, {{"aaaa", "éééé"}}};
  CHECK(render_table(table, {.width = 8}) == "RUN   W…\naaaa  é…\n");
  CHECK(render_table(table, {.width = 3}) == "RUN\naa…\n");
  const Table wide = {{"RUN", "NAME", "STATUS", "METRICS"},
                      {{"brisk-otter-17", std::string(30, 'n'), "Failed", std::string(30, 'm')}}};
  CHECK(render_table(wide, {.width = 50}) ==
        "RUN             NAME          STATUS  METRICS\n"
        "brisk-otter-17  nnnnnnnnnnn…  Failed  mmmmmmmmmmm…\n");
  CHECK(render_table(wide, {}).contains(std::string(30, 'm')));
}

TEST_CASE("states are coloured by what they mean, and nothing else is") {
  const Table table = {{"NAME", "STATUS"}, {{"Failed", "Failed"}, {"x", "Completed"}}};
  const std::string text = render_table(table, {.colour = true});
  CHECK(text.contains("\nFailed  \x1b[31mFailed\x1b[0m\n"));
  CHECK(text.contains("\x1b[32mCompleted\x1b[0m"));
  CHECK_FALSE(render_table(table, {}).contains("\x1b"));
}

TEST_CASE("tsv has no header and keeps each row on its line") {
  CHECK(render_tsv({{"A", "B"}, {{"1", "x\ty"}, {"2", ""}}}) == "1\tx y\n2\t\n");
}

TEST_CASE("formats are known by their names and others are refused") {
  CHECK(format_from("yamlc").value() == Format::yamlc);
  REQUIRE_FALSE(format_from("xml"));
  CHECK(format_from("xml").error().kind == ErrorKind::invalid);
}

TEST_CASE("each format prints what it should of one value") {
  const View view = {.table = [](const Json& value) {
    static constexpr std::string_view kKeys[] = {"name", "runCount"};
    return plain_table(value, kKeys);
  }};
  const Json value = Json::array({{{"name", "a"}, {"runCount", 2}}});
  CHECK(render(value, Format::table, view, {}) == "NAME  RUN COUNT\na     2\n");
  CHECK(render(value, Format::tsv, view, {}) == "a\t2\n");
  CHECK(render(value, Format::none, view, {}).empty());
  CHECK(render(value, Format::jsonc, view, {}) == render(value, Format::json, view, {}));
}

TEST_CASE("whatever a query finds has a table") {
  CHECK(render_tsv(any_table("x")) == "x\n");
  CHECK(render_tsv(any_table(nullptr)).empty());
  CHECK(render_tsv(any_table(Json::array({"a", 2, nullptr}))) == "a\n2\n\n");
  CHECK(render_tsv(any_table(Json::array({Json::array({1, "b"}), Json::array({2, "c"})}))) ==
        "1\tb\n2\tc\n");
  CHECK(render_table(any_table(Json::array({{{"id", "r"}, {"status", "Failed"}}})), {}) ==
        "id  status\nr   Failed\n");
  CHECK(render_table(any_table({{"id", "r"}}), {}) == "id\nr\n");
}
