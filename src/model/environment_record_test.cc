#include "model/environment_record.h"

#include <doctest/doctest.h>

using namespace trainyard;
using Words = std::vector<std::string>;

namespace {

std::string parsed(std::string_view text) {
  const auto found = parse_environment_name(text);
  return found ? found->name + "|" + found->version : "refused";
}

Environment venv_of(Words requirements) {
  Environment environment;
  environment.recipe.kind = EnvironmentKind::venv;
  environment.recipe.requirements = std::move(requirements);
  return environment;
}

}  // namespace

TEST_CASE("an environment is named in all the ways that files have") {
  CHECK(parsed("mine") == "mine|");
  CHECK(parsed("mine:3") == "mine|3");
  CHECK(parsed("mine@latest") == "mine|");
  CHECK(parsed("mine:latest") == "mine|");
  CHECK(parsed("azureml:mine:1.0") == "mine|1.0");
  CHECK(parsed("azureml:AzureML-sklearn-1.0-ubuntu20.04-py38-cpu@latest") ==
        "AzureML-sklearn-1.0-ubuntu20.04-py38-cpu|");
  CHECK(parsed("azureml://registries/azureml/environments/sklearn-1.5/labels/latest") ==
        "sklearn-1.5|");
  CHECK(parsed("azureml://registries/r/environments/n/versions/33") == "n|33");
  CHECK(parsed("azureml:/subscriptions/s/resourceGroups/g/environments/n/versions/2") == "n|2");
}

TEST_CASE("a name that is none is refused") {
  for (const char* text : {"", ":", "mine:", "mine@", "mine@newest", "../x", "a b",
                           "azureml:", "azureml://registries/r/environments/"}) {
    CHECK_MESSAGE(parsed(text) == "refused", text);
  }
}

TEST_CASE("names that begin as curated ones do are not for registering") {
  CHECK(check_environment_name("mine"));
  for (const char* name : {"AzureML-mine", "azureml", "Microsoft.x", "", "a/b"}) {
    CHECK_MESSAGE(!check_environment_name(name), name);
  }
}

TEST_CASE("a fingerprint is of what an environment does, not of its name or comments") {
  Environment one = venv_of({"numpy", "pandas  # tables"});
  Environment other = venv_of({"pandas", "numpy"});
  other.name = "other";
  other.version = "7";
  other.recipe.platform = "linux";
  CHECK(fingerprint(one) == fingerprint(other));
  for (const auto change : {+[](Environment& e) { e.variables["A"] = "1"; },
                            +[](Environment& e) { e.arguments = {"--gpus"}; },
                            +[](Environment& e) { e.interpreter = "/opt/python"; },
                            +[](Environment& e) { e.shm_size = "2g"; },
                            +[](Environment& e) { e.registry.address = "r.example"; },
                            +[](Environment& e) { e.recipe.requirements.push_back("x"); }}) {
    Environment changed = one;
    change(changed);
    CHECK(fingerprint(changed) != fingerprint(one));
  }
}

TEST_CASE("packages put upon an environment make a layer of the kind that fits") {
  Environment above;
  above.recipe.requirements = {"tqdm"};
  above.variables = {{"B", "2"}};
  Environment base = venv_of({"numpy"});
  base.variables = {{"A", "1"}, {"B", "1"}};
  const Environment both = layered(base, above);
  CHECK(both.recipe.kind == EnvironmentKind::venv);
  CHECK(both.recipe.requirements == Words{"numpy", "tqdm"});
  CHECK(both.variables == std::map<std::string, std::string>{{"A", "1"}, {"B", "2"}});

  Environment image;
  image.recipe.kind = EnvironmentKind::container;
  image.recipe.image = "debian";
  CHECK(layered(image, above).recipe.kind == EnvironmentKind::container);
  CHECK(layered(image, above).recipe.image == "debian");
  CHECK(layered(base, image).recipe.kind == EnvironmentKind::container);

  Environment packages;
  packages.recipe.conda = {"openmpi"};
  CHECK(layered(base, packages).recipe.kind == EnvironmentKind::conda);
  CHECK(layered(Environment{}, above).recipe.kind == EnvironmentKind::venv);
  CHECK(layered(base, Environment{}) == base);
  image.recipe.kind = EnvironmentKind::system;
  CHECK(layered(Environment{}, image).recipe.kind == EnvironmentKind::container);
}

TEST_CASE("a label is the name, or else the kind") {
  CHECK(label({}) == "system");
  CHECK(label(venv_of({})) == "venv");
  Environment named = venv_of({});
  named.name = "mine";
  CHECK(label(named) == "mine");
  named.version = "3";
  CHECK(label(named) == "mine:3");
}
