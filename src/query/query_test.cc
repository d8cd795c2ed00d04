#include "query/query.h"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "query/evaluate.h"
#include "query/lexer.h"
#include "query/parser.h"
#include "query/query_cases.h"
#include "query/value.h"

namespace trainyard::query {
namespace {

Error error_of(std::string_view text, const wire::Json& given = nullptr) {
  const Result<Query> query = Query::compile(text);
  if (!query) return query.error();
  const Result<wire::Json> found = query->search(given);
  REQUIRE(!found);
  return found.error();
}

std::string times(int count, std::string_view part) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

TEST_CASE("an error names its place in characters from 1, and says what helps") {
  struct {
    std::string_view text, message, hint;
  } const cases[] = {
      {"a[0}", "query: position 4: expected ']' but found '}'", ""},
      {"a.b[?c", "query: position 7: expected ']' but found the end", ""},
      {"'é' b", "query: position 5: expected the end but found 'b'", ""},
      {"a.'b'", "query: position 3: expected a name, '*', '[' or '{' after '.' but found ''b''",
       ""},
      {"[?a = `1`]", "query: position 5: a lone '='", "Write == to compare."},
      {"[?a=='x]", "query: position 6: the quote ' is never closed", "Close it with '."},
      {"[?a==`x`]", "query: position 6: what is between the backticks is not JSON",
       "For a string write 'x'."},
      {"[?a > 1]", "query: position 7: expected an expression but found '1'",
       "A number is written between backticks, as `1`."},
      {"a ✓", "query: position 3: '✓' has no meaning here", ""},
      {"a[::0]", "query: position 5: a slice's step must not be 0",
       "Leave the step out, or -1 to go backwards."},
      {"  lenght(a)", "query: position 3: unknown function lenght()", "Did you mean length()?"},
      {"abs(a, b)", "query: position 1: abs() takes 1 argument, not 2", ""},
      {"a | join(b)", "query: position 5: join() takes 2 arguments, not 1", ""},
      {"merge()", "query: position 1: merge() takes at least 1 argument, not 0", ""},
      {"sort_by(a, b)",
       "query: position 1: sort_by(): argument 2 must be an expression with '&' in front",
       "As in sort_by(runs, &name)."},
      {"@.abs('x')", "query: position 3: abs(): argument 1 must be a number, not a string", ""},
      {"sum(`[1,\"a\"]`)",
       "query: position 1: sum(): argument 1 must be an array of numbers, "
       "not an array of other things",
       ""},
      {"max(`true`)",
       "query: position 1: max(): argument 1 must be an array of numbers or of strings, "
       "not a boolean",
       ""},
      {"length(@)",
       "query: position 1: length(): argument 1 must be a string or an array or an object, "
       "not null",
       ""},
      {"sort_by(`[{}]`, &a)",
       "query: position 1: sort_by(): the expression must give a number or a string, not null", ""},
  };
  for (const auto& each : cases) {
    CAPTURE(each.text);
    const Error error = error_of(each.text);
    CHECK(error.kind == ErrorKind::invalid);
    CHECK(error.message == each.message);
    if (!each.hint.empty()) CHECK(error.hint == each.hint);
    CHECK(!error.hint.empty());
  }
}

TEST_CASE("a query is compiled once and searched often") {
  Query first = Query::compile("a[?b > `1`].b").value();
  const Query query = std::move(first);
  for (int i = 0; i < 3; ++i) {
    const wire::Json given = {{"a", {{{"b", i}}, {{"b", 2}}}}};
    CHECK(query.search(given) == (i < 2 ? wire::Json{2} : wire::Json{2, 2}));
  }
  CHECK(query.search(nullptr) == wire::Json());
}

TEST_CASE("members keep their order and whole numbers stay whole") {
  check_all(R"({"z":1,"a":{"y":1.0,"b":-0.0},"m":[18446744073709551615,-9223372036854775808]})",
            {{"@", R"({"z":1,"a":{"y":1.0,"b":-0.0},"m":[18446744073709551615,)"
                   R"(-9223372036854775808]})"},
             {"{c: z, b: a.y}", R"({"c":1,"b":1.0})"},
             {"keys(@)", R"(["z","a","m"])"},
             {"merge({q: z}, a, {y: z})", R"({"q":1,"y":1,"b":-0.0})"},
             {"abs(m[1])", "9223372036854775808"},
             {"sort(m)[0]", "-9223372036854775808"}});
}

TEST_CASE("nesting is limited, and long paths are not nesting") {
  const int many = 20'000;
  for (const std::string& text :
       {times(many, "("), times(many, "!") + "a", times(many, "["), times(many, "[?"),
        times(10'000, "{a:"), times(8'000, "abs("), times(many, "*."),
        times(300, "map(&") + "a" + times(300, ",@)"), times(300, "(") + "a" + times(300, ")"),
        "a" + times(10'000, "[]"), "a" + times(10'000, "[?b]"), "a" + times(10'000, "[*]"),
        "a" + times(10'000, " == a"), "a" + times(10'000, ".*"), times(10'000, "*.") + "a",
        "a" + times(10'000, "[:1]")}) {
    CAPTURE(text.substr(0, 20));
    const Error error = error_of(text);
    CHECK(error.kind == ErrorKind::invalid);
    CHECK(error.message.ends_with(": nests deeper than 100 levels"));
  }
  const wire::Json given = {{"a", wire::Json::array({1})}};
  CHECK(answer("a" + times(many, ".a"), given) == "null");
  CHECK(answer("a" + times(many, "[0]"), given) == "null");
  CHECK(answer("a" + times(many, "|@") + "|[0]", given) == "1");
  CHECK(answer("b" + times(many, "||b") + "||a[0]", given) == "1");
  CHECK(answer("a" + times(many, "&&a"), given) == "[1]");
  CHECK(answer(times(80, "(") + "a[0]" + times(80, ")"), given) == "1");
  CHECK(answer(times(80, "[") + "a" + times(80, "]"), given) ==
        times(80, "[") + "[1]" + times(80, "]"));
}

TEST_CASE("a long query is refused, and one that is not UTF-8") {
  CHECK(error_of(times(70'000, "a")).message == "query: is longer than 65536 bytes");
  CHECK(error_of("'\xff'").message == "query: is not UTF-8");
}

TEST_CASE("a document as deep as a well is picked from, but not copied or compared") {
  wire::Json deep = 1;
  for (int i = 0; i < 100'000; ++i) deep = wire::Json::array({std::move(deep)});
  CHECK(answer("type(@)", deep) == R"("array")");
  CHECK(answer("length([0][0])", deep) == "1");
  for (const std::string_view text : {"@", "to_string(@)", "@ == [0]", "contains(@, @)", "[@]"}) {
    CAPTURE(text);
    CHECK(error_of(text, deep).message == "query: the values nest deeper than 1000 levels");
  }
}

// As Query::search(), with a limit that a test reaches soon.
Result<wire::Json> search_within(size_t steps_max, std::string_view text, const wire::Json& given) {
  const NodePtr root = parse(lex(text).value()).value();
  Workspace workspace(steps_max);
  TRY_SET(const Value found, Evaluation(workspace).evaluate(*root, Value(given)));
  return workspace.copy(found);
}

TEST_CASE("a query whose answer would double and double is stopped") {
  const wire::Json given = {{"s", times(100, "x")}, {"t", times(100, "x")}};
  const std::string doubled = "[@,@]" + times(60, "|[@,@]");
  for (const std::string& text :
       {doubled, "[@,@]" + times(60, "|[@,@][]"), "s" + times(60, "|join('',[@,@])"),
        doubled + "| [0] == [1]", "to_string(" + doubled + ")", "*" + times(60, "|[@,@][]|sort(@)"),
        "@" + times(60, "|[@,@]|map(&@,@)[]")}) {
    CAPTURE(text.substr(0, 30));
    const Result<wire::Json> found = search_within(100'000, text, given);
    REQUIRE(!found);
    CHECK(found.error().kind == ErrorKind::invalid);
    CHECK(found.error().message == "query: takes too many steps");
  }
  CHECK(search_within(100'000, "[s, t]", given));
}

// No crash, no leak, no undefined step: whatever the words, there is an answer or an error.
TEST_CASE("any soup of tokens gives a value or an error with a place") {
  constexpr std::string_view kTokens[] = {
      "a",         "b",       "\"a b\"", "'s'",        "`1`",   "`[1,{\"a\":2}]`",
      "0",         "-1",      "[",       "]",          "[]",    "[?",
      "[*]",       "{",       "}",       "(",          ")",     "a:",
      ":",         ",",       ".",       ".a",         "*",     "@",
      "&",         "|",       "||",      "&&",         "!",     "==",
      "!=",        "<",       ">=",      "abs(",       "map(&", "sort_by(",
      "sum(",      "length(", "`",       "'",          "\"",    "\\",
      "join(',',", "[0]",     "[::2]",   "keys(",      "✓",     " ",
      "=",         "#",       "merge(",  "to_string(", "[1:]",  "type("};
  const wire::Json given =
      wire::parse(R"({"a":[{"a":1,"b":"x"},{"a":[2,[3]]},null,true],"b":{"a":"s","c":1.5}})")
          .value();
  const unsigned seed = std::random_device()();
  MESSAGE("seed ", seed);
  std::mt19937 random(seed);
  int answered = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (auto left = random() % 12; left > 0; --left) {
      text += kTokens[random() % std::size(kTokens)];
    }
    CAPTURE(text);
    answered += answer(text, given).starts_with('!') ? 0 : 1;
  }
  CHECK(answered > 0);
}

}  // namespace
}  // namespace trainyard::query
