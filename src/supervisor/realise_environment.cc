#include <unistd.h>

#include <cstdlib>

#include "base/text.h"
#include "client/blobs.h"
#include "env/settle_conda.h"
#include "supervisor/contain.h"
#include "supervisor/environment.h"
#include "supervisor/steps.h"

namespace trainyard::supervisor {
namespace {

constexpr const char* kLogFile = "system_logs/environment.txt";
constexpr const char* kLockFile = "system_logs/environment_lock.txt";
constexpr uint64_t kNodeBytesMax = 50'000'000'000;  // Of a node's shelf.
constexpr seconds kWait{1};                         // Then we look whether we are still wanted.

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
      if (stand.state == "ready") return std::move(stand.realised);
      if (stand.state == "failed") {
        Error& error = stand.error;
        if (!error.hint.empty()) error.message += " (" + error.hint + ")";
        return std::unexpected(std::move(error));
      }
      if (context_.stops_early()) return fail(ErrorKind::cancelled, "it is not wanted any more");
      query.begins = false;
      query.wait = kWait;
    }
  }

  void keep_lock(const Realised& realised) {
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
    const auto kept = server_.file(kLogFile, sent_, bytes);
    if (kept) sent_ = *kept;
  }

  Context& context_;
  http::Client client_;
  client::AttemptApi server_;
  uint64_t sent_ = 0;
};

// Where this node keeps environments from run to run.
fs::path own_shelf(const Layout& layout) {
  const char* keep = std::getenv("TRAINYARD_KEEP");
  if (keep != nullptr && *keep == '/') return fs::path(keep) / "environments";
  return layout.environments();
}

// Without an engine a container needs its files.
bool is_enough(const env::Shelf::Held& held, const container::Runtime* runtime) {
  return runtime == nullptr || runtime->name() != "bubblewrap" || fs::exists(held.folder / "root");
}

Status realise_here(Context& context, const std::string& hash, const env::Shelf& shelf) {
  Asking asking(context);
  const container::Runtime* runtime = context.environment.runtime.get();
  const bool bare = runtime != nullptr && runtime->name() == "bubblewrap";
  // It may be taken away between two of our looks, if it was used long ago.
  for (;;) {
    TRY_SET(auto held, shelf.find(hash));
    if (held && is_enough(*held, runtime)) {
      asking.keep_lock(held->realised);
      context.environment.held = std::move(held);
      return {};
    }
    TRY(asking.wait(bare ? "root" : "made"));
  }
}

// A virtual environment stands on the Python of the machine that made it.
Status check_python(const env::Shelf::Held& held) {
  if (held.realised.kind != EnvironmentKind::venv) return {};
  const fs::path python = held.folder / "root" / "bin" / "python";
  if (access(python.c_str(), X_OK) == 0) return {};
  std::error_code error;
  const fs::path target = fs::read_symlink(python, error);
  return fail(ErrorKind::not_found,
              "its Python, " + (error ? python : target).string() + ", is not on this node",
              "Install it there, name another with python in the recipe, or run in a container.");
}

Status realise_elsewhere(Context& context, const std::string& hash, const env::Shelf& shelf) {
  Asking asking(context);
  TRY_SET(auto held, shelf.find(hash));
  if (!held) {
    TRY_SET(const Realised realised, asking.wait("tree"));
    const auto make = [&](const fs::path& folder) -> Result<Realised> {
      TRY(context.try_until_answered([&] { return asking.fetch(realised, folder); }));
      if (realised.kind == EnvironmentKind::conda) {
        TRY(env::settle_conda(folder / "root", shelf.place(hash) / "root"));
      }
      return realised;
    };
    TRY_SET(held, shelf.make(hash, make));
    // The one we hold stays.
    if (const auto trimmed = shelf.trim(kNodeBytesMax); !trimmed) {
      context.log.line("environments are not trimmed: " + trimmed.error().message);
    }
  }
  if (const Status usable = check_python(*held); !usable) {
    return fail(usable.error().kind, usable.error().message + " (" + usable.error().hint + ")");
  }
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
  const std::string& shared = context.assignment.environments;
  const Status realised =
      shared.empty() ? realise_elsewhere(context, hash, env::Shelf(own_shelf(context.layout)))
                     : realise_here(context, hash, env::Shelf(shared));
  if (!realised && realised.error().kind == ErrorKind::cancelled) return {};
  if (realised) context.log.line("environment " + hash.substr(0, 6) + " is here");
  return realised;
}

}  // namespace trainyard::supervisor
