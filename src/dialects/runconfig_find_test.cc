#include <doctest/doctest.h>

#include "base/file.h"
#include "dialects/runconfig.h"

using namespace trainyard;
using namespace trainyard::dialects;

namespace {

// A project with these files, empty.
struct FindProject {
  explicit FindProject(std::initializer_list<const char*> files) {
    for (const char* file : files) {
      const fs::path path = dir.path() / file;
      REQUIRE(make_dirs(path.parent_path()));
      REQUIRE(write_file(path, ""));
    }
  }
  // The file found, from the project; or the error.
  std::string find(std::string_view name) const {
    const auto found = find_runconfig(dir.path(), name);
    return found ? found->lexically_relative(dir.path()).string() : found.error().message;
  }
  TempDir dir;
};

}  // namespace

TEST_CASE("a run configuration is found in every place, with its extension or without") {
  for (const char* file : {".azureml/x", ".azureml/x.runconfig", "aml_config/x",
                           "aml_config/x.runconfig", "x.runconfig"}) {
    const FindProject project({file});
    CHECK(project.find("x") == file);
    CHECK(project.find("x.runconfig") == file);
  }
}

TEST_CASE("the path of a file will do too") {
  const FindProject project({"sub/x.yml", "x"});
  CHECK(project.find("sub/x.yml") == "sub/x.yml");
  CHECK(project.find((project.dir.path() / "sub" / "x.yml").string()) == "sub/x.yml");
  CHECK(project.find("x") == "x");
}

TEST_CASE("one that is there twice is named twice, not chosen") {
  for (const auto& [first, second] : std::initializer_list<std::pair<const char*, const char*>>{
           {".azureml/x.runconfig", "aml_config/x.runconfig"},
           {"aml_config/x.runconfig", "aml_config/x"},
           {".azureml/x", "x.runconfig"},
       }) {
    const FindProject project({first, second});
    const auto found = find_runconfig(project.dir.path(), "x");
    REQUIRE(!found);
    CHECK(found.error().kind == ErrorKind::conflict);
    CHECK(found.error().message.contains(first));
    CHECK(found.error().message.contains(second));
  }
}

TEST_CASE("the same file by two names is one") {
  const FindProject project({".azureml/x.runconfig"});
  fs::create_directory_symlink(".azureml", project.dir.path() / "aml_config");
  CHECK(project.find("x") == ".azureml/x.runconfig");
}

TEST_CASE("one that is not there is not found, and what is there is listed") {
  const FindProject project({"aml_config/train-local.runconfig", ".azureml/cpu",
                             ".azureml/config.json", "direct.runconfig", ".azureml/conda.yml"});
  const auto found = find_runconfig(project.dir.path(), "train-lcal");
  REQUIRE(!found);
  CHECK(found.error().kind == ErrorKind::not_found);
  CHECK(found.error().message.contains("did you mean 'train-local'?"));
  CHECK(found.error().hint == "There are: cpu, direct, train-local.");
  const FindProject empty({});
  CHECK(find_runconfig(empty.dir.path(), "x").error().hint.contains("aml_config/x.runconfig"));
  CHECK(find_runconfig(empty.dir.path(), "").error().kind == ErrorKind::invalid);
  CHECK(find_runconfig(empty.dir.path(), "a/b").error().kind == ErrorKind::not_found);
}
