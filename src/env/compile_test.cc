#include "env/compile.h"

#include <doctest/doctest.h>

#include "env/python.h"
#include "env/test_settings.h"

namespace trainyard::env {
namespace {

struct CompilePlace {
  TempDir temp;
  Settings settings = test_settings(temp.path());
  Recorder recorder;
  fs::path folder = temp.path() / "made";
  fs::path library = folder / "root" / "lib" / "site";
  Environment environment;

  CompilePlace() {
    environment.recipe.kind = EnvironmentKind::venv;
    REQUIRE(make_dirs(library));
    REQUIRE(write_file(library / "fruit.py", "name = 'apple'\n"));
    REQUIRE(compile());
  }
  Status compile() { return compile_modules(environment, folder, settings, recorder); }

  static fs::path compiled(const fs::path& in) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(in / "__pycache__", none)) return entry.path();
    return {};
  }
  // What a Python that may not write, as in a run, finds in the folder.
  std::string imported(const fs::path& in) const {
    const fs::path python = find_python("", settings).value().file;
    const std::string script =
        "import sys; sys.path.insert(0, '" + in.string() + "'); import fruit; print(fruit.name)";
    return output_of({{python, "-B", "-S", "-c", script}, settings.variables, "/"},
                     milliseconds(20'000))
        .value();
  }
};

TEST_CASE("modules are compiled once, by their contents and to be compared with them") {
  CompilePlace place;
  const fs::path file = place.compiled(place.library);
  REQUIRE_FALSE(file.empty());
  // PEP 552: 1, by a hash of the source; 2, which is compared at each import.
  CHECK(read_file(file).value().substr(4, 4) == std::string("\3\0\0\0", 4));
  CHECK(place.imported(place.library) == "apple\n");
  REQUIRE(remove_tree(place.library / "__pycache__"));
  REQUIRE(place.compile());
  CHECK(place.compiled(place.library).empty());
}

TEST_CASE("a module that a run changes in its own layer is not the one that was compiled") {
  CompilePlace place;
  // As a layer over it has them: its own source, of the same size and time, and what is below.
  const fs::path layer = place.temp.path() / "layer";
  std::error_code error;
  fs::copy(place.library, layer, fs::copy_options::recursive, error);
  REQUIRE_FALSE(error);
  REQUIRE(write_file(layer / "fruit.py", "name = 'mango'\n"));
  fs::last_write_time(layer / "fruit.py", fs::last_write_time(place.library / "fruit.py"), error);
  REQUIRE_FALSE(error);
  REQUIRE_FALSE(place.compiled(layer).empty());
  CHECK(place.imported(layer) == "mango\n");
  CHECK(place.imported(place.library) == "apple\n");
}

}  // namespace
}  // namespace trainyard::env
