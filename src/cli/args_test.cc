#include "cli/args.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::cli;

namespace {

constexpr Option kGlobals[] = {
    {"--output -o", Takes::value, "FORMAT", "How to print."},
    {"--verbose -v", Takes::nothing, "", "Say more."},
    {"--yes -y", Takes::nothing, "", "Do not ask."},
    {"--query", Takes::value, "EXPRESSION", "", Since::later},
};
constexpr Option kOptions[] = {
    {"--experiment-name -e --experiment", Takes::value, "NAME", "The experiment."},
    {"--async", Takes::nothing, "", "Do not wait."},
    {"--tags", Takes::list, "K=V", "Tags."},
    {"--env-var", Takes::value, "K=V", "A variable."},
    {"--version-of -v", Takes::value, "V", "Another meaning of -v."},
    {"--checkpoint", Takes::value, "DIR", "", Since::later},
};

using Words = std::vector<std::string>;

Result<Args> parse(const Words& words, int words_max = 2, Rest rest = Rest::words) {
  return Args::parse({{kOptions, kGlobals}, words_max, rest}, words);
}

bool is_group(std::string_view word) { return word == "run"; }

}  // namespace

TEST_CASE("an option's value is the next word, or stands behind '='") {
  for (const Words& words :
       {Words{"--experiment-name", "x"}, Words{"--experiment-name=x"}, Words{"-e", "x"},
        Words{"-ex"}, Words{"-e=x"}, Words{"--experiment", "x"}, Words{"--experiment=x"},
        Words{"--experiment_name", "x"}, Words{"--experiment_name=x"}}) {
    const auto args = parse(words);
    REQUIRE(args);
    CHECK(args->value("experiment-name") == "x");
    CHECK(args->words().empty());
  }
  CHECK(parse({"--experiment="})->value("experiment-name", "other") == "");
  CHECK(parse({"--env-var=A=B=C"})->value("env-var") == "A=B=C");
  CHECK(parse({})->value("experiment-name", "other") == "other");
}

TEST_CASE("the last of several values wins unless all are asked for") {
  const auto args = parse({"--env-var", "A=1", "--env-var=B=2"});
  REQUIRE(args);
  CHECK(args->value("env-var") == "B=2");
  CHECK(args->values("env-var") == Words{"A=1", "B=2"});
}

TEST_CASE("flags may be clustered and the last of a cluster may take a value") {
  const auto args = parse({"-yeproject"});
  REQUIRE(args);
  CHECK(args->has("yes"));
  CHECK(args->value("experiment-name") == "project");
}

TEST_CASE("a list takes words up to the next option") {
  const auto args = parse({"--tags", "a=1", "b=2", "--async", "word"});
  REQUIRE(args);
  CHECK(args->values("tags") == Words{"a=1", "b=2"});
  CHECK(args->has("async"));
  CHECK(args->words() == Words{"word"});
}

TEST_CASE("a command's own meaning of a letter goes before the common one") {
  const auto args = parse({"-v", "3"});
  REQUIRE(args);
  CHECK(args->value("version-of") == "3");
  CHECK_FALSE(args->has("verbose"));
}

TEST_CASE("-- ends the options") {
  const auto words = parse({"--", "--async", "-x"});
  REQUIRE(words);
  CHECK(words->words() == Words{"--async", "-x"});
  CHECK_FALSE(words->has("async"));

  const auto apart = parse({"--async", "--", "python", "-c", "--", "x"}, 0, Rest::apart);
  REQUIRE(apart);
  CHECK(apart->rest() == Words{"python", "-c", "--", "x"});
  CHECK(apart->words().empty());
}

TEST_CASE("a script's words are its own, from the script on") {
  const auto script = [](const Words& words) { return parse(words, 0, Rest::after_word); };
  const auto args = script({"-e", "x", "train.py", "-e", "y", "--async", "--", "z"});
  REQUIRE(args);
  CHECK(args->value("experiment-name") == "x");
  CHECK_FALSE(args->has("async"));
  CHECK(args->rest() == Words{"train.py", "-e", "y", "--async", "--", "z"});
  CHECK(args->words().empty());
  CHECK(script({"--async", "--", "train.py", "-v"})->rest() == Words{"train.py", "-v"});
  CHECK(script({"--async"})->rest().empty());
  CHECK_FALSE(script({"--unknown", "train.py"}));
}

TEST_CASE("what looks like an option but is none of ours is a value") {
  CHECK(parse({"--env-var", "-1"})->value("env-var") == "-1");
  const auto forgotten = parse({"-e", "--async"});
  REQUIRE_FALSE(forgotten);
  CHECK(forgotten.error().kind == ErrorKind::invalid);
  CHECK(forgotten.error().message.find("needs a value") != std::string::npos);
  CHECK_FALSE(parse({"-e"}));
  CHECK_FALSE(parse({"-e", "--", "x"}));
}

TEST_CASE("an unknown option is refused with the nearest known one") {
  const auto near = parse({"--experimnt-name", "x"});
  REQUIRE_FALSE(near);
  CHECK(near.error().kind == ErrorKind::invalid);
  CHECK(near.error().hint == "Did you mean '--experiment-name'?");
  const auto far = parse({"--zzzzzzzzzzzz"});
  REQUIRE_FALSE(far);
  CHECK(far.error().hint.empty());
  CHECK_FALSE(parse({"-Z"}));
  CHECK_FALSE(parse({"--async=yes"}));
}

TEST_CASE("an option of a later version is refused, never ignored") {
  for (const Words& words : {Words{"--checkpoint", "d"}, Words{"--query=[0]"}, Words{"--query"}}) {
    const auto args = parse(words);
    REQUIRE_FALSE(args);
    CHECK(args.error().kind == ErrorKind::invalid);
    CHECK(args.error().message.find("comes with a later version") != std::string::npos);
  }
}

TEST_CASE("more words than a command has room for are refused") {
  CHECK(parse({"a", "b"}));
  CHECK_FALSE(parse({"a", "b", "c"}));
  const auto no_dashes = parse({"python", "train.py"}, 0, Rest::apart);
  REQUIRE_FALSE(no_dashes);
  CHECK(no_dashes.error().hint.find("after --") != std::string::npos);
}

TEST_CASE("common options may stand before and between the words of a command") {
  const Words words = {"-o", "json", "run", "--verbose", "list", "-e", "x", "y"};
  const Split split = split_name(kGlobals, words, is_group);
  CHECK(split.name == Words{"run", "list"});
  CHECK(split.left == Words{"-o", "json", "--verbose", "-e", "x", "y"});

  const Words single = {"--output=json", "submit", "list", "--", "run"};
  const Split other = split_name(kGlobals, single, is_group);
  CHECK(other.name == Words{"submit"});
  CHECK(other.left == Words{"--output=json", "list", "--", "run"});
}

TEST_CASE("pairs have a key and may have an empty value") {
  const Words good = {"A=1", "B=", "C=x=y"};
  const auto pairs = parse_pairs(good, "--tag");
  REQUIRE(pairs);
  CHECK(pairs->at("B") == "");
  CHECK(pairs->at("C") == "x=y");
  CHECK_FALSE(parse_pairs(Words{"A"}, "--tag"));
  CHECK_FALSE(parse_pairs(Words{"=1"}, "--tag"));
}

TEST_CASE("a command's name has as many words as groups lead on") {
  const auto deep = [](std::string_view name) { return name == "a" || name == "a b"; };
  const Words words = {"a", "b", "-o", "json", "c", "d"};
  const Split split = split_name(kGlobals, words, deep);
  CHECK(split.name == Words{"a", "b", "c"});
  CHECK(split.left == Words{"-o", "json", "d"});
  CHECK(split_name(kGlobals, Words{"a", "x", "c"}, deep).name == Words{"a", "x"});
}
