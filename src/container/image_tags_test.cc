#include "container/image_tags.h"

#include <doctest/doctest.h>

#include <condition_variable>

#include "base/text.h"
#include "container/test_engine.h"

namespace trainyard::container {
namespace {

struct TagsMachine {
  explicit TagsMachine(const std::string& socket)
      : tags({.clock = clock,
              .variables = {},
              .engine_socket = socket,
              .folder = dir.path() / "images",
              .done = [this](const std::string&) {
                std::lock_guard lock(mutex);
                ++ended;
                bell.notify_all();
              }}) {}

  // As a request that is parked until there is an answer.
  ImageTags::Found find(const std::string& image) {
    const SteadyTime asked = clock.steady();
    for (;;) {
      std::unique_lock lock(mutex);
      const int before = ended;
      lock.unlock();
      if (auto found = tags.find(image, {}, asked)) return *std::move(found);
      lock.lock();
      bell.wait(lock, [&] { return ended > before; });
    }
  }

  TempDir dir;
  MonotoneClock clock;
  std::mutex mutex;
  std::condition_variable bell;
  int ended = 0;  // Held by mutex.
  ImageTags tags;
};

}  // namespace

TEST_CASE("names of images are taken apart") {
  using Parts = std::pair<std::string, std::string>;
  CHECK(split_image_name("python") == Parts{"python", "latest"});
  CHECK(split_image_name("python:3.11") == Parts{"python", "3.11"});
  CHECK(split_image_name("r.example:5000/a/b") == Parts{"r.example:5000/a/b", "latest"});
  CHECK(split_image_name("r.example:5000/a/b:1") == Parts{"r.example:5000/a/b", "1"});
  CHECK(split_image_name("a@sha256:12") == Parts{"a", "sha256:12"});
  CHECK(split_image_name("a:1@sha256:12") == Parts{"a", "sha256:12"});
}

TEST_CASE("an image is known by its id and by its digests") {
  const EngineApi::Image image{
      .id = "sha256:1", .digests = {"a@sha256:2"}, .config = {}, .bytes = 0};
  CHECK(is_image(image, "sha256:1"));
  CHECK(is_image(image, "sha256:2"));
  CHECK(!is_image(image, "sha256:3"));
}

TEST_CASE("a tag that was moved in the engine is another image for whoever asks after it") {
  for (TestEngine* engine : {&TestEngine::docker(), &TestEngine::podman()}) {
    if (engine->socket.empty()) {
      MESSAGE(engine->skipped);
      continue;
    }
    TagsMachine machine(engine->socket);
    EngineApi api(engine->address());
    const std::string tiny = api.image("tiny")->id;
    REQUIRE(api.tag(tiny, "localhost/moving:1"));
    CHECK(machine.find("localhost/moving:1").digest == tiny);
    const std::string changed = engine->cli(
        {"commit", "--change", "ENV A=B",
         std::string(trim(engine->cli({"create", "tiny", "true"}))), "localhost/moving:1"});
    const ImageTags::Found found = machine.find("localhost/moving:1");
    CHECK(found.digest == api.image("localhost/moving:1")->id);
    CHECK(found.digest != tiny);
    CHECK(found.warning.empty());
    REQUIRE(api.remove_image("localhost/moving:1"));
    for (const std::string& id : split(engine->cli({"ps", "-aq"}), '\n')) {
      if (!trim(id).empty()) engine->cli({"rm", "-f", std::string(trim(id))});
    }
  }
}

TEST_CASE("an image by its digest is what its name says, and an unknown one has no digest") {
  TagsMachine machine("/nowhere/engine.sock");
  CHECK(machine.find("python@sha256:12").digest.empty());
  CHECK(machine.find("127.0.0.1:1/nothing:1").digest.empty());
}

}  // namespace trainyard::container
