#include "env/realise_program.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "env/test_settings.h"
#include "env/test_wheels.h"
#include "wire/json.h"

namespace trainyard::env {
namespace {

struct RealisePlace {
  TempDir temp;
  fs::path file = temp.path() / "environment.json";
  fs::path folder = temp.path() / "outputs";
  Environment environment;

  RealisePlace() {
    REQUIRE(write_wheel(temp.path() / "wheels", "tyone", "1.0"));
    setenv("TRAINYARD_PACKAGES", (temp.path() / "packages").c_str(), 1);
    environment.recipe.kind = EnvironmentKind::venv;
    environment.recipe.requirements = {"tyone"};
    environment.recipe.options = {"--no-index",
                                  "--find-links " + (temp.path() / "wheels").string()};
    environment.hash = recipe_hash(environment.recipe);
  }
  ~RealisePlace() { unsetenv("TRAINYARD_PACKAGES"); }

  int realise() {
    REQUIRE(write_file(file, wire::dump(wire::encode(environment))));
    return realise_program({"realise", file, folder});
  }
  bool is_made() const { return fs::exists(folder / "environment.json"); }
};

TEST_CASE("an environment is made of a file, with its own words beside it") {
  RealisePlace place;
  REQUIRE(make_dirs(place.folder / "root"));
  REQUIRE(write_file(place.folder / "root" / "left", "by an attempt before"));
  REQUIRE(place.realise() == 0);
  const auto json = wire::parse(read_file(place.folder / "environment.json").value());
  const auto realised = wire::decode_realised(json.value());
  REQUIRE(realised);
  CHECK(realised->hash == place.environment.hash);
  REQUIRE(realised->lock.size() == 1);
  CHECK(realised->lock[0].starts_with("tyone==1.0 --hash=sha256:"));
  CHECK(fs::exists(place.folder / "root" / "bin" / "python"));
  CHECK_FALSE(fs::exists(place.folder / "root" / "left"));
}

TEST_CASE("what cannot be made is told by the exit code, and nothing says that it is there") {
  RealisePlace place;
  place.environment.recipe.requirements = {"tynone"};
  CHECK(place.realise() == 1);
  CHECK_FALSE(place.is_made());
  place.environment.recipe.requirements = {"tyone"};
  place.environment.registry.secret = "TY_NO_SUCH_SECRET";
  CHECK(place.realise() == 1);
  CHECK_FALSE(place.is_made());
}

TEST_CASE("a build folder that is not the one of the recipe is refused") {
  RealisePlace place;
  place.environment.recipe.kind = EnvironmentKind::container;
  place.environment.recipe.dockerfile = "Dockerfile";
  place.environment.recipe.context = std::string(64, 'a');
  REQUIRE(make_dirs(place.temp.path() / "context"));
  REQUIRE(write_file(place.temp.path() / "context" / "Dockerfile", "FROM scratch\n"));
  CHECK(place.realise() == 1);
  CHECK_FALSE(place.is_made());
}

TEST_CASE("other words are another program's") {
  CHECK(realise_program({"realise", "file"}) == -1);
  CHECK(realise_program({"supervise", "a", "b"}) == -1);
}

}  // namespace
}  // namespace trainyard::env
