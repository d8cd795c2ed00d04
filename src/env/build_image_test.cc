#include "env/build_image.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/hash.h"
#include "base/text.h"
#include "blob/blob_store.h"
#include "container/test_engine.h"
#include "env/build_image_context.h"
#include "env/build_image_layer.h"
#include "env/engine_images.h"
#include "env/test_settings.h"
#include "snapshot/capture.h"

namespace trainyard::env {
namespace {

using container::TestEngine;

struct Workplace {
  TempDir dir;
  Settings settings = test_settings(dir.path());
  Recorder recorder;
  int count = 0;

  explicit Workplace(const TestEngine& engine) { settings.engine_socket = engine.socket; }

  Result<Realised> build(const Recipe& recipe, const Environment& more = {}) {
    Environment environment = more;
    environment.recipe = recipe;
    environment.recipe.kind = EnvironmentKind::container;
    environment.hash = recipe_hash(environment.recipe);
    recorder.lines.clear();
    recorder.steps.clear();
    const fs::path folder = dir.path() / std::to_string(++count);
    REQUIRE(make_dirs(folder));
    auto made = build_image(environment, folder, settings, recorder);
    if (made) CHECK_FALSE(fs::exists(folder / "build"));
    return made;
  }

  // A build folder as the server has it.
  std::string keep_folder(const std::map<std::string, std::string>& files) {
    const fs::path folder = dir.path() / ("context" + std::to_string(++count));
    for (const auto& [name, text] : files) {
      REQUIRE(make_dirs((folder / name).parent_path()));
      REQUIRE(write_file(folder / name, text));
    }
    const auto captured = snapshot::capture(folder, {.code = false}).value();
    REQUIRE(make_dirs(dir.path() / "tmp"));
    const auto blobs = blob::open_folder(settings.blobs, dir.path() / "tmp").value();
    for (const snapshot::Entry& entry : captured.tree.entries) {
      if (entry.kind == snapshot::EntryKind::folder) continue;
      REQUIRE(blobs->put(entry.digest, read_file(folder / entry.path).value()));
    }
    REQUIRE(blobs->put(captured.id, captured.text));
    REQUIRE(blobs->sync());
    return captured.id.hex();
  }
};

std::vector<TestEngine*> engines() {
  std::vector<TestEngine*> running;
  for (TestEngine* engine : {&TestEngine::docker(), &TestEngine::podman()}) {
    if (engine->socket.empty()) MESSAGE(engine->skipped);
    if (!engine->socket.empty()) running.push_back(engine);
  }
  return running;
}

std::string message_of(const Result<Realised>& result) {
  return result ? "" : result.error().message;
}

}  // namespace

TEST_CASE("an image that is here is used by its id, and says of itself what a run needs") {
  for (TestEngine* engine : engines()) {
    Workplace place(*engine);
    const auto made = place.build({.image = "tiny"});
    REQUIRE_MESSAGE(made.has_value(), message_of(made));
    CHECK(made->kind == EnvironmentKind::container);
    CHECK(made->image.starts_with("sha256:"));
    CHECK(made->lock.front() == made->image);
    CHECK(made->config.command == std::vector<std::string>{"sh", "-c", "true"});
    CHECK(made->config.folder == "/tmp");
    CHECK(std::ranges::count(made->config.variables, "FROM_IMAGE=yes") == 1);
    CHECK(image_is_there(*made, place.dir.path() / "none", place.settings).value());
    const Realised gone{.image = "sha256:" + std::string(64, '7')};
    CHECK_FALSE(image_is_there(gone, place.dir.path() / "none", place.settings).value());
  }
}

TEST_CASE("a Dockerfile is built with its folder, and a step that fails is shown") {
  for (TestEngine* engine : engines()) {
    Workplace place(*engine);
    Recipe recipe{.dockerfile = "FROM tiny\nARG WHAT\nCOPY . /code\nRUN echo made $WHAT > /made\n"};
    recipe.context =
        place.keep_folder({{"a/b.txt", "b"}, {"no.log", ""}, {".dockerignore", "*.log"}});
    recipe.build_arguments = {{"WHAT", "well"}};
    const auto made = place.build(recipe);
    REQUIRE_MESSAGE(made.has_value(), (message_of(made) + "\n" + place.recorder.text()));
    CHECK(std::ranges::count(place.recorder.steps, "step 4 of 4") == 1);
    CHECK(engine->cli({"run", "--rm", "--network=host", made->image, "sh", "-c",
                       "cat /made /code/a/b.txt; ls /code"}) == "made well\nba\n");

    const auto failed = place.build({.dockerfile = "FROM tiny\nRUN echo oh no >&2; exit 3\n"});
    REQUIRE_FALSE(failed.has_value());
    CHECK(failed.error().kind == ErrorKind::invalid);
    INFO(failed.error().message);
    CHECK(failed.error().message.find("2/2") != std::string::npos);
    CHECK(failed.error().message.find("exit 3") != std::string::npos);
    CHECK(failed.error().message.ends_with(": oh no"));
    CHECK(std::ranges::count(place.recorder.lines, "oh no") == 1);
  }
}

TEST_CASE("a Dockerfile that is not in its folder, or has no sense, is the user's to mend") {
  for (TestEngine* engine : engines()) {
    Workplace place(*engine);
    const std::string context = place.keep_folder({{"docker/Dockerfile", "FROM tiny\n"}});
    const auto made = place.build({.dockerfile = "docker/Dockerfile", .context = context});
    CHECK_MESSAGE(made.has_value(), message_of(made));
    CHECK(message_of(place.build({.context = context})).find("no file 'Dockerfile'") !=
          std::string::npos);
    CHECK(place.build({.dockerfile = "../x", .context = context}).error().kind ==
          ErrorKind::invalid);
    const auto odd = place.build({.dockerfile = "FROM tiny\nFROB x\n"});
    INFO(message_of(odd));
    CHECK(odd.error().kind == ErrorKind::invalid);
    CHECK(message_of(odd).find("FROB") != std::string::npos);
  }
}

TEST_CASE("an image of a private registry comes with the password, and not without") {
  for (TestEngine* engine : engines()) {
    Workplace place(*engine);
    const std::string name = engine->registry + "/private/tiny:1";
    engine->cli({"login", "-u", TestEngine::kUser, "-p", TestEngine::kPassword, engine->registry});
    engine->cli({"tag", "tiny", name});
    engine->cli({"push", name});
    engine->cli({"rmi", name});
    engine->cli({"logout", engine->registry});
    const auto refused = place.build({.image = name});
    REQUIRE_FALSE(refused.has_value());
    INFO(message_of(refused));
    CHECK(refused.error().kind == ErrorKind::denied);

    place.settings.registry_password = TestEngine::kPassword;
    Environment environment;
    environment.registry = {.address = engine->registry, .username = TestEngine::kUser};
    const auto made = place.build({.image = name}, environment);
    REQUIRE_MESSAGE(made.has_value(), message_of(made));
    REQUIRE(made->lock.size() >= 2);
    const auto digest = std::ranges::find_if(made->lock, [&](const std::string& line) {
      return line.starts_with(engine->registry + "/private/tiny@sha256:");
    });
    CHECK(digest != made->lock.end());
    CHECK(place.recorder.text().find("sesame") == std::string::npos);

    // What the password has fetched is nobody's who has none.
    for (const std::string& again : {name, *digest}) {
      CAPTURE(again);
      const auto without = place.build({.image = again});
      REQUIRE_FALSE(without.has_value());
      CHECK(without.error().kind == ErrorKind::denied);
    }
    Recipe built;
    built.dockerfile = "FROM " + name + "\nCMD [\"true\"]\n";
    const auto derived = place.build(built, environment);
    REQUIRE_MESSAGE(derived.has_value(), message_of(derived));
    CHECK_FALSE(place.build({.image = name}).has_value());
    Environment limited;
    limited.limited = true;
    for (const std::string& from : {made->image, *digest}) {
      CAPTURE(from);
      built.dockerfile = "FROM " + from + "\nCMD [\"true\"]\n";
      const auto refused_again = place.build(built, limited);
      REQUIRE_FALSE(refused_again.has_value());
      CHECK(refused_again.error().kind == ErrorKind::denied);
    }

    const auto none = place.build({.image = engine->registry + "/private/none:1"}, environment);
    INFO(message_of(none));
    CHECK(none.error().kind == ErrorKind::not_found);
  }
}

TEST_CASE("an image comes from an archive and from a layout") {
  for (TestEngine* engine : engines()) {
    Workplace place(*engine);
    const std::string archive = place.dir.path() / "tiny.tar";
    engine->cli({"save", "-o", archive, "tiny"});
    const std::string id = place.build({.image = "tiny"}).value().image;
    const auto loaded = place.build({.image = "docker-archive:" + archive});
    REQUIRE_MESSAGE(loaded.has_value(), message_of(loaded));
    CHECK(loaded->image == id);

    const std::string layout = place.dir.path() / "layout";
    const fs::path skopeo = find_program("skopeo", place.settings.variables);
    if (skopeo.empty()) continue;
    REQUIRE(output_of({.command = {skopeo, "--insecure-policy", "copy", "docker-archive:" + archive,
                                   "oci:" + layout + ":1"},
                       .variables = place.settings.variables,
                       .folder = place.dir.path()},
                      seconds(60)));
    const auto made = place.build({.image = "oci:" + layout + ":1"});
    REQUIRE_MESSAGE(made.has_value(), (message_of(made) + "\n" + place.recorder.text()));
    CHECK(made->config.folder == "/tmp");
    CHECK_FALSE(place.build({.image = "oci:" + layout + ":2"}).has_value());
    const std::string packed = "oci-archive:" + (place.dir.path() / "packed.tar").string();
    REQUIRE(
        output_of({.command = {skopeo, "--insecure-policy", "copy", "oci:" + layout + ":1", packed},
                   .variables = place.settings.variables,
                   .folder = place.dir.path()},
                  seconds(60)));
    const auto unpacked = place.build({.image = packed});
    REQUIRE_MESSAGE(unpacked.has_value(), (message_of(unpacked) + "\n" + place.recorder.text()));
    CHECK(unpacked->image == made->image);
    const fs::path tree = place.dir.path() / "tree.tar";
    engine->cli({"create", "--name", "exported", "tiny"});
    engine->cli({"export", "-o", tree, "exported"});
    engine->cli({"rm", "exported"});
    const auto imported = place.build({.image = "rootfs:" + tree.string()});
    CHECK_MESSAGE(imported.has_value(), message_of(imported));
    CHECK_FALSE(place.build({.image = "docker-archive:/no/such.tar"}).has_value());
  }
}

TEST_CASE("a build that is wanted no more ends at once") {
  for (TestEngine* engine : engines()) {
    Workplace place(*engine);
    place.recorder.stop = [&] { return place.recorder.text().find("begun") != std::string::npos; };
    const auto started = std::chrono::steady_clock::now();
    const auto made = place.build({.dockerfile = "FROM tiny\nRUN echo begun; sleep 300\n"});
    REQUIRE_FALSE(made.has_value());
    CHECK(made.error().kind == ErrorKind::cancelled);
    CHECK(std::chrono::steady_clock::now() - started < seconds(60));
    // The engine ends the step by itself.
    MonotoneClock clock;
    while (!engine->cli({"ps", "-aq"}).empty()) {
      REQUIRE(std::chrono::steady_clock::now() - started < seconds(90));
      clock.sleep_until(clock.steady() + milliseconds(50), {});
    }
  }
}

TEST_CASE("without an engine what must be built says what to start") {
  const TempDir dir;
  Recorder recorder;
  Settings settings = test_settings(dir.path());
  settings.engine_socket = dir.path() / "no.sock";
  Environment environment;
  environment.recipe = {.kind = EnvironmentKind::container, .dockerfile = "FROM x\n"};
  const auto made = build_image(environment, dir.path(), settings, recorder);
  REQUIRE_FALSE(made.has_value());
  CHECK(made.error().kind == ErrorKind::unavailable);
  CHECK(made.error().message.find("no container engine answers") != std::string::npos);
  CHECK(made.error().hint.find("systemctl start docker") != std::string::npos);
}

TEST_CASE("a file that is not the image that was meant is not taken for it") {
  const TempDir dir;
  Recorder recorder;
  Settings settings = test_settings(dir.path());
  settings.engine_socket = dir.path() / "no.sock";
  REQUIRE(write_file(dir.path() / "root.tar", "another"));
  Environment environment;
  environment.recipe = {.kind = EnvironmentKind::container,
                        .image = "rootfs:" + (dir.path() / "root.tar").string(),
                        .image_digest = "sha256:" + sha256("one").hex()};
  const auto made = build_image(environment, dir.path(), settings, recorder);
  REQUIRE_FALSE(made.has_value());
  CHECK(made.error().kind == ErrorKind::invalid);
  CHECK(made.error().message.find("has changed since") != std::string::npos);
}

TEST_CASE("packages on an image are a layer that leaves its user as it was") {
  Settings settings;
  settings.variables = {{"PIP_INDEX_URL", "http://index"}, {"https_proxy", "http://proxy"}};
  Environment environment;
  environment.recipe.requirements = {"numpy==1.26.4", "tqdm"};
  environment.recipe.options = {"--pre", "--constraint scipy<2"};
  environment.recipe.conda = {"python=3.11", "ffmpeg=6"};
  environment.recipe.channels = {"conda-forge"};
  const ImageLayer layer = packages_layer(environment, "base", {.user = "jovyan"}, settings);
  CHECK(layer.files.at("requirements.txt") == "--pre\nnumpy==1.26.4\ntqdm\n");
  CHECK(layer.files.at("constraints.txt") == "scipy<2\n");
  CHECK(layer.files.at("conda.yml") ==
        "name: base\nchannels:\n  - conda-forge\ndependencies:\n  - ffmpeg=6\n");
  const std::string& dockerfile = layer.files.at("Dockerfile");
  INFO(dockerfile);
  CHECK(dockerfile.starts_with("FROM base\nUSER root\n"));
  CHECK(dockerfile.ends_with("RUN sh /trainyard/install\nUSER jovyan\n"));
  CHECK(dockerfile.find("ARG PIP_INDEX_URL\n") != std::string::npos);
  CHECK(layer.arguments.at("PIP_INDEX_URL") == "http://index");
  CHECK(layer.arguments.at("https_proxy") == "http://proxy");
}

TEST_CASE("a conda file's python is checked against the image's, and not dropped") {
  const Settings settings;
  Environment environment;
  environment.recipe.image = "base";
  CHECK(!packages_layer(environment, "base", {}, settings).files.contains("check_python.py"));
  environment.recipe.python = ">=3.8,<3.10";
  const ImageLayer layer = packages_layer(environment, "base", {}, settings);
  CHECK(layer.files.at("python.txt") == ">=3.8,<3.10");
  CHECK(layer.files.at("install").find("\"$py\" check_python.py\n") != std::string::npos);
  TempDir dir;
  REQUIRE(write_file(dir.path() / "check_python.py", layer.files.at("check_python.py")));
  const std::string run = "cd '" + dir.path().string() + "' && python3 check_python.py > said";
  const std::pair<const char*, bool> cases[] = {
      {"3", true},           {">=3.6", true}, {">=3.6,<4", true}, {"2.7", false},
      {">=2.7,<3.0", false}, {"!=3", false},  {"<4", true},       {"3.999", false},
  };
  for (const auto& [python, fits] : cases) {
    CAPTURE(python);
    REQUIRE(write_file(dir.path() / "python.txt", python));
    CHECK((std::system(run.c_str()) == 0) == fits);
    const std::string said = read_file(dir.path() / "said").value_or("");
    CHECK(said.starts_with("error: the conda file asks for python " + std::string(python)) != fits);
  }
}

TEST_CASE("a link in a build folder has the server read no file of its own") {
  const TempDir dir;
  const fs::path folder = dir.path() / "folder";
  REQUIRE(make_dirs(folder));
  REQUIRE(write_file(dir.path() / "outside", "*"));
  REQUIRE(write_file(folder / "Dockerfile", "FROM scratch"));
  fs::create_symlink(dir.path() / "outside", folder / ".dockerignore");
  const Settings settings = test_settings(dir.path());
  Recorder recorder;
  const auto packed = pack_context(folder, dir.path(), "Dockerfile", settings, recorder);
  REQUIRE_FALSE(packed.has_value());
  CHECK(packed.error().kind == ErrorKind::denied);
}

TEST_CASE("what .dockerignore leaves out is as docker has it") {
  const TempDir dir;
  for (const char* name :
       {"keep.py", "a.log", "sub/b.log", "data/x.bin", "data/keep.txt", "t/t.o"}) {
    REQUIRE(make_dirs((dir.path() / name).parent_path()));
    REQUIRE(write_file(dir.path() / name, "x"));
  }
  const auto files = [&](std::string_view lines) {
    std::string text;
    const std::vector<std::string> found = context_files(dir.path(), lines).value();
    for (const std::string& path : found) {
      if (!fs::is_directory(dir.path() / path)) text += path + " ";
    }
    return text;
  };
  CHECK(files("") == "a.log data/keep.txt data/x.bin keep.py sub/b.log t/t.o ");
  CHECK(files("*.log\n# no\n/t/\n") == "data/keep.txt data/x.bin keep.py sub/b.log ");
  CHECK(files("**/*.log\ndata\n!data/keep.txt\n") == "data/keep.txt keep.py t/t.o ");
  CHECK(files("*\n!keep.py") == "keep.py ");
}

}  // namespace trainyard::env
