#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "base/variables.h"
#include "client/blobs.h"
#include "env/engine_images.h"
#include "env/settle_conda.h"
#include "env/settle_python.h"
#include "supervisor/contain.h"
#include "supervisor/environment.h"
#include "supervisor/steps.h"

namespace trainyard::supervisor {
namespace {

constexpr const char* kLogFile = "system_logs/environment.txt";
constexpr const char* kLockFile = "system_logs/environment_lock.txt";
constexpr uint64_t kNodeBytesMax = 50'000'000'000;  // Of a node's shelf.
constexpr seconds kEnvironmentWait{1};              // Then we look whether we are still wanted.

// The server's way to it.
class Asking {
 public:
  explicit Asking(Context& context)
      : context_(context),
        client_(context.server(), context.assignment.token),
        server_(client_, context.assignment.id(), context.assignment.node) {}

  // Until it is made. What the build prints is a file of the run.
  Result<Realised> wait(std::string_view need) {
    client::AttemptApi::EnvironmentQuery query{.need = need, .begins = true};
    for (;;) {
      client::AttemptApi::EnvironmentStand stand;
      const auto ask = [&]() -> Status {
        TRY_SET(stand, server_.environment(query));
        return {};
      };
      TRY(context_.try_until_answered(ask));
      keep_log(stand.log);
      query.log_from = stand.log_next;
      if (stand.state == "ready") {
        if (std::exchange(building_, false)) context_.report(ReportKind::built);
        return std::move(stand.realised);
      }
      if (stand.state == "failed") {
        Error& error = stand.error;
        if (!error.hint.empty()) error.message += " (" + error.hint + ")";
        return std::unexpected(std::move(error));
      }
      if (!std::exchange(building_, true)) context_.report(ReportKind::building);
      if (context_.stops_early()) return fail(ErrorKind::cancelled, "it is not wanted any more");
      query.begins = false;
      query.wait = kEnvironmentWait;
    }
  }

  // Of a recipe for a virtual environment the server has it (api/run_files.h): a run that prints
  // nothing would wait for the disk for this file alone.
  void keep_lock(const Realised& realised) {
    if (context_.assignment.spec.environment.recipe.kind == EnvironmentKind::venv) return;
    std::string text = lock_text(realised);
    if (text.empty() || context_.assignment.node > 0) return;
    const auto kept = server_.file(kLockFile, 0, text, client::AttemptApi::Reset::yes);
    if (!kept) context_.log.line("the lock is not kept: " + kept.error().message);
  }

  Status fetch(const Realised& realised, const fs::path& folder) {
    TRY_SET(const Digest id, Digest::from_hex(realised.tree));
    TRY_SET(const std::string text, client::fetch_text(client_, id));
    TRY_SET(const snapshot::Tree tree, snapshot::decode(text));
    context_.log.line("environment: " + std::to_string(tree.files()) + " files, " +
                      format_size(tree.bytes()) + " to fetch");
    return client::download_tree(client_, tree, folder / "root");
  }

 private:
  // Every node hears it; the first one tells.
  void keep_log(const std::string& text) {
    if (text.empty() || context_.assignment.node > 0) return;
    std::string bytes = text;
    // What an earlier build left there goes.
    const auto reset = sent_ == 0 ? client::AttemptApi::Reset::yes : client::AttemptApi::Reset::no;
    const auto kept = server_.file(kLogFile, sent_, bytes, reset);
    if (kept) sent_ = *kept;
  }

  Context& context_;
  http::Client client_;
  client::AttemptApi server_;
  uint64_t sent_ = 0;
  bool building_ = false;
};

bool has_root(const env::Shelf::Held& held) {
  std::error_code none;
  return fs::exists(held.folder / "root", none);
}

// Without an engine a container needs its files.
bool is_enough(const env::Shelf::Held& held, const container::Runtime* runtime) {
  return runtime == nullptr || !runtime->needs_root() || has_root(held);
}

// Gives this node's engine an image that was made elsewhere, or before there was an engine; once,
// though several attempts begin together.
Status load_image(Context& context, const env::Shelf::Held& held) {
  container::Runtime& runtime = *context.environment.runtime;
  const std::string name = env::given_image_tag(held.realised);
  TRY_SET(const Fd lock, open_file(held.folder / "image.lock", O_RDWR | O_CREAT, 0600));
  if (::flock(lock.get(), LOCK_EX) != 0) return fail_errno(errno, "lock the image");
  TRY_SET(const auto found, runtime.find_image({name}));
  if (found) {
    context.environment.image = *found;
    return {};
  }
  context.log.line("environment: " + std::string(runtime.name()) + " is given the image as " +
                   name);
  TRY_SET(context.environment.image, runtime.load_root(held.folder / "root", name));
  return {};
}

// Whose image it is that ranks are made of. One that its engine has lost, where there are no files
// to make it of, is told of by whoever starts a rank.
Status settle_image(Context& context, const env::Shelf::Held& held) {
  container::Runtime* runtime = context.environment.runtime.get();
  context.environment.image = held.realised.image;
  if (runtime == nullptr || runtime->needs_root() || !has_root(held)) return {};
  TRY_SET(const auto found,
          runtime->find_image({held.realised.image, env::given_image_tag(held.realised)}));
  if (!found) return load_image(context, held);
  context.environment.image = *found;
  return {};
}

// Whether this node's engine has the very image: then nothing need be fetched.
Result<bool> has_image(Context& context, const Realised& realised) {
  container::Runtime* runtime = context.environment.runtime.get();
  if (runtime == nullptr || runtime->needs_root()) return false;
  TRY_SET(const auto found, runtime->find_image({realised.image, env::given_image_tag(realised)}));
  return found.has_value();
}

// Whether its engine has lost it, with nothing here to make it of: images are others' to remove
// too.
Result<bool> lost_image(Context& context, const env::Shelf::Held& held) {
  const container::Runtime* runtime = context.environment.runtime.get();
  if (runtime == nullptr || runtime->needs_root() || has_root(held)) return false;
  TRY_SET(const bool there, has_image(context, held.realised));
  return !there;
}

Status realise_here(Context& context, const std::string& hash, const env::Shelf& shelf) {
  Asking asking(context);
  const container::Runtime* runtime = context.environment.runtime.get();
  const bool bare = runtime != nullptr && runtime->needs_root();
  bool looked = false;
  // It may be taken away between two of our looks, if it was used long ago.
  for (;;) {
    TRY_SET(auto held, shelf.find(hash));
    if (held && !looked) {
      TRY_SET(const bool lost, lost_image(context, *held));
      if (lost) held.reset();  // The server looks too, and makes it again.
      looked = true;
    }
    if (held && is_enough(*held, runtime)) {
      TRY(settle_image(context, *held));
      asking.keep_lock(held->realised);
      context.environment.held = std::move(held);
      return {};
    }
    TRY(asking.wait(bare ? "root" : "made"));
  }
}

// A virtual environment stands on the Python of the machine that made it.
Status use_own_python(Context& context, const env::Shelf::Held& held) {
  if (held.realised.kind != EnvironmentKind::venv) return {};
  const env::Settings settings{.variables = own_variables("TRAINYARD_"),
                               .cache = held.folder,
                               .blobs = {},
                               .engine_socket = {},
                               .registry_password = {}};
  const auto changed = env::settle_python(
      held.folder / "root", context.assignment.spec.environment.recipe.platform, settings);
  if (!changed) {
    const Error& error = changed.error();
    return fail(error.kind, error.message + " (" + error.hint + ")");
  }
  if (*changed) context.log.line("environment: it stands on the Python of this node");
  return {};
}

// Of what was fetched without its files, as an engine had the image then.
Status add_root(Context& context, Asking& asking, const env::Shelf::Held& held) {
  TRY_SET(const bool there, has_image(context, held.realised));
  if (there) return {};
  TRY_SET(const Realised realised, asking.wait("tree"));
  const fs::path aside = held.folder / ("fetched-" + std::to_string(getpid()));
  Status added = context.try_until_answered([&] { return asking.fetch(realised, aside); });
  const fs::path root = held.folder / "root";
  if (added && ::rename((aside / "root").c_str(), root.c_str()) != 0 && !has_root(held)) {
    added = fail_errno(errno, "rename " + root.string());
  }
  TRY(remove_tree(aside));  // Also where another was quicker.
  return added;
}

Result<env::Shelf::Held> fetch_environment(Context& context, Asking& asking,
                                           const std::string& hash, const env::Shelf& shelf) {
  const bool engine = context.environment.runtime && !context.environment.runtime->needs_root();
  TRY_SET(Realised realised, asking.wait(engine ? "made" : "tree"));
  TRY_SET(const bool there, has_image(context, realised));
  if (engine && !there) {
    TRY_SET(realised, asking.wait("tree"));
  }
  const auto make = [&](const fs::path& folder) -> Result<Realised> {
    if (there) return realised;
    TRY(context.try_until_answered([&] { return asking.fetch(realised, folder); }));
    if (realised.kind == EnvironmentKind::conda) {
      TRY(env::settle_conda(folder / "root", shelf.place(hash) / "root"));
    }
    return realised;
  };
  TRY_SET(env::Shelf::Held held, shelf.make(hash, make));
  // The one we hold stays.
  env::EngineImages images(context.clock, {.variables = runtime_variables(context.assignment)});
  const auto leaves = [&](const Realised& gone) { images.forget(gone); };
  if (const auto trimmed = shelf.trim(kNodeBytesMax, leaves); !trimmed) {
    context.log.line("environments are not trimmed: " + trimmed.error().message);
  }
  return held;
}

Status realise_elsewhere(Context& context, const std::string& hash, const env::Shelf& shelf) {
  Asking asking(context);
  TRY_SET(auto held, shelf.find(hash));
  if (!held) {
    TRY_SET(held, fetch_environment(context, asking, hash, shelf));
  }
  if (!has_root(*held)) TRY(add_root(context, asking, *held));
  TRY(use_own_python(context, *held));
  TRY(settle_image(context, *held));
  asking.keep_lock(held->realised);
  context.environment.held = std::move(held);
  return {};
}

}  // namespace

// Made once, on the server's machine; a node elsewhere fetches it once and keeps it.
Status realise_environment(Context& context) {
  const std::string& hash = context.assignment.spec.environment.hash;
  if (hash.empty()) return {};
  if (context.assignment.spec.environment.recipe.kind == EnvironmentKind::container) {
    TRY_SET(context.environment.runtime, open_runtime(runtime_variables(context.assignment)));
  }
  const env::Shelf shelf(shelf_of(context.assignment.environments, context.layout.environments()));
  const Status realised = context.assignment.environments.empty()
                              ? realise_elsewhere(context, hash, shelf)
                              : realise_here(context, hash, shelf);
  if (!realised && realised.error().kind == ErrorKind::cancelled) return {};
  if (realised) context.log.line("environment " + hash.substr(0, 6) + " is here");
  return realised;
}

}  // namespace trainyard::supervisor
