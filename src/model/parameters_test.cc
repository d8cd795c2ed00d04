#include "model/parameters.h"

#include <doctest/doctest.h>

using namespace trainyard;
using Words = std::vector<std::string>;

TEST_CASE("names with their values are read as people read them") {
  const auto found =
      command_parameters({"python", "train.py", "--epochs", "5", "--lr=0.1", "-b", "32", "--fast",
                          "--seed", "-1", "--scale", "-.5", "data", "--last"});
  const std::map<std::string, std::string> expected = {
      {"epochs", "5"}, {"lr", "0.1"},    {"b", "32"},     {"fast", "true"},
      {"seed", "-1"},  {"scale", "-.5"}, {"last", "true"}};
  CHECK(found == expected);
  CHECK(command_parameters({"true"}).empty());
  CHECK(command_parameters({"sh", "-c", "echo --x 1"}).empty());
  CHECK(command_parameters({"/usr/bin/python3.11", "-u", "train.py", "--lr", "1"}) ==
        std::map<std::string, std::string>{{"lr", "1"}});
  CHECK(command_parameters({"./train", "--lr", "1"}).size() == 1);
  CHECK(command_parameters({"sh", "-", "--", "x"}).empty());
}

TEST_CASE("a value is set in the form it stands") {
  Words command = {"python", "train.py", "--epochs", "5", "--lr=0.1", "--fast", "--epochs=9"};
  CHECK(set_command_parameter(command, "lr", "0.2"));
  CHECK(set_command_parameter(command, "epochs", "7"));
  CHECK(set_command_parameter(command, "fast", "no"));
  CHECK(command ==
        Words{"python", "train.py", "--epochs", "7", "--lr=0.2", "--fast=no", "--epochs=9"});
  CHECK_FALSE(set_command_parameter(command, "momentum", "1"));
}
