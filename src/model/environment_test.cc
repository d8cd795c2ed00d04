#include "model/environment.h"

#include <doctest/doctest.h>

namespace trainyard {
namespace {

Recipe venv(std::vector<std::string> requirements) {
  Recipe recipe;
  recipe.kind = EnvironmentKind::venv;
  recipe.requirements = std::move(requirements);
  return recipe;
}

TEST_CASE("comments, blanks, repeats and the order of packages do not change the hash") {
  const std::string plain = recipe_hash(venv({"numpy==1.26.4", "pandas"}));
  CHECK(plain.size() == 64);
  CHECK(recipe_hash(venv({"pandas", "# why", "", "numpy==1.26.4"})) == plain);
  CHECK(recipe_hash(venv({"pandas  # tables", "numpy==1.26.4", "pandas"})) == plain);
}

TEST_CASE("what makes another environment makes another hash") {
  const Recipe recipe = venv({"numpy==1.26.4"});
  const std::string plain = recipe_hash(recipe);
  const auto other = [&](auto change) {
    Recipe changed = recipe;
    change(changed);
    return recipe_hash(changed) != plain;
  };
  CHECK(other([](Recipe& r) { r.requirements = {"numpy==1.26.3"}; }));
  CHECK(other([](Recipe& r) { r.requirements.emplace_back("pandas"); }));
  CHECK(other([](Recipe& r) { r.options = {"--pre"}; }));
  CHECK(other([](Recipe& r) { r.python = "3.12"; }));
  CHECK(other([](Recipe& r) { r.platform = "linux-aarch64"; }));
  CHECK(other([](Recipe& r) { r.kind = EnvironmentKind::conda; }));
  CHECK(other([](Recipe& r) { r.image = "python:3.11"; }));
  CHECK(other([](Recipe& r) { r.image_digest = "sha256:1"; }));
  CHECK(other([](Recipe& r) { r.rebuild = "r1"; }));
  CHECK(other([](Recipe& r) { r.build_arguments = {{"A", "1"}}; }));
}

TEST_CASE("a fragment of a URL is no comment") {
  const std::string one = recipe_hash(venv({"https://host/a.whl#sha256=1"}));
  CHECK(recipe_hash(venv({"https://host/a.whl#sha256=2"})) != one);
}

TEST_CASE("the order of options and channels matters") {
  Recipe one = venv({"a"});
  one.options = {"--index-url http://a", "--extra-index-url http://b"};
  Recipe other = one;
  std::swap(other.options[0], other.options[1]);
  CHECK(recipe_hash(one) != recipe_hash(other));
}

TEST_CASE("what the machine has needs no hash") { CHECK(recipe_hash(Recipe{}).empty()); }

TEST_CASE("kinds have names") {
  for (const EnvironmentKind kind : {EnvironmentKind::system, EnvironmentKind::venv,
                                     EnvironmentKind::conda, EnvironmentKind::container}) {
    CHECK(environment_kind_from(to_string(kind)) == kind);
  }
  CHECK_FALSE(environment_kind_from("docker"));
}

}  // namespace
}  // namespace trainyard
