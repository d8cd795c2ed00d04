#include "api/environments.h"

#include <fcntl.h>

#include <algorithm>

#include "base/hash.h"
#include "base/text.h"
#include "container/unpack.h"
#include "env/compile.h"
#include "env/sandbox.h"
#include "env/settle_conda.h"
#include "snapshot/capture.h"

namespace trainyard::api {
namespace {

constexpr int kBuildsAtATime = 2;
constexpr size_t kLogMax = 16 << 20;  // A build that prints more is cut there.
constexpr uint64_t kPiece = 1 << 20;
constexpr seconds kPatience{60};         // Of a job that nobody asks for any more.
constexpr seconds kPatienceAhead{3600};  // Of one for a run that waits for its turn.

constexpr std::pair<Environments::Need, std::string_view> kNeeds[] = {
    {Environments::Need::made, "made"},
    {Environments::Need::root, "root"},
    {Environments::Need::tree, "tree"},
};

Status keep_file(blob::Store& blobs, const fs::path& path, const snapshot::Entry& entry) {
  TRY_SET(const std::unique_ptr<blob::Writer> writer, blobs.create());
  TRY_SET(const Fd from, open_file(path, O_RDONLY));
  for (uint64_t at = 0; at < entry.size; at += kPiece) {
    const uint64_t size = std::min<uint64_t>(kPiece, entry.size - at);
    TRY_SET(const std::string bytes, read_at(from.get(), at, size, path.string()));
    TRY(writer->write(bytes));
  }
  return writer->keep(entry.digest);
}

fs::path rebuild_file(const fs::path& shelf, std::string_view workspace, const std::string& hash) {
  return shelf / "rebuilds" / sha256(std::string(workspace) + "\n" + hash).hex();
}

std::string key_of(const Environments::Wanted& wanted) {
  return std::string(to_string(wanted.need)) + " " + wanted.environment.hash;
}

}  // namespace

// One environment on its way.
class Environments::Job final : public env::Watcher {
 public:
  Job(Wanted of, int64_t number, const Parts& parts, const std::atomic<bool>& stopping)
      : wanted(std::move(of)), number_(number), parts_(parts), stopping_(stopping) {}

  void line(std::string_view text) override {
    {
      std::lock_guard lock(mutex_);
      if (log_.size() + text.size() < kLogMax) log_.append(text).append("\n");
    }
    tell();
  }
  void progress(std::string_view words) override {
    {
      std::lock_guard lock(mutex_);
      progress_ = words;
    }
    tell();
  }
  bool stopped() const override {
    if (stopping_) return true;
    std::lock_guard lock(mutex_);
    const SteadyTime now = parts_.clock.steady();
    if (given_up_ && (!person_ || now - *person_ > kPatience)) return true;
    return now - asked_ > (wanted.ahead ? kPatienceAhead : kPatience);
  }

  void end(Result<Realised> result) {
    {
      std::lock_guard lock(mutex_);
      is_ = result ? Stand::Is::ready : Stand::Is::failed;
      if (result) {
        realised_ = *std::move(result);
      } else {
        error_ = result.error();
      }
    }
    tell();
  }

  // Whoever waits asks again and again; a job that nobody asks for any more is given up.
  enum class Asker { person, run, looks };
  Stand stand(uint64_t log_from, Asker asker) {
    std::lock_guard lock(mutex_);
    if (asker != Asker::looks) asked_ = parts_.clock.steady();
    if (asker == Asker::person) person_ = asked_;
    const size_t from = std::min<size_t>(log_from, log_.size());
    return {.is = is_,
            .progress = progress_,
            .log = log_.substr(from),
            .log_next = log_.size(),
            .build = number_,
            .error = error_,
            .realised = realised_};
  }
  void give_up(bool yes) {
    std::lock_guard lock(mutex_);
    given_up_ = yes;
  }
  bool is_given_up() const {
    std::lock_guard lock(mutex_);
    return given_up_;
  }
  std::string log() {
    std::lock_guard lock(mutex_);
    return log_;
  }

  const Wanted wanted;
  std::jthread thread;

 private:
  void tell() {
    if (parts_.changed) parts_.changed(wanted.environment.hash);
  }

  const int64_t number_;
  const Parts& parts_;
  const std::atomic<bool>& stopping_;
  mutable std::mutex mutex_;
  SteadyTime asked_ = parts_.clock.steady();
  std::optional<SteadyTime> person_;  // When a person last asked; none: only runs did.
  bool given_up_ = false;             // By the last run that wanted it.
  Stand::Is is_ = Stand::Is::building;
  std::string log_;
  std::string progress_;
  Error error_;
  Realised realised_;
};

Environments::Environments(Parts parts)
    : parts_(std::move(parts)),
      shelf_(parts_.folder),
      images_(parts_.clock, parts_.settings),
      turns_(kBuildsAtATime) {}

Environments::~Environments() {
  stopping_ = true;
  // Each ends its programs and goes; none looks at the map.
  std::lock_guard lock(mutex_);
  jobs_.clear();
}

// On the shelf, and of use: an engine's image is others' to remove too.
Result<std::optional<env::Shelf::Held>> Environments::find(const Wanted& wanted) {
  using enum env::EngineImages::Answer;
  TRY_SET(auto held, shelf_.find(wanted.environment.hash));
  if (!held) return held;
  const auto answer = wanted.begins && !wanted.ahead ? now : lately;
  if (images_.has(held->realised, held->folder, answer)) return held;
  parts_.log.info("the engine has lost an image", {{"hash", wanted.environment.hash}});
  const Realised useless = std::exchange(held, std::nullopt)->realised;
  TRY(shelf_.discard(useless));
  return held;
}

Result<Environments::Stand> Environments::stand(const Wanted& wanted) {
  const std::string key = key_of(wanted);
  const Job::Asker asker = wanted.for_run ? Job::Asker::run : Job::Asker::person;
  std::shared_ptr<Job> job;
  {
    std::lock_guard lock(mutex_);
    const auto found = jobs_.find(key);
    if (found != jobs_.end()) job = found->second;
  }
  if (job) {
    if (wanted.begins) job->give_up(false);  // One more wants it.
    Stand stand = job->stand(wanted.log_from, asker);
    // One that was given up may have ended after another run came for it.
    const bool stopped = stand.error.kind == ErrorKind::cancelled && !job->is_given_up();
    const bool again = stand.is == Stand::Is::failed && (wanted.begins || stopped);
    // One that was made may have gone from the shelf again.
    if (stand.is == Stand::Is::building || (!again && stand.is == Stand::Is::failed)) return stand;
    if (!wanted.begins && wanted.log_from < stand.log_next) return stand;
  }
  TRY_SET(const auto held, find(wanted));
  const bool enough =
      held && (wanted.need != Need::tree || !held->realised.tree.empty()) &&
      (wanted.need != Need::root || held->realised.kind != EnvironmentKind::container ||
       fs::exists(held->folder / "root"));
  if (enough) {
    TRY(replace(wanted));
    return Stand{.is = Stand::Is::ready, .realised = held->realised};
  }
  std::lock_guard lock(mutex_);
  auto& slot = jobs_[key];
  if (slot && slot != job) return slot->stand(wanted.log_from, asker);  // Another was quicker.
  slot = std::make_shared<Job>(wanted, ++builds_, parts_, stopping_);
  Job& begun = *slot;
  begun.thread = std::jthread([this, &begun, number = builds_.load()] {
    Result<Realised> made = make(begun);
    if (made) {
      if (Status replaced = replace(begun.wanted); !replaced) {
        made = std::unexpected(std::move(replaced).error());
      }
    }
    if (!made) {
      parts_.log.warn("environment not made",
                      {{"hash", begun.wanted.environment.hash}, {"error", made.error().message}});
    }
    begun.end(std::move(made));
    {
      // Never the one that is waited for, though it alone be more than may be kept.
      const auto waited_for = shelf_.find(begun.wanted.environment.hash);
      if (waited_for && *waited_for) compile(begun.wanted.environment, **waited_for);
      trim();
    }
    if (builds_ != number) trim();  // A later one may have found this one being compiled.
  });
  return begun.stand(0, asker);
}

Result<Realised> Environments::make(Job& job) {
  if (job.wanted.need == Need::tree && parts_.build_elsewhere) {
    TRY_SET(std::optional<Realised> made, make_elsewhere(job));
    if (made) return *std::move(made);
  }
  turns_.acquire();
  Result<Realised> made =
      stopping_ ? fail(ErrorKind::cancelled, "the server is stopping") : carry_out(job, job.wanted);
  turns_.release();
  return made;
}

// It takes no turn of ours, and is on our shelf as if it had been made here.
Result<std::optional<Realised>> Environments::make_elsewhere(Job& job) {
  using Nothing = std::optional<Realised>;
  const std::string& hash = job.wanted.environment.hash;
  TRY_SET(const auto here, shelf_.find(hash));
  if (here) return Nothing();  // It is only to be packed.
  Wanted wanted = job.wanted;
  if (wanted.environment.lock.empty()) wanted.environment.lock = kept_lock(wanted.environment);
  TRY_SET(const std::optional<Made> made, parts_.build_elsewhere(wanted, job));
  if (!made) return Nothing();
  job.progress("is being fetched");
  const auto take = [&](const fs::path& folder) -> Result<Realised> {
    TRY(snapshot::checkout(made->tree, folder / "root", [&](const snapshot::Entry& entry) {
      return parts_.blobs.open(entry.digest);
    }));
    if (made->realised.kind == EnvironmentKind::conda) {
      TRY(env::settle_conda(folder / "root", shelf_.place(hash) / "root"));
    }
    keep_lock(made->realised, wanted.environment);
    TRY(write_file(folder / "log.txt", job.log(), 0600));
    return made->realised;
  };
  TRY_SET(const env::Shelf::Held held, shelf_.make(hash, take));
  // Another may have made it here meanwhile.
  TRY_SET(Realised packed, make_tree(job, held));
  return std::optional<Realised>(std::move(packed));
}

Result<Realised> Environments::carry_out(Job& job, const Wanted& wanted) {
  env::Settings settings = parts_.settings;
  const ImageRegistry& registry = wanted.environment.registry;
  if (!registry.secret.empty() && parts_.secret) {
    TRY_SET(settings.registry_password, parts_.secret(wanted.workspace, registry.secret));
  }
  const auto make = [&](const fs::path& folder) -> Result<Realised> {
    add_sandbox(settings, wanted, job);
    job.line("environment " + short_hash(wanted.environment.hash) + " (" +
             std::string(to_string(wanted.environment.recipe.kind)) + ") is being made");
    for (const std::string& line : wanted.environment.left_out) {
      job.line("left out, as Trainyard provides it: " + line);
    }
    Environment environment = wanted.environment;
    if (environment.lock.empty()) environment.lock = kept_lock(environment);
    TRY_SET(Realised realised, parts_.build(environment, folder, settings, job));
    realised.left_out = wanted.environment.left_out;
    keep_lock(realised, wanted.environment);
    TRY(write_file(folder / "log.txt", job.log(), 0600));
    return realised;
  };
  TRY_SET(const env::Shelf::Held held, shelf_.make(wanted.environment.hash, make));
  if (wanted.need != Need::made) TRY(make_root(job, held, settings));
  if (wanted.need == Need::tree) {
    compile(wanted.environment, held);  // They travel with it.
    return make_tree(job, held);
  }
  return held.realised;
}

void Environments::compile(const Environment& environment, const env::Shelf::Held& held) {
  class Quiet final : public env::Watcher {
   public:
    explicit Quiet(const std::atomic<bool>& stopping) : stopping_(stopping) {}
    void line(std::string_view) override {}
    void progress(std::string_view) override {}
    bool stopped() const override { return stopping_; }

   private:
    const std::atomic<bool>& stopping_;
  };
  env::Settings settings = parts_.settings;
  {
    std::lock_guard lock(sandbox_mutex_);
    settings.sandbox = sandbox_;
  }
  const Status done = env::compile_modules(environment, held.folder, settings, Quiet(stopping_));
  if (!done && !stopping_) {
    parts_.log.warn("modules not compiled",
                    {{"hash", environment.hash}, {"error", done.error().message}});
  }
}

void Environments::add_sandbox(env::Settings& settings, const Wanted& wanted, Job& job) {
  if (!parts_.sandbox) return;
  std::lock_guard lock(sandbox_mutex_);
  Error why;
  if (!sandbox_) {
    Result<env::Sandbox> opened = parts_.sandbox();
    if (opened) {
      sandbox_ = *std::move(opened);
    } else {
      why = opened.error();
    }
  }
  settings.sandbox = sandbox_;
  if (sandbox_) return;
  if (parts_.trusts && parts_.trusts(wanted.user)) {
    job.line("There is no sandbox for builds (" + why.message +
             "): an admin asks, so it is built as the server's account.");
    return;
  }
  settings.refusal = Error{
      ErrorKind::denied,
      "only an admin's environments are built on this server, since builds have no sandbox: " +
          why.message,
      "An admin may build it: trainyard environment build. Or make a sandbox possible: " +
          why.hint};
}

// What was made once is made the same again, though it was taken away meanwhile: exact versions
// stay.
std::vector<std::string> Environments::kept_lock(const Environment& environment) const {
  if (environment.recipe.kind != EnvironmentKind::venv) return {};
  const Result<std::string> text = read_file(parts_.folder / "locks" / environment.hash);
  std::vector<std::string> lines;
  for (const std::string& line : split(text.value_or(""), '\n')) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

void Environments::keep_lock(const Realised& realised, const Environment& environment) const {
  if (environment.recipe.kind != EnvironmentKind::venv) return;
  const fs::path folder = parts_.folder / "locks";
  const Status made = make_dirs(folder, 0700);
  const Status kept = made ? write_file(folder / environment.hash, join(realised.lock, "\n") + "\n",
                                        0600, Durable::yes)
                           : made;
  if (!kept) parts_.log.warn("lock not kept", {{"error", kept.error().message}});
}

std::string Environments::rebuild_of(std::string_view workspace, const std::string& hash) const {
  return read_file(rebuild_file(parts_.folder, workspace, hash)).value_or("");
}

// In one file: a rebuild that fails, or is killed half-way, leaves the environment before it in
// use. Runs that have that one go on with it.
Status Environments::replace(const Wanted& wanted) const {
  if (wanted.replaces.empty()) return {};
  const fs::path file = rebuild_file(parts_.folder, wanted.workspace, wanted.replaces);
  TRY(make_dirs(file.parent_path(), 0700));
  return write_file(file, wanted.environment.recipe.rebuild, 0600, Durable::yes);
}

// An engine keeps images in its own way; who has none needs their files.
Status Environments::make_root(Job& job, const env::Shelf::Held& held,
                               const env::Settings& settings) {
  std::lock_guard lock(roots_);
  const fs::path root = held.folder / "root";
  if (held.realised.kind != EnvironmentKind::container || fs::exists(root)) return {};
  TRY_SET(const container::EngineAddress address,
          container::find_engine(settings.engine_socket, settings.variables));
  container::EngineApi engine(address);
  container::UnpackOptions options;
  options.line = [&](std::string_view text) { job.line(text); };
  options.progress = [&](std::string_view words) { job.progress(words); };
  options.stopped = [&] { return job.stopped(); };
  TRY(container::unpack_from_engine(engine, held.realised.image, root, options));
  return {};
}

// Every file as a blob. What another environment has too is there already.
Result<Realised> Environments::make_tree(Job& job, const env::Shelf::Held& held) {
  if (!held.realised.tree.empty()) return held.realised;
  job.progress("is being packed for nodes");
  const fs::path root = held.folder / "root";
  if (!env::is_folder_inside(held.folder, root)) {
    return fail(ErrorKind::invalid, "the build has left no folder root");
  }
  TRY_SET(const snapshot::Captured captured,
          snapshot::capture(root, {.code = false, .excluded = {}, .cache = {}, .progress = {}}));
  for (const snapshot::Entry& entry : captured.tree.entries) {
    if (stopping_) return fail(ErrorKind::cancelled, "the server is stopping");
    const bool file =
        entry.kind == snapshot::EntryKind::file || entry.kind == snapshot::EntryKind::executable;
    if (!file || parts_.blobs.has(entry.digest)) continue;
    TRY(keep_file(parts_.blobs, root / entry.path, entry));
  }
  TRY(parts_.blobs.put(captured.id, captured.text));
  TRY(parts_.blobs.sync());
  Realised realised = held.realised;
  realised.tree = captured.id.hex();
  TRY(shelf_.update(held, realised));
  job.line("packed for nodes: " + std::to_string(captured.tree.files()) + " files, " +
           format_size(captured.tree.bytes()));
  return realised;
}

void Environments::give_up(const std::string& hash) {
  std::lock_guard lock(mutex_);
  for (const auto& [need, name] : kNeeds) {
    const auto found = jobs_.find(std::string(name) + " " + hash);
    if (found != jobs_.end()) found->second->give_up(true);
  }
}

bool Environments::is_packed(const Environment& environment) const {
  const auto held = shelf_.find(environment.hash);
  return held && *held && !(*held)->realised.tree.empty();
}

std::string Environments::words(const Environment& environment) {
  if (environment.hash.empty()) return {};
  std::lock_guard lock(mutex_);
  for (const auto& [need, name] : kNeeds) {
    const auto found = jobs_.find(std::string(name) + " " + environment.hash);
    if (found == jobs_.end()) continue;
    const Stand stand = found->second->stand(UINT64_MAX, Job::Asker::looks);
    if (stand.is != Stand::Is::building) continue;
    return "environment " + short_hash(environment.hash) + " is being built" +
           (stand.progress.empty() ? "" : ": " + stand.progress);
  }
  return {};
}

Result<std::string> Environments::platform(const Recipe& recipe) const {
  return env::platform_of(recipe, parts_.settings);
}

std::string Environments::tree_of(const std::string& hash) const {
  const auto held = shelf_.find(hash);
  return held && *held ? (*held)->realised.tree : std::string();
}

Result<std::vector<std::string>> Environments::trees() const {
  TRY_SET(const std::vector<env::Shelf::Kept> all, shelf_.all());
  std::vector<std::string> trees;
  for (const env::Shelf::Kept& kept : all) {
    if (!kept.realised.tree.empty()) trees.push_back(kept.realised.tree);
  }
  return trees;
}

env::Shelf::Trimmed Environments::remove_idle(
    WallTime before, const std::function<bool(const std::string& hash)>& unused, bool dry_run) {
  env::Shelf::Trimmed removed;
  const auto all = shelf_.all();
  if (!all) {
    parts_.log.warn("environments not listed", {{"error", all.error().message}});
    return removed;
  }
  const auto leaves = [this](const Realised& realised) { images_.forget(realised); };
  for (const env::Shelf::Kept& kept : *all) {
    if (kept.used >= before || !unused(kept.realised.hash)) continue;
    const Result<bool> gone = dry_run ? true : shelf_.discard(kept.realised, leaves);
    if (!gone) parts_.log.warn("environment not removed", {{"error", gone.error().message}});
    if (!gone || !*gone) continue;
    removed.environments += 1;
    removed.bytes += kept.realised.bytes;
  }
  return removed;
}

void Environments::trim() {
  // Also without a limit: what was left half-made goes, and what is new is synced.
  const uint64_t most = parts_.bytes_max == 0 ? UINT64_MAX : parts_.bytes_max;
  const auto leaves = [this](const Realised& realised) { images_.forget(realised); };
  const Result<env::Shelf::Trimmed> trimmed = shelf_.trim(most, leaves);
  if (!trimmed) {
    parts_.log.warn("environments not trimmed", {{"error", trimmed.error().message}});
  } else if (trimmed->environments > 0) {
    parts_.log.info("environments trimmed",
                    {{"count", trimmed->environments}, {"bytes", format_size(trimmed->bytes)}});
  }
}

std::string_view to_string(Environments::Need need) {
  for (const auto& [known, name] : kNeeds) {
    if (known == need) return name;
  }
  return "made";
}

Result<Environments::Need> need_from(std::string_view name) {
  for (const auto& [need, known] : kNeeds) {
    if (known == name) return need;
  }
  return fail(ErrorKind::invalid, "need: must be made, root or tree");
}

std::string short_hash(std::string_view hash) { return std::string(hash.substr(0, 6)); }

}  // namespace trainyard::api
