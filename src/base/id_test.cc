#include "base/id.h"

#include <doctest/doctest.h>

#include <set>
#include <unordered_set>

#include "base/text.h"

namespace trainyard {
namespace {

bool all_of(std::string_view text, std::string_view alphabet) {
  return text.find_first_not_of(alphabet) == std::string_view::npos;
}

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kBase32 = "abcdefghijkmnpqrstuvwxyz23456789";

TEST_CASE("a run's id is two words and eight characters, and never the same again") {
  std::set<RunId> ids;
  for (int i = 0; i < 2000; ++i) {
    const RunId id = new_run_id();
    const std::vector<std::string> parts = split(id.value, '-');
    REQUIRE(parts.size() == 3);
    CHECK(all_of(parts[0] + parts[1], kLetters));
    CHECK(parts[2].size() == 8);
    CHECK(all_of(parts[2], kBase32));
    CHECK(check_name(id.value, "run id").has_value());
    ids.insert(id);
  }
  CHECK(ids.size() == 2000);
}

TEST_CASE("a secret says what it is and is long enough not to be guessed") {
  const std::string secret = new_secret("tyu_");
  CHECK(secret.starts_with("tyu_"));
  CHECK(secret.size() == 4 + 52);
  CHECK(all_of(secret.substr(4), kBase32));
  CHECK(secret != new_secret("tyu_"));
}

TEST_CASE("an attempt is named by its run and its number") {
  CHECK(AttemptId{RunId{"brisk-otter-x7k2m9qd"}, 2}.str() == "brisk-otter-x7k2m9qd.2");
  CHECK(AttemptId{RunId{"a"}, 1} < AttemptId{RunId{"a"}, 2});
  CHECK(std::unordered_set<RunId>{RunId{"a"}, RunId{"a"}}.size() == 1);
}

TEST_CASE("a name of letters, digits and '_.-' is let through") {
  for (const std::string& name :
       {std::string("a"), std::string("default"), std::string("2-x_y.Z"), std::string(255, 'a')}) {
    CHECK(check_name(name, "workspace").has_value());
  }
}

TEST_CASE("any other name is refused, with what it is and what to use") {
  for (const std::string& name :
       {std::string(), std::string(".."), std::string("."), std::string("../x"), std::string("a/b"),
        std::string("-rf"), std::string(".hidden"), std::string("a b"), std::string("ü"),
        std::string("a\0b", 3), std::string("a\n"), std::string(256, 'a')}) {
    CAPTURE(name);
    const Status status = check_name(name, "workspace");
    REQUIRE(!status);
    CHECK(status.error().kind == ErrorKind::invalid);
    CHECK(status.error().message.starts_with("workspace '"));
    CHECK(!status.error().hint.empty());
  }
}

}  // namespace
}  // namespace trainyard
