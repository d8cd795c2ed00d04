#include "cli/environment_view.h"

#include <doctest/doctest.h>

using namespace trainyard::cli;

TEST_CASE("an environment's line says what is in it, without the places of its lines") {
  const Json environment = {{"name", "mine"},
                            {"version", "3"},
                            {"kind", "container"},
                            {"createdBy", "ada"},
                            {"recipe",
                             {{"image", "debian:12"},
                              {"python", "3.11"},
                              {"requirements", {"numpy==1  # r.txt:1", "tqdm"}}}}};
  const std::vector<std::string> row = {"mine", "3", "container", "ada",
                                        "image debian:12; python 3.11; numpy==1, tqdm"};
  CHECK(environment_view().table(environment).rows.at(0) == row);
  CHECK(environment_view().table(Json::array({environment, environment})).rows.size() == 2);
}

TEST_CASE("an environment of the machine's own shows its interpreter") {
  const Json environment = {{"name", "own"}, {"kind", "system"}, {"interpreter", "/opt/python"}};
  CHECK(environment_view().table(environment).rows.at(0).back() == "/opt/python");
}
