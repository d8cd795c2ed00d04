#include "dialects/overrides.h"

#include <doctest/doctest.h>

#include "dialects/keys.h"

using namespace trainyard;
using namespace trainyard::dialects;

namespace {

Document document_of(std::string_view text) {
  auto document = parse_document(text, "f");
  REQUIRE(document);
  return *std::move(document);
}

// The text at `path` after the override, or why not.
std::string after(std::string_view text, std::string_view assignment, std::string_view path) {
  Document document = document_of(text);
  if (const Status applied = apply_override(document, assignment); !applied) {
    CHECK(applied.error().kind == ErrorKind::invalid);
    return applied.error().message;
  }
  const Node* node = at(document.root, path);
  return node == nullptr ? "(null)" : node->is_scalar() ? node->text : "(not plain)";
}

}  // namespace

TEST_CASE("an override replaces what is there and makes what is not") {
  CHECK(after("inputs: {lr: 1}", "inputs.lr=0.1", "inputs.lr") == "0.1");
  CHECK(after("a: 1", "inputs.lr=0.1", "inputs.lr") == "0.1");
  CHECK(after("", "x.y.z=1", "x.y.z") == "1");
  CHECK(after("x:", "x.y=1", "x.y") == "1");
  CHECK(after("a: [1, {b: 2}]", "a.1.b=3", "a") == "(not plain)");
  CHECK(after("a: {b: 1}", "a=2", "a") == "2");
  CHECK(after("a: 1", "a=", "a") == "(null)");
  CHECK(after("a: 1", "a=x=y", "a") == "x=y");
}

TEST_CASE("a value is read as YAML") {
  CHECK(after("", "a={b: 1, c: [2]}", "a.b") == "1");
  CHECK(after("", "a=\"x y\"", "a") == "x y");
  CHECK(after("", "a='7'", "a") == "7");
  CHECK(after("", "command=echo: hi # there", "command") == "echo: hi # there");
  Document document = document_of("");
  REQUIRE(apply_override(document, "a='7'"));
  REQUIRE(apply_override(document, "b=7"));
  CHECK(at(document.root, "a")->quoted);
  CHECK(!at(document.root, "b")->quoted);
}

TEST_CASE("what an override set has its words for a place") {
  Document document = document_of("a: 1\n");
  REQUIRE(apply_override(document, "b.c=1"));
  REQUIRE(apply_override(document, "a=2"));
  CHECK(document.place(at(document.root, "b.c")->key_line) == "--set b.c=1");
  CHECK(document.place(at(document.root, "a")->line) == "--set a=2");
}

TEST_CASE("a bad override is refused and says which") {
  CHECK(after("", "a", "a") == "--set a: there is no '='");
  CHECK(after("", "=1", "a") == "--set =1: a part of the path is empty");
  CHECK(after("", "a..b=1", "a") == "--set a..b=1: a part of the path is empty");
  CHECK(after("a: 1", "a.b=1", "a") == "--set a.b=1: there is no 'b' to set");
  CHECK(after("a: [1]", "a.1=1", "a") == "--set a.1=1: there is no '1' to set");
  CHECK(after("a: [1]", "a.x=1", "a") == "--set a.x=1: there is no 'x' to set");
  CHECK(after("", "a={b", "a").starts_with("--set a={b: value:1: "));
  CHECK(after("", "a=\xff", "a").ends_with("is not UTF-8"));
}
