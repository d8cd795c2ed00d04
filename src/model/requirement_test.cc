#include "model/requirement.h"

#include <doctest/doctest.h>

namespace trainyard {
namespace {

TEST_CASE("all spellings of a package's name are one") {
  CHECK(package_name("Azure_ML.core") == "azure-ml-core");
  CHECK(package_name("a--_.b") == "a-b");
}

TEST_CASE("a requirement's name is found whatever follows it") {
  const std::pair<const char*, const char*> rows[] = {
      {"numpy", "numpy"},
      {"Scikit_Learn[extra]>=1,<2 ; python_version < '3.9'", "scikit-learn"},
      {"torch @ https://x.org/torch-2.0.whl", "torch"},
      {"a==1 --hash=sha256:00", "a"},
      {"b --hash=sha256:00", "b"},
      {"c~=1.0  # why", "c"},
      {"https://x.org/a.whl", ""},
      {"git+https://x.org/a.git#egg=a", ""},
      {"./a.whl", ""},
      {"/wheels/a-1.0.whl", ""},
      {"a-1.0.whl", ""},
      {"-e .", ""},
      {"", ""},
  };
  for (const auto& [line, name] : rows) {
    CAPTURE(line);
    CHECK(parse_requirement(line).name == name);
  }
}

TEST_CASE("a place travels as a comment, and other comments are none") {
  const Requirement found = parse_requirement(with_place("numpy==1", "my file.txt:12"));
  CHECK(found.text == "numpy==1");
  CHECK(found.place == "my file.txt:12");
  CHECK(parse_requirement("numpy  # because: of 3 things").place.empty());
  CHECK(parse_requirement("git+https://x/a#egg=a:1").text == "git+https://x/a#egg=a:1");
  CHECK(with_place("numpy", "") == "numpy");
}

TEST_CASE("packages that are ours are known in any spelling") {
  CHECK(is_ours("trainyard"));
  CHECK(is_ours("TrainYard"));
  for (const char* other : {"azureml-core", "AzureML_Defaults", "arcus.azureml", "trainyards"}) {
    CHECK(!is_ours(other));
  }
}

TEST_CASE("files and folders of the machine are found in every form that pip takes") {
  const std::pair<const char*, const char*> kPlaces[] = {
      {"/data/x-1.whl", "/data/x-1.whl"},
      {"./x", "./x"},
      {"x-1.whl", "x-1.whl"},
      {"x @ file:///data/x.whl", "/data/x.whl"},
      {"x[a] @ file://localhost/data/x.whl ; python_version > '3'", "/data/x.whl"},
      {"x@file:///data/x.whl#sha256=1", "/data/x.whl"},
      {"FILE:///etc/x.whl  # r.txt:1", "/etc/x.whl"},
      {"git+file:///data/repo@main#egg=x", "/data/repo"},
      {"x @ /data/x.whl --hash=sha256:1", "/data/x.whl"},
      {"x @ ../x.whl", "../x.whl"},
      {"numpy==1.26 --hash=sha256:1", ""},
      {"x[a]>=1 ; sys_platform == 'linux'", ""},
      {"x @ https://x/x.whl", ""},
      {"git+https://x/y.git@main", ""},
      {"git+ssh://git@x/y.git", ""},
  };
  for (const auto& [text, path] : kPlaces) {
    CAPTURE(text);
    CHECK(local_path_of(text) == path);
  }
}

TEST_CASE("a text that an installer could read as two lines is refused") {
  for (const char* text : {"a\r-e /x", "a\n-r /x", "a\v-e x", "a\f-e x", "a\xC2\x85-e x",
                           "a\xE2\x80\xA8-e x", "a\xE2\x80\xA9-e x", "a\x7F", "3.11\n"}) {
    CHECK(check_one_line(text).error().kind == ErrorKind::invalid);
  }
  CHECK(check_one_line("a ==1\t; python_version > '3'  # \xC3\xA9\xE2\x80\xA6"));
  CHECK(check_one_line(""));
}

TEST_CASE("options are read in all their forms, and those that a recipe cannot have are refused") {
  for (const char* text : {"--index-url https://x", "--index-url=https://x", "-i https://x",
                           "-ihttps://x", " --index-url   https://x  # ours"}) {
    CAPTURE(text);
    const auto option = parse_pip_option(text);
    REQUIRE(option);
    CHECK(option->name == "--index-url");
    CHECK(option->value == "https://x");
  }
  CHECK(parse_pip_option("--pre")->value.empty());
  CHECK(parse_pip_option("--pre yes").error().message == "--pre takes no value");
  CHECK(parse_pip_option("--index-url").error().message == "--index-url has no value");
  const auto bad = parse_pip_option("--target /etc");
  REQUIRE(!bad);
  CHECK(bad.error().kind == ErrorKind::invalid);
  CHECK(bad.error().message == "the option '--target' means nothing here");
}

}  // namespace
}  // namespace trainyard
