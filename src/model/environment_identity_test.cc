#include "model/environment_identity.h"

#include <doctest/doctest.h>

namespace trainyard {
namespace {

TEST_CASE("a lock that is sent makes another environment than the recipe alone") {
  Environment plain;
  plain.recipe.kind = EnvironmentKind::venv;
  plain.recipe.requirements = {"numpy"};
  CHECK(environment_hash(plain) == recipe_hash(plain.recipe));
  Environment locked = plain;
  locked.lock = {"numpy==1.0"};
  CHECK(environment_hash(locked) != environment_hash(plain));
  Environment other = plain;
  other.lock = {"numpy==2.0"};
  CHECK(environment_hash(other) != environment_hash(locked));
}

TEST_CASE("a recipe's files and folders of the machine are found") {
  Recipe recipe;
  recipe.kind = EnvironmentKind::venv;
  recipe.requirements = {"numpy", "/data/x.whl  # r.txt:2"};
  recipe.options = {"--find-links /wheels", "--index-url https://x/simple",
                    "--extra-index-url file:///index", "--constraint y @ file:///y.whl", "--pre"};
  recipe.channels = {"conda-forge", "file:///channel"};
  CHECK(local_paths(recipe) ==
        std::vector<std::string>{"/data/x.whl", "/wheels", "/index", "/y.whl", "/channel"});
}

}  // namespace
}  // namespace trainyard
