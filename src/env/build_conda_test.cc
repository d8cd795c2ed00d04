#include "env/build_conda.h"

#include <doctest/doctest.h>

#include "env/shelf.h"
#include "env/test_settings.h"
#include "env/test_wheels.h"

namespace trainyard::env {
namespace {

using Lines = std::vector<std::string>;

// What micromamba leaves, made by a script: no channel can be reached from a test.
constexpr std::string_view kFake = R"(
[ "$1" = create ] || { echo "error    libmamba unknown command"; exit 1; }
if grep -q nosuch "$6"; then
  echo "error    libmamba Could not solve for environment specs"
  echo "    nosuch does not exist (perhaps a typo or a missing channel)."
  exit 1
fi
python3 -m venv --without-pip "$4"
mkdir -p "$4/conda-meta"
echo '{"name": "numpy", "version": "1.19.2", "build": "py38_0", "paths_data": {"paths": [
  {"_path": "bin/tool", "file_mode": "text", "prefix_placeholder": "/opt/placeholder"}]}}' \
  > "$4/conda-meta/numpy.json"
echo "#!$4/bin/other" > "$4/bin/tool"
cp "$6" "$4/asked.yml"
)";

struct Place {
  TempDir temp;
  Settings settings = test_settings(temp.path());
  Recorder recorder;
  Environment asked;

  Place() {
    REQUIRE(write_wheel(temp.path() / "wheels", "tyone", "1.0"));
    for (const char* name : {"PIP_FIND_LINKS", "PIP_INDEX_URL", "UV_CACHE_DIR"}) {
      settings.variables.erase(name);
    }
    asked.recipe.kind = EnvironmentKind::conda;
    asked.recipe.options = {"--no-index", "--find-links " + (temp.path() / "wheels").string()};
  }

  void with_conda() {
    write_program(temp.path() / "fake" / "micromamba", std::string(kFake));
    settings.variables["PATH"] =
        (temp.path() / "fake").string() + ":" + variable(settings.variables, "PATH");
  }

  Result<Shelf::Held> make() {
    return Shelf(temp.path() / "shelf").make(std::string(64, 'a'), [&](const fs::path& folder) {
      return build(asked, folder, settings, recorder);
    });
  }
};

TEST_CASE("conda's packages are made by micromamba, the pip list by pip, and it is moved") {
  Place place;
  place.with_conda();
  place.asked.recipe.python = "3.8";
  place.asked.recipe.conda = {"numpy=1.19  # env.yml:3"};
  place.asked.recipe.channels = {"conda-forge"};
  place.asked.recipe.requirements = {"tyone  # env.yml:5"};
  auto held = place.make();
  REQUIRE_MESSAGE(held, held.error().message);
  CHECK(held->realised.kind == EnvironmentKind::conda);
  REQUIRE(held->realised.lock.size() == 2);
  CHECK(held->realised.lock[0].starts_with("numpy=1.19.2=py38_0"));
  CHECK(held->realised.lock[1].starts_with("tyone==1.0 --hash=sha256:"));
  const fs::path root = held->folder / "root";
  CHECK(read_file(root / "bin/tool").value() == "#!" + root.string() + "/bin/other\n");
  CHECK(read_file(root / "asked.yml").value() ==
        "channels:\n  - \"conda-forge\"\ndependencies:\n  - \"python=3.8\"\n"
        "  - \"numpy=1.19\"\n");
  CHECK(output_of({{root / "bin/tyone"}, place.settings.variables, "/"}, milliseconds(20'000))
            .value() == root.string() + "\n");

  // A rerun: the same versions, by the lock.
  place.asked.lock = held->realised.lock;
  held = fail(ErrorKind::cancelled, "let go");
  REQUIRE(Shelf(place.temp.path() / "shelf").trim(0)->environments == 1);
  held = place.make();
  REQUIRE_MESSAGE(held, held.error().message);
  CHECK(read_file(root / "asked.yml").value().find("\"numpy=1.19.2=py38_0\"") != std::string::npos);
  CHECK(held->realised.lock == place.asked.lock);
}

TEST_CASE("what conda refuses is told in its words, with the user's line") {
  Place place;
  place.with_conda();
  place.asked.recipe.conda = {"nosuch=1  # env.yml:4"};
  const auto held = place.make();
  REQUIRE(!held);
  CHECK(held.error().kind == ErrorKind::invalid);
  CHECK(held.error().message.starts_with("env.yml:4: nosuch=1: "));
  CHECK(held.error().message.find("does not exist") != std::string::npos);
}

TEST_CASE("without conda a file of Python packages becomes a virtual environment") {
  Place place;
  if (!find_conda(place.settings.variables).empty()) {
    MESSAGE("skipped: a conda is here");
    return;
  }
  place.asked.recipe.conda = {"pip", "openssl=1.1"};
  place.asked.recipe.requirements = {"tyone"};
  const auto held = place.make();
  REQUIRE_MESSAGE(held, held.error().message);
  CHECK(held->realised.kind == EnvironmentKind::venv);
  REQUIRE(held->realised.lock.size() == 1);
  CHECK(held->realised.lock[0].starts_with("tyone==1.0 --hash=sha256:"));
  CHECK(place.recorder.text().find("Not needed there: pip, openssl=1.1\n") != std::string::npos);
}

TEST_CASE("without conda a file with other packages is refused, and they are named") {
  Place place;
  if (!find_conda(place.settings.variables).empty()) {
    MESSAGE("skipped: a conda is here");
    return;
  }
  place.asked.recipe.conda = {"ffmpeg  # env.yml:7"};
  const auto held = place.make();
  REQUIRE(!held);
  CHECK(held.error().kind == ErrorKind::invalid);
  CHECK(held.error().message.ends_with(": env.yml:7: ffmpeg"));
}

}  // namespace
}  // namespace trainyard::env
