#include "dialects/document.h"

#include <doctest/doctest.h>

#include <string>

using namespace trainyard;
using namespace trainyard::dialects;

namespace {

// The tree on one line, without places: {a: 1, b: ["x", null]}. Quoted texts in double quotes.
std::string show(const Node& node) {
  std::string text;
  switch (node.kind) {
    case Node::Kind::null:
      return "null";
    case Node::Kind::scalar:
      return node.quoted ? "\"" + node.text + "\"" : node.text;
    case Node::Kind::list:
      for (const Node& child : node.children) text += (text.empty() ? "" : ", ") + show(child);
      return "[" + text + "]";
    case Node::Kind::map:
      for (const Node& child : node.children) {
        text += (text.empty() ? "" : ", ") + child.key + ": " + show(child);
      }
      return "{" + text + "}";
  }
  return "?";
}

std::string tree_of(std::string_view text) {
  const auto document = parse_document(text, "f");
  return document ? show(document->root) : document.error().message;
}

// "3 of 7": line and column; "-" when it was read.
std::string fault_of(std::string_view text) {
  const auto document = parse_document(text, "f");
  if (document) return "-";
  CHECK(document.error().kind == ErrorKind::invalid);
  return document.error().message;
}

std::string repeat(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

}  // namespace

TEST_CASE("YAML and JSON become the same tree") {
  CHECK(tree_of("a: 1\nb: [x, ~]\nc: {d: 'e'}\n") == "{a: 1, b: [x, null], c: {d: \"e\"}}");
  CHECK(tree_of("- a\n- b: 1\n  c:\n") == "[a, {b: 1, c: null}]");
  CHECK(tree_of(R"({"a": 1, "b": ["x", null], "c": {"d": true}})") ==
        "{a: 1, b: [\"x\", null], c: {d: true}}");
  CHECK(tree_of("{a: 1, b: yes,}") == "{a: 1, b: yes}");
  CHECK(tree_of("") == "null");
  CHECK(tree_of("# only a comment\n") == "null");
  CHECK(tree_of("---\na: 1\n...\n") == "{a: 1}");
  CHECK(tree_of("\xEF\xBB\xBF"
                "a: 1\r\nb: 2\r\n") == "{a: 1, b: 2}");
}

TEST_CASE("quotes and blocks make a text, whatever it looks like") {
  CHECK(tree_of("a: '1'\nb: \"yes\"\nc: |\n  no\nd: !!str 5\ne: null\nf: 'null'\n") ==
        "{a: \"1\", b: \"yes\", c: \"no\n\", d: \"5\", e: null, f: \"null\"}");
  const auto document = parse_document("a: |\n  x\n  y\nb: >-\n  x\n  y\n", "f");
  REQUIRE(document);
  CHECK(document->root.find("a")->block);
  CHECK(!document->root.find("b")->block);
  CHECK(document->root.find("b")->text == "x y");
}

TEST_CASE("JSON may have tabs, escapes and surrogate pairs, which YAML has not") {
  CHECK(tree_of("{\n\t\"a\":\t\"\\u00e9\\ud83d\\ude00\\/\\n\",\n\t\"b\": -1.5e+3\n}\n") ==
        "{a: \"é😀/\n\", b: -1.5e+3}");
  CHECK(tree_of("{\"a\": \"\\ud83d\"}") == "{a: \"\xEF\xBF\xBD\"}");
  CHECK(tree_of("{\"a\": \"\\ud83dx\\ude00\"}") == "{a: \"\xEF\xBF\xBDx\xEF\xBF\xBD\"}");
  CHECK(tree_of("{\"" + std::string(2000, 'k') + "\": 1}") ==
        "{" + std::string(2000, 'k') + ": 1}");
}

TEST_CASE("every value knows its line") {
  const auto yaml = parse_document("a: 1\n\nb:\n  c: 2\n  d:\n  - e\n", "f");
  REQUIRE(yaml);
  CHECK(yaml->root.find("a")->line == 1);
  CHECK(yaml->root.find("b")->key_line == 3);
  CHECK(yaml->root.find("b")->find("c")->line == 4);
  CHECK(yaml->root.find("b")->find("c")->column == 6);
  CHECK(yaml->root.find("b")->find("d")->children[0].line == 6);
  CHECK(yaml->place(4) == "f:4");
  const auto json = parse_document("{\n  \"a\": 1,\n  \"b\":\n    [2]\n}\n", "f");
  REQUIRE(json);
  CHECK(json->root.find("a")->key_line == 2);
  CHECK(json->root.find("b")->key_line == 3);
  CHECK(json->root.find("b")->children[0].line == 4);
  CHECK(json->root.find("b")->children[0].column == 6);
}

TEST_CASE("what does not parse is said with its place") {
  CHECK(fault_of("a: 1\nb: [1, 2\nc: 3\n").contains("f:3: "));
  CHECK(fault_of("a: b: c\n").contains("f:1: illegal map value (column 5)"));
  CHECK(fault_of("a: 1\nb: 'x\n") == "f:2: a quote is not closed (column 4)");
  CHECK(fault_of("a: 1\nb: \"x\\\"\n\n") == "f:2: a quote is not closed (column 4)");
  CHECK(fault_of("a: 'x''y'\nb: \"x\\\"y\"\n") == "-");
  CHECK(fault_of("a: 'x''\n") == "f:1: a quote is not closed (column 4)");
  CHECK(fault_of("a: *nobody\n").contains("f:1: "));
  CHECK(fault_of("{\n  \"a\": 1\n  \"b\": 2\n}") == "f:3: expected ',' or '}' (column 3)");
  CHECK(fault_of("{\"a\": 01}") == "-");  // YAML's own braces.
  CHECK(fault_of("{\"a\": \"x\ny: 1").contains("f:1: a text has no closing quote"));
  CHECK(fault_of("{\"a\": 1} x").contains("f:1: nothing may follow"));
  const auto tab = parse_document("a:\n\tb: 1\n", "f");
  REQUIRE(!tab);
  CHECK(tab.error().hint.contains("spaces"));
}

TEST_CASE("a key given twice is refused, with both lines") {
  CHECK(fault_of("a: 1\nb: 2\na: 3\n") == "f:3: 'a' is given twice, first on line 1");
  CHECK(fault_of("x:\n  a: 1\n  a: 1\n") == "f:3: 'a' is given twice, first on line 2");
  CHECK(fault_of("{\"a\": 1,\n\"a\": 2}") == "f:2: 'a' is given twice, first on line 1");
}

TEST_CASE("a key is a plain text") {
  CHECK(fault_of("? [a, b]\n: 1\n").contains("a key must be a plain text"));
  CHECK(fault_of("~: 1\n").contains("a key must be a plain text"));
  CHECK(fault_of("{\"a\": {1: 2}, {}: 3}").contains("f:1: expected a key"));
  CHECK(tree_of("1: a\nyes: b\n") == "{1: a, yes: b}");
}

TEST_CASE("there is one document") {
  CHECK(fault_of("a: 1\n---\nb: 2\n").contains("a second document begins"));
}

TEST_CASE("aliases are copies, and merge keys fill in what is missing") {
  CHECK(tree_of("a: &x {b: 1}\nc: *x\n") == "{a: {b: 1}, c: {b: 1}}");
  CHECK(tree_of("&k a: 1\nb: *k\n") == "{a: 1, b: a}");
  CHECK(tree_of("a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n") ==
        "{a: {b: 1, c: 2}, d: {c: 3, b: 1}}");
  CHECK(tree_of("a: &x {b: 1}\nc: &y {b: 2, d: 3}\ne: {<<: [*x, *y]}\n") ==
        "{a: {b: 1}, c: {b: 2, d: 3}, e: {b: 1, d: 3}}");
  CHECK(tree_of("'<<': 1\n") == "{<<: 1}");
  CHECK(fault_of("<<: 1\n").contains("f:1: <<: must be a map"));
}

TEST_CASE("an anchor within itself is refused") {
  CHECK(fault_of("a: &x [1, *x]\n").contains("f:1: an anchor must not hold itself"));
  CHECK(fault_of("&r a: {b: &x {c: *x}}\n").contains("an anchor must not hold itself"));
}

TEST_CASE("aliases that multiply are refused before they fill the memory") {
  std::string laughs = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string now = std::to_string(i);
    const std::string before = "*a" + std::to_string(i - 1);
    laughs += "a" + now + ": &a" + now + " [" + repeat(before + ", ", 9) + before + "]\n";
  }
  CHECK(fault_of(laughs).contains("too much"));
  const std::string large = "a: &a " + std::string(500'000, 'x') + "\n";
  CHECK(fault_of(large + "b: [" + repeat("*a, ", 100) + "]\n").contains("too much"));
}

TEST_CASE("depth and size have a limit") {
  CHECK(fault_of(repeat("[", 100'000)).contains("nested deeper than 64"));
  CHECK(fault_of(repeat("{\"a\":", 100'000)).contains("nested deeper than 64"));
  CHECK(fault_of(repeat("- ", 100'000)).contains("nested deeper than 64"));
  CHECK(fault_of(repeat("[", 60) + repeat("]", 60)) == "-");
  CHECK(fault_of("a: &a " + repeat("[", 40) + repeat("]", 40) + "\nb: " + repeat("[", 40) + "*a" +
                 repeat("]", 40))
            .contains("nested deeper than 64"));
  CHECK(fault_of(std::string(10 << 20, 'a')).contains("f: larger than 1.0 MB"));
  CHECK(fault_of(repeat("- a\n", 200'000)).contains("too much"));
}

TEST_CASE("a file that is no text is refused") {
  CHECK(fault_of("a: 1\nb: \x04\n") == "f:2: a control byte; is this a text file?");
  CHECK(fault_of(std::string("a: \0b\n", 6)) == "f:1: a control byte; is this a text file?");
  CHECK(fault_of("a: 1\nb: \xff\n") == "f:2: is not UTF-8; save the file as UTF-8");
  CHECK(fault_of("a: \"\\0\"\n").contains("NUL"));
  CHECK(fault_of("{\"a\": \"\\u0000\"}").contains("NUL"));
}

TEST_CASE("a tag of somebody else's is refused, YAML's own are not") {
  CHECK(fault_of("a: !!python/object:os.system x\n").contains("means nothing here"));
  CHECK(fault_of("a: !custom {b: 1}\n").contains("means nothing here"));
  CHECK(tree_of("a: !!int 5\nb: !!map {c: 1}\n") == "{a: 5, b: {c: 1}}");
}

TEST_CASE("a file is read with its name, and a large one is refused unread") {
  const TempDir dir;
  REQUIRE(write_file(dir.path() / "good.yml", "a: 1\n"));
  const auto good = read_document(dir.path() / "x" / ".." / "good.yml");
  CHECK(!good);  // x is not there.
  const auto read = read_document(dir.path() / "." / "good.yml");
  REQUIRE(read);
  CHECK(read->file == (dir.path() / "good.yml").string());
  CHECK(read_document(dir.path() / "none.yml").error().kind == ErrorKind::not_found);
  CHECK(read_document(dir.path()).error().message.contains("is a folder"));
  REQUIRE(write_file(dir.path() / "large.yml", std::string(10 << 20, 'a')));
  CHECK(read_document(dir.path() / "large.yml").error().message.contains("larger than 1.0 MB"));
  CHECK(read_document("/dev/zero").error().message.contains("larger than 1.0 MB"));
}
