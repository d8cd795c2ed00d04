#include "env/engine_images.h"

#include <doctest/doctest.h>

#include "base/fake_clock.h"
#include "container/test_engine.h"
#include "env/build_image.h"
#include "env/test_settings.h"

namespace trainyard::env {
namespace {

using container::TestEngine;
using Answer = EngineImages::Answer;

// An environment whose image is in an engine.
struct Imaged {
  explicit Imaged(TestEngine& of) : engine(of) {}

  Realised build(const Recipe& recipe) {
    Environment environment;
    environment.recipe = recipe;
    environment.recipe.kind = EnvironmentKind::container;
    environment.hash = recipe_hash(environment.recipe);
    const fs::path folder = dir.path() / environment.hash;
    REQUIRE(make_dirs(folder));
    auto made = build_image(environment, folder, settings, recorder);
    REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
    made->hash = environment.hash;
    CHECK(made->bytes > 0);
    return *made;
  }
  bool is_named(const Realised& realised) {
    return !engine.cli({"images", "-q", image_tag(realised.hash)}).empty();
  }

  Settings with_engine() const {
    Settings all = test_settings(dir.path());
    all.engine_socket = engine.socket;
    return all;
  }

  TestEngine& engine;
  TempDir dir;
  Settings settings = with_engine();
  Recorder recorder;
  FakeClock clock;
  EngineImages images{clock, settings};
};

std::vector<TestEngine*> engines_here() {
  std::vector<TestEngine*> running;
  for (TestEngine* engine : {&TestEngine::docker(), &TestEngine::podman()}) {
    if (engine->socket.empty()) MESSAGE(engine->skipped);
    if (!engine->socket.empty()) running.push_back(engine);
  }
  return running;
}

}  // namespace

TEST_CASE("an image that somebody removed is noticed, after a moment or when it matters") {
  for (TestEngine* engine : engines_here()) {
    Imaged place(*engine);
    const Realised made = place.build({.dockerfile = "FROM tiny\nRUN echo noticed > /made\n"});
    CHECK(place.images.has(made, place.dir.path() / "none", Answer::lately));
    engine->cli({"rmi", "-f", image_tag(made.hash)});
    CHECK(place.images.has(made, place.dir.path() / "none", Answer::lately));
    CHECK_FALSE(place.images.has(made, place.dir.path() / "none", Answer::now));
    CHECK_FALSE(place.images.has(made, place.dir.path() / "none", Answer::lately));
    const Realised again = place.build({.dockerfile = "FROM tiny\nRUN echo noticed > /made\n"});
    CHECK(place.images.has(again, place.dir.path() / "none", Answer::now));
    engine->cli({"rmi", "-f", image_tag(made.hash)});
    place.clock.advance(seconds(60));
    CHECK_FALSE(place.images.has(again, place.dir.path() / "none", Answer::lately));
    // Its files are as good.
    REQUIRE(make_dirs(place.dir.path() / "unpacked" / "root"));
    CHECK(place.images.has(again, place.dir.path() / "unpacked", Answer::now));
  }
}

TEST_CASE("an environment that goes takes its image along, unless others use that") {
  for (TestEngine* engine : engines_here()) {
    Imaged place(*engine);
    const Realised own = place.build({.dockerfile = "FROM tiny\nRUN echo own > /made\n"});
    REQUIRE(place.is_named(own));
    place.images.forget(own);
    CHECK_FALSE(place.is_named(own));
    CHECK_FALSE(place.images.has(own, place.dir.path() / "none", Answer::now));

    const Realised shared = place.build({.image = "tiny"});
    REQUIRE(place.is_named(shared));
    place.images.forget(shared);
    CHECK_FALSE(place.is_named(shared));
    CHECK(place.images.has(shared, place.dir.path() / "none", Answer::now));

    const Realised given = place.build({.dockerfile = "FROM tiny\nRUN echo given > /made\n"});
    engine->cli({"tag", given.image, given_image_tag(given)});
    place.images.forget(given);
    CHECK(engine->cli({"images", "-q", given_image_tag(given)}).empty());

    const Realised used = place.build({.dockerfile = "FROM tiny\nRUN echo used > /made\n"});
    engine->cli({"create", "--name", "user", image_tag(used.hash)});
    place.images.forget(used);
    CHECK(place.images.has(used, place.dir.path() / "none", Answer::now));
    engine->cli({"rm", "user"});
    engine->cli({"rmi", "-f", used.image});
  }
}

TEST_CASE("without an engine an image is where it was, and nothing is to be forgotten") {
  const TempDir dir;
  Settings settings = test_settings(dir.path());
  settings.engine_socket = dir.path() / "no.sock";
  FakeClock clock;
  EngineImages images(clock, settings);
  const Realised realised{.kind = EnvironmentKind::container, .hash = std::string(64, '1')};
  CHECK(images.has(realised, dir.path(), Answer::now));
  images.forget(realised);
}

}  // namespace trainyard::env
