#include "wire/environments.h"

#include <doctest/doctest.h>

using namespace trainyard;
using wire::Json;

TEST_CASE("a run in the machine's own environment says so by one word") {
  CHECK(wire::environment_to_json({}) == "system");
}

TEST_CASE("a run says what environment it has, and which one of that name") {
  Environment environment;
  environment.name = "mine";
  environment.version = "3";
  environment.recipe.kind = EnvironmentKind::container;
  environment.recipe.image = "debian:12";
  environment.hash = std::string(64, 'a');
  const Json json = wire::environment_to_json(environment);
  CHECK(json["kind"] == "container");
  CHECK(json["name"] == "mine");
  CHECK(json["version"] == "3");
  CHECK(json["label"] == "mine:3");
  CHECK(json["hash"] == environment.hash);
  CHECK(json["shortHash"] == "aaaaaaaaaaaa");
  CHECK(json["image"] == "debian:12");
}

TEST_CASE("a record shows who keeps it; a curated one has a note instead") {
  EnvironmentRecord record;
  record.environment.name = "mine";
  record.environment.recipe.kind = EnvironmentKind::venv;
  record.environment.recipe.requirements = {"numpy"};
  record.note = "of today";
  Json json = wire::environment_record_to_json(record);
  CHECK(json["curated"] == true);
  CHECK(json["note"] == "of today");
  CHECK(json["workspace"] == "");
  CHECK(json["recipe"]["requirements"] == Json{"numpy"});
  record.workspace = "default";
  record.created_by = "ada";
  json = wire::environment_record_to_json(record);
  CHECK(json["curated"] == false);
  CHECK(json["createdBy"] == "ada");
  CHECK(json["workspace"] == "default");
  CHECK(json["archived"] == false);
}
