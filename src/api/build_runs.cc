#include "api/build_runs.h"

#include "base/hash.h"
#include "base/id.h"
#include "base/text.h"
#include "store/environments.h"
#include "store/workspaces.h"
#include "wire/json.h"

namespace trainyard::api {
namespace {

constexpr milliseconds kBuildLook{250};
constexpr size_t kBuildPiece = 64 * 1024;
constexpr size_t kErrorMax = 16 * 1024;  // Of what is kept to say why it failed.
constexpr uint64_t kRealisedMax = 64 << 20;
constexpr std::string_view kErrorStart = "error: ";
constexpr std::string_view kProgressStart = "# ";
constexpr std::string_view kBuildRoot = "root/";
constexpr const char* kBuilder = "trainyard";

// The console of a build as its watcher hears it.
class BuildConsole {
 public:
  BuildConsole(logs::LogStore& logs, RunId run, env::Watcher& watcher)
      : logs_(logs), run_(std::move(run)), watcher_(watcher) {}

  // What is new.
  Status read() {
    for (;;) {
      TRY_SET(const logs::Read read, logs_.read(run_, 0, logs::View::both, next_, kBuildPiece));
      if (read.bytes.empty()) return {};
      next_ = read.next;
      rest_ += read.bytes;
      size_t begin = 0;
      for (size_t end = 0; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
        take(std::string_view(rest_).substr(begin, end - begin));
      }
      rest_.erase(0, begin);
    }
  }
  bool begun() const { return next_ > 0; }
  // From its last "error: " on; empty: it said none.
  const std::string& error() const { return error_; }

 private:
  void take(std::string_view line) {
    if (line.starts_with(kProgressStart)) {
      return watcher_.progress(line.substr(kProgressStart.size()));
    }
    watcher_.line(line);
    if (line.starts_with(kErrorStart)) {
      error_ = line.substr(kErrorStart.size());
    } else if (!error_.empty() && error_.size() < kErrorMax) {
      error_ += "\n" + std::string(line);
    }
  }

  logs::LogStore& logs_;
  const RunId run_;
  env::Watcher& watcher_;
  uint64_t next_ = 0;
  std::string rest_;
  std::string error_;
};

std::unexpected<Error> not_built(const Run& run, const std::string& said) {
  const std::string hint = "It was built by run " + run.id.value +
                           "; all it printed: trainyard run logs " + run.id.value;
  if (run.life.status == RunStatus::canceled) {
    return fail(ErrorKind::conflict,
                "run " + run.id.value + ", which was to build it, was stopped: " + run.life.error);
  }
  return fail(ErrorKind::invalid, said.empty() ? run.life.error : said, hint);
}

}  // namespace

Result<std::optional<Environments::Made>> BuildRuns::build(const Environments::Wanted& wanted,
                                                           env::Watcher& watcher) {
  using Made = std::optional<Environments::Made>;
  TRY_SET(const Workspace workspace, parts_.store.workspace(wanted.workspace));
  const std::string& target = workspace.image_build_compute;
  if (target.empty()) return Made();
  const std::string& hash = wanted.environment.hash;
  TRY_SET(std::optional<RunId> id, find(hash));
  if (id) {
    watcher.line("built by run " + id->value);
    TRY_SET(const Run run, wait_for(*id, watcher));
    auto made = take(run, hash);
    if (made) return Made(*std::move(made));
    parts_.log.warn("a built environment is gone",
                    {{"run", id->value}, {"error", made.error().message}});
  }
  TRY_SET(id, submit(wanted, target));
  watcher.line("built by run " + id->value + " on " + target);
  TRY_SET(const Run run, wait_for(*id, watcher));
  TRY_SET(Environments::Made made, take(run, hash));
  return Made(std::move(made));
}

// One that is under way, or has done it.
Result<std::optional<RunId>> BuildRuns::find(const std::string& hash) {
  std::optional<RunId> found;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(found, store::build_run(db, hash));
    return {};
  };
  TRY(parts_.store.read(look));
  if (!found) return found;
  const Result<Run> run = parts_.store.run(*found);
  const bool good = run && (!is_final(run->life.status) ||
                            (run->life.status == RunStatus::completed && !run->outputs.empty()));
  return good ? found : std::optional<RunId>();
}

Result<RunId> BuildRuns::submit(const Environments::Wanted& wanted, const std::string& target) {
  const Environment& environment = wanted.environment;
  control::Submission submission{.id = new_run_id(), .spec = {}, .user = wanted.user};
  if (submission.user.empty()) submission.user = kBuilder;
  RunSpec& spec = submission.spec;
  spec.workspace = wanted.workspace;
  spec.experiment = "environments";
  spec.display_name = "environment " + short_hash(environment.hash);
  spec.description = "Builds an environment for runs that wait for it.";
  spec.target = target;
  spec.form = CommandForm::shell;
  spec.command = {"exec \"$TRAINYARD_PROGRAM\" realise environment.json outputs"};
  spec.tags = {{"environment", environment.hash}};
  if (!environment.registry.secret.empty()) spec.secrets = {environment.registry.secret};
  TRY_SET(spec.snapshot, make_snapshot(environment));
  // Before the run: one that nobody knows of would be built for nobody.
  const auto note = [&](db::Transaction& transaction) {
    return store::set_build_run(transaction, environment.hash, submission.id);
  };
  TRY(parts_.store.write(Durable::yes, note));
  const auto submitted = parts_.control.submit(submission);
  if (!submitted) {
    Error error = submitted.error();
    error.message = "it is to be built on compute " + target + ": " + error.message;
    error.hint = "Name another with: trainyard workspace update -n " + wanted.workspace +
                 " --image-build-compute NAME";
    return std::unexpected(std::move(error));
  }
  return submission.id;
}

// What the build reads: the recipe, and the folder of a Dockerfile.
Result<std::string> BuildRuns::make_snapshot(const Environment& environment) {
  snapshot::Tree tree;
  if (!environment.recipe.context.empty()) {
    TRY_SET(const auto context, parts_.trees.tree(environment.recipe.context));
    for (snapshot::Entry entry : context->entries) {
      entry.path = "context/" + entry.path;
      tree.entries.push_back(std::move(entry));
    }
  }
  const std::string recipe = wire::dump(wire::encode(environment)) + "\n";
  snapshot::Entry file{.path = "environment.json", .size = recipe.size(), .digest = sha256(recipe)};
  TRY(parts_.blobs.put(file.digest, recipe));
  tree.entries.push_back(std::move(file));
  TRY(snapshot::check(tree));
  const std::string text = snapshot::encode(tree);
  const Digest id = sha256(text);
  TRY(parts_.blobs.put(id, text));
  return id.hex();
}

Result<Run> BuildRuns::wait_for(const RunId& id, env::Watcher& watcher) {
  BuildConsole console(parts_.logs, id, watcher);
  for (;;) {
    // The state first: when it is final, what is read after it is all there will be.
    TRY_SET(Run run, parts_.control.run(id));
    TRY(console.read());
    if (run.life.status == RunStatus::completed) return run;
    if (is_final(run.life.status)) return not_built(run, console.error());
    if (!console.begun() && !run.reason.empty()) {
      watcher.progress("run " + id.value + " " + run.reason);
    }
    if (watcher.stopped()) {
      // Nobody waits for it any more; or only we go, and find it when we are back.
      if (!parts_.stopping()) {
        static_cast<void>(parts_.control.cancel(id, kBuilder).has_value());
      }
      return fail(ErrorKind::cancelled, "nobody waits for it any more");
    }
    parts_.clock.sleep_until(parts_.clock.steady() + kBuildLook, {});
  }
}

Result<Environments::Made> BuildRuns::take(const Run& run, const std::string& hash) {
  const std::string whose = "run " + run.id.value + " ";
  if (run.outputs.empty()) return fail(ErrorKind::not_found, whose + "has put nothing out");
  TRY_SET(const auto outputs, parts_.trees.tree(run.outputs));
  const snapshot::Entry* about = find_entry(*outputs, "environment.json");
  if (about == nullptr || about->size > kRealisedMax) {
    return fail(ErrorKind::not_found, whose + "has put no environment out");
  }
  TRY_SET(const Fd fd, parts_.blobs.open(about->digest));
  TRY_SET(const std::string text, read_at(fd.get(), 0, about->size, "environment.json"));
  TRY_SET(const wire::Json json, wire::parse(text));
  Environments::Made made;
  TRY_SET(made.realised, wire::decode_realised(json));
  if (made.realised.hash != hash) {
    return fail(ErrorKind::internal, whose + "has built another environment");
  }
  for (snapshot::Entry entry : outputs->entries) {
    if (!entry.path.starts_with(kBuildRoot)) continue;
    const bool bytes =
        entry.kind == snapshot::EntryKind::file || entry.kind == snapshot::EntryKind::executable;
    if (bytes && !parts_.blobs.has(entry.digest)) {
      return fail(ErrorKind::not_found, "the bytes of " + entry.path + " are not here");
    }
    entry.path.erase(0, kBuildRoot.size());
    made.tree.entries.push_back(std::move(entry));
  }
  if (made.tree.entries.empty()) return fail(ErrorKind::not_found, whose + "has put no files out");
  const std::string list = snapshot::encode(made.tree);
  const Digest id = sha256(list);
  TRY(parts_.blobs.put(id, list));
  TRY(parts_.blobs.sync());
  made.realised.tree = id.hex();
  return made;
}

}  // namespace trainyard::api
