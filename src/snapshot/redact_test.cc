#include "snapshot/redact.h"

#include <doctest/doctest.h>

namespace trainyard::snapshot {
namespace {

TEST_CASE("the value of a password goes, and all else stays as it was written") {
  const auto kept = [](std::string_view text) {
    return without_passwords(text).value_or("unchanged");
  };
  CHECK(kept("a:\n  password: s3cret\n  b: 1\n") == "a:\n  password: null\n  b: 1\n");
  CHECK(kept("password: a,b}c # why\nb: 1") == "password: null\nb: 1");
  CHECK(kept("password: \"s, \\\" x\" # why\nb: 1") == "password: null # why\nb: 1");
  CHECK(kept("password: 'it''s'\n") == "password: null\n");
  CHECK(kept("  password: |\n    line\n\n    two\n  b: 1") == "  password: null\n  b: 1");
  CHECK(kept("  password:\n    s3cret\n  b: 1") == "  password: null\n  b: 1");
  CHECK(kept("r: {address: x, password: s3cret, b: 1}") == "r: {address: x, password: null, b: 1}");
  CHECK(kept(R"({"password":"s3cret","b":1})") == R"({"password": null,"b":1})");
  CHECK(kept("{\"password\" :\n  \"s3cret\"}") == "{\"password\" :\n  null}");
  CHECK(kept("{\n\"password\": 12345,\n\"b\": 1}") == "{\n\"password\": null,\n\"b\": 1}");
  CHECK(kept("admin_password: x\nadminPassword: y") == "admin_password: null\nadminPassword: null");
  CHECK(kept("# password: old, one\nb: 1") == "# password: null\nb: 1");
  CHECK(kept("password: \"never closed\nb: 1") == "password: null");
  CHECK(kept("- password: x\n- b") == "- password: null\n- b");
}

TEST_CASE("a file without a password is left alone") {
  for (const char* text :
       {"", "password", "password:", "password: null\n", "password: ~", "password: \"\"",
        "{\"password\": null}", "the password is x", "passwordless: yes", "a: password\n"}) {
    CAPTURE(text);
    CHECK_FALSE(without_passwords(text));
  }
}

TEST_CASE("run configurations are known by their names and folders") {
  for (const char* path : {"a.runconfig", "x/y.runconfig", ".azureml/compute.yml",
                           "sub/aml_config/a.json", "envs/mine/azureml_environment.json"}) {
    CAPTURE(path);
    CHECK(may_hold_password(path));
  }
  for (const char* path : {"train.py", "x.yml", ".azureml/sub/x.yml", "config.json"}) {
    CAPTURE(path);
    CHECK_FALSE(may_hold_password(path));
  }
}

}  // namespace
}  // namespace trainyard::snapshot
