#include "snapshot/redact.h"

#include <doctest/doctest.h>

#include <chrono>

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

TEST_CASE("a password that does not follow its key in the same line goes too") {
  const auto kept = [](std::string_view text) {
    return without_passwords(text).value_or("unchanged");
  };
  CHECK(kept("r: {address: x,\n  password:\n    s3cret,\n  b: 1}") ==
        "r: {address: x,\n  password:\n    null,\n  b: 1}");
  CHECK(kept("r: {\n  password: s3\n    cret\n}\nb: 1") == "r: {\n  password: null\n}\nb: 1");
  CHECK(kept("{password: # why\n  's3, cret', b: 1}") == "{password: # why\n  null, b: 1}");
  CHECK(kept("? password\n: s3cret\n? b\n: 1") == "? password\n: null\n? b\n: 1");
  CHECK(kept("- ? \"password\"\n  : |\n    s3cret\n- b") == "- ? \"password\"\n  : null\n- b");
  CHECK(kept("a: &p s3cret\npassword: *p\nb: 1") == "a: &p null\npassword: null\nb: 1");
  CHECK(kept("a: &p \"s3cret\" # why\nb: {password: *p}") ==
        "a: &p null # why\nb: {password: null}");
  CHECK(kept("password: &p s3cret\nb: *p") == "password: &p null\nb: *p");
  CHECK(kept("password: !!str s3cret\nb: 1") == "password: !!str null\nb: 1");
  CHECK(kept("&k password: x\n*k : y") == "&k password: null\n*k : null");
  CHECK(kept("{password: {a: 1}, b: [x]}") == "{password: null, b: [x]}");
  CHECK(kept("it: 'never closed\n{password:\n x}") == "it: 'never closed\n{password:\n null}");
  CHECK(kept("a: it's\nb: {password:\n  x}") == "a: it's\nb: {password:\n  null}");
  CHECK(kept("a:\n- |\n  {x\n- b\n\"password\": |\n  s3cret\nb: 1") ==
        "a:\n- |\n  {x\n- b\n\"password\": null\nb: 1");
  CHECK(kept("# c\n[registry]\npassword = s3, cret\nb = 1") ==
        "# c\n[registry]\npassword = null\nb = 1");
}

TEST_CASE("a file without a password is left alone") {
  for (const char* text :
       {"", "password", "password:", "password: null\n", "password: ~", "password: \"\"",
        "{\"password\": null}", "the password is x", "passwordless: yes", "a: password\n",
        "password = ask()\n", "password: &p null\nb: *p", "- password:\n  b: 1\n"}) {
    CAPTURE(text);
    CHECK_FALSE(without_passwords(text));
  }
  using namespace std::string_view_literals;
  CHECK_FALSE(
      without_passwords("\x7F"
                        "ELF\0password: x\n"sv));  // No text.
}

TEST_CASE("the time grows with the size of a file, whatever is in it") {
  for (const std::string part :
       {"\"password\":1,", "password: ", "{password: ", "{password: \"\\", "? password\n", "[",
        "password: [", "password: '", "&a *a ", " ", "x", "password:\n\n", "a: |\n"}) {
    CAPTURE(part);
    std::string text;
    while (text.size() < 5'000'000) text += part;
    const auto begin = std::chrono::steady_clock::now();
    static_cast<void>(without_passwords(text));
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
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
