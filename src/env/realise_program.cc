#include "env/realise_program.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/file.h"
#include "base/variables.h"
#include "blob/blob_store.h"
#include "container/unpack.h"
#include "env/build.h"
#include "env/compile.h"
#include "snapshot/capture.h"
#include "wire/json.h"

namespace trainyard::env {
namespace {

constexpr int kRealiseFailed = 1;
constexpr uint64_t kBlobMax = uint64_t{1} << 32;  // Of one file of a build folder.

volatile sig_atomic_t told_to_stop = 0;

// A console as a log.
class ConsoleWatcher final : public Watcher {
 public:
  void line(std::string_view text) override { print("", text); }
  void progress(std::string_view words) override {
    if (words == last_) return;
    last_ = words;
    print("# ", words);
  }
  bool stopped() const override { return told_to_stop != 0; }

 private:
  static void print(std::string_view start, std::string_view text) {
    std::printf("%.*s%.*s\n", static_cast<int>(start.size()), start.data(),
                static_cast<int>(text.size()), text.data());
    std::fflush(stdout);
  }

  std::string last_;
};

// Packages stay on the node for the next build; where it has no place for them, for this one.
fs::path package_cache() {
  const char* kept = std::getenv("TRAINYARD_PACKAGES");
  if (kept != nullptr && make_dirs(kept, 0700)) return kept;
  return fs::current_path() / "packages";
}

// A build reads its folder from blobs, as the server has it.
Status keep_context(const fs::path& folder, const std::string& tree, const fs::path& blobs) {
  TRY(make_dirs(blobs / "tmp"));
  TRY_SET(const std::unique_ptr<blob::Store> store, blob::open_folder(blobs, blobs / "tmp"));
  TRY_SET(const snapshot::Captured captured, snapshot::capture(folder, {.code = false}));
  if (captured.id.hex() != tree) {
    return fail(ErrorKind::internal, "the build folder is not what it was at submit");
  }
  for (const snapshot::Entry& entry : captured.tree.entries) {
    using snapshot::EntryKind;
    if (entry.kind != EntryKind::file && entry.kind != EntryKind::executable) continue;
    if (entry.size > kBlobMax) {
      return fail(ErrorKind::invalid, entry.path + " in the build folder is too large");
    }
    TRY_SET(const std::string bytes, read_file(folder / entry.path));
    TRY(store->put(entry.digest, bytes));
  }
  return store->put(captured.id, captured.text);
}

Result<Settings> realise_settings(const Environment& environment, const fs::path& beside) {
  Settings settings{.variables = own_variables("TRAINYARD_"),
                    .cache = package_cache(),
                    .blobs = beside / "blobs"};
  // Our own package is found by a run's scripts; an environment has nothing of it.
  settings.variables.erase("PYTHONPATH");
  const std::string& secret = environment.registry.secret;
  if (!secret.empty()) {
    const auto password = settings.variables.extract(secret);
    if (password.empty()) {
      return fail(ErrorKind::not_found, "the secret " + secret + " has not come with the run");
    }
    settings.registry_password = password.mapped();
  }
  if (!environment.recipe.context.empty()) {
    TRY(keep_context(beside / "context", environment.recipe.context, settings.blobs));
  }
  return settings;
}

// An engine keeps an image in its own way; others are to have its files.
Status unpack_realised(const Realised& realised, const fs::path& root, const Settings& settings,
                       Watcher& watcher) {
  if (realised.kind != EnvironmentKind::container || fs::exists(root)) return {};
  TRY_SET(const container::EngineAddress address,
          container::find_engine(settings.engine_socket, settings.variables));
  container::EngineApi engine(address);
  container::UnpackOptions options;
  options.line = [&](std::string_view text) { watcher.line(text); };
  options.progress = [&](std::string_view words) { watcher.progress(words); };
  options.stopped = [&] { return watcher.stopped(); };
  TRY(container::unpack_from_engine(engine, realised.image, root, options));
  return {};
}

// What an attempt before this one left goes.
Status clear_folder(const fs::path& folder) {
  TRY(make_dirs(folder));
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    TRY(remove_tree(at->path()));
  }
  return {};
}

Status realise_file(const fs::path& file, const fs::path& folder) {
  TRY_SET(const std::string text, read_file(file));
  TRY_SET(const wire::Json json, wire::parse(text));
  TRY_SET(const Environment environment, wire::decode_environment(json));
  TRY_SET(const Settings settings, realise_settings(environment, fs::absolute(file).parent_path()));
  TRY(clear_folder(folder));
  ConsoleWatcher watcher;
  watcher.line("environment " + environment.hash.substr(0, 6) + " (" +
               std::string(to_string(environment.recipe.kind)) + ") is being made");
  for (const std::string& line : environment.left_out) {
    watcher.line("left out, as Trainyard provides it: " + line);
  }
  const fs::path place = fs::absolute(folder);
  TRY_SET(const Realised realised, build(environment, place, settings, watcher));
  TRY(unpack_realised(realised, place / "root", settings, watcher));
  TRY(compile_modules(environment, place, settings, watcher));
  return write_file(place / "environment.json", wire::dump(wire::encode(realised)) + "\n");
}

}  // namespace

int realise_program(const std::vector<std::string>& words) {
  if (words.size() != 3 || words[0] != "realise") return -1;
  struct sigaction stop{};
  stop.sa_handler = [](int) { told_to_stop = 1; };
  sigaction(SIGTERM, &stop, nullptr);
  const Status done = realise_file(words[1], words[2]);
  if (done) return 0;
  const Error& error = done.error();
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s%s\n", error.message.c_str(),
               error.hint.empty() ? "" : (" (" + error.hint + ")").c_str());
  return kRealiseFailed;
}

}  // namespace trainyard::env
