#include "cli/submission.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "base/text.h"
#include "base/variables.h"
#include "cli/console.h"
#include "cli/environment_options.h"
#include "cli/exit.h"
#include "cli/follow.h"
#include "cli/job_view.h"
#include "cli/machine.h"
#include "cli/progress.h"
#include "cli/snapshot_advice.h"
#include "client/blobs.h"
#include "snapshot/capture.h"
#include "wire/urls.h"

namespace trainyard::cli {
namespace {

constexpr int kTries = 5;  // Of a submission whose server goes away; its id makes them one.

bool goes_along(std::string_view name) {
  return name == "PATH" || name == "HOME" || name == "USER" || name == "LANG" ||
         name == "VIRTUAL_ENV" || name.starts_with("CONDA_") ||
         name == "TRAINYARD_CA_FILE";  // Whom to trust, where the server speaks TLS.
}

// Fails before the submission where -t could not be written after it.
Status check_metadata_file(const Args& args) {
  if (!args.has("output-metadata-file")) return {};
  const fs::path file = args.value("output-metadata-file");
  std::error_code ignored;
  const fs::path place = fs::exists(file, ignored) ? file
                         : file.has_parent_path()  ? file.parent_path()
                                                   : ".";
  if (fs::is_directory(file, ignored)) return fail(ErrorKind::invalid, "-t: it is a folder");
  if (access(place.c_str(), W_OK) != 0) return fail_errno(errno, "-t " + file.string());
  return {};
}

// The same for --download: the first folder above that is there must take what comes.
Status check_download(const Args& args) {
  if (!args.knows("download") || !args.has("download")) return {};
  const std::string given = args.value("download");
  if (given.empty()) return fail(ErrorKind::invalid, "--download: which folder?");
  std::error_code error;
  fs::path place = fs::absolute(given, error) / "outputs";
  while (!fs::exists(place, error) && place.has_relative_path()) place = place.parent_path();
  if (!fs::is_directory(place, error)) {
    return fail(ErrorKind::invalid,
                "--download " + given + ": " + place.string() + " is not a folder");
  }
  if (access(place.c_str(), W_OK) != 0) return fail_errno(errno, "--download " + given);
  return {};
}

// A machine without GPUs is no reason to refuse; one with GPUs that nobody asked for is worth a
// word.
Status check_gpus(Context& context, client::Api& api, RunSpec& spec) {
  if (spec.target != "local" || !spec.host.empty()) return {};
  TRY_SET(const Json targets, api.targets());
  int64_t gpus = 0;
  for (const Json& target : targets) {
    if (cell_of(target, "name") == spec.target) {
      TRY_SET(gpus, wire::int_member(target, "gpus"));
    }
  }
  if (spec.resources.gpus > 0 && gpus == 0) {
    context.warn("this machine has no GPU to give out: the run goes on without");
    spec.resources.gpus = 0;
  } else if (spec.resources.gpus == 0 && gpus > 0) {
    context.detail("this machine has " + std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs") +
                   "; the run sees none: ask with --gpus 1");
  }
  return {};
}

// Whether a run of ours may exist: what Ctrl-C has to say depends on it.
enum class Stage { uploading, submitting };

struct Sent {
  Json run;
  client::Uploaded uploaded;
};

// A folder that became a tree: the code, or what an image is built from.
struct Taken {
  fs::path folder;
  snapshot::Captured captured;
};

Result<client::Uploaded> upload(Context& context, client::Api& api, std::span<const Taken> folders,
                                std::string_view workspace) {
  client::Uploaded all;
  for (const Taken& taken : folders) {
    Progress progress(context.clock(), "upload", context.shows_progress());
    const auto show = [&](const client::Transfer& transfer) {
      progress.update(transfer.bytes_done, transfer.bytes_total);
    };
    TRY_SET(const client::Uploaded uploaded,
            client::upload_missing(api.http(), taken.folder, taken.captured, show, workspace));
    all.files += uploaded.files;
    all.bytes += uploaded.bytes;
  }
  return all;
}

// Asks first and uploads only when the server does not know the code: most often it does.
Result<Sent> send(Context& context, const RunId& id, const RunSpec& spec,
                  std::span<const Taken> folders, std::atomic<Stage>& stage) {
  Sent sent;
  for (int attempt = 1;; ++attempt) {
    TRY_SET(client::Api * api, attempt == 1 ? context.api() : context.reconnect());
    auto run = api->submit(id, spec);
    if (!run && run.error().kind == ErrorKind::not_found &&
        run.error().message.starts_with("snapshot")) {
      stage = Stage::uploading;
      const auto uploaded = upload(context, *api, folders, spec.workspace);
      stage = Stage::submitting;
      if (uploaded) {
        sent.uploaded.files += uploaded->files;
        sent.uploaded.bytes += uploaded->bytes;
        run = api->submit(id, spec);
      } else {
        run = std::unexpected(uploaded.error());
      }
    }
    if (run) {
      sent.run = *std::move(run);
      return sent;
    }
    if (run.error().kind != ErrorKind::unavailable || attempt == kTries) {
      return std::unexpected(run.error());
    }
  }
}

// A single file is a folder of that one file.
Result<snapshot::Captured> capture_file(const fs::path& file) {
  std::error_code ignored;
  if (fs::is_symlink(fs::symlink_status(file, ignored))) {
    return fail(ErrorKind::invalid, file.string() + ": a symbolic link cannot be a run's code",
                "Name the file it leads to, or the folder.");
  }
  const fs::perms modes = fs::status(file, ignored).permissions();
  TRY_SET(const std::string bytes, read_file(file));
  const bool program = (modes & fs::perms::owner_exec) != fs::perms::none;
  snapshot::Captured captured;
  captured.tree.entries = {
      {.kind = program ? snapshot::EntryKind::executable : snapshot::EntryKind::file,
       .path = file.filename().string(),
       .size = bytes.size(),
       .digest = sha256(bytes),
       .target = {}}};
  captured.text = snapshot::encode(captured.tree);
  captured.id = sha256(captured.text);
  return captured;
}

Result<snapshot::Captured> take_snapshot(Context& context, const fs::path& code,
                                         size_t ignored_max = 0) {
  std::error_code ignored;
  if (fs::is_regular_file(code, ignored)) return capture_file(code);
  TRY_SET(const Place place, context.place());
  snapshot::CaptureOptions options;
  options.excluded = {place.home.root()};
  options.cache = place.home.cache();
  if (place.remote()) TRY(make_dirs(options.cache, 0700));
  Progress progress(context.clock(), "read", context.shows_progress());
  options.listing = [&](uint64_t files) {
    progress.say("list  " + std::to_string(files) + " files");
  };
  options.progress = [&](uint64_t files, uint64_t bytes) {
    progress.say("read  " + std::to_string(files) + " files, " + format_size(bytes));
  };
  options.ignored_max = ignored_max;
  TRY_SET(snapshot::Captured captured, snapshot::capture(code, options));
  for (const std::string& warning : captured.warnings) context.warn(warning);
  return captured;
}

void say_submitted(const Context& context, const RunId& id, const RunSpec& spec,
                   const snapshot::Captured* captured, const client::Uploaded& uploaded) {
  context.say("run " + id.value + " · experiment " + spec.experiment + " · target " + spec.target);
  if (captured == nullptr) return;
  const size_t files = captured->tree.files();
  const std::string sent = uploaded.files == 0 ? "nothing new"
                                               : std::to_string(uploaded.files) + " new, " +
                                                     format_size(uploaded.bytes) + " sent";
  context.say("snapshot " + std::to_string(files) + (files == 1 ? " file, " : " files, ") +
              format_size(captured->tree.bytes()) + " (" + sent + ")");
}

// The server's refusal, with the line of the user's file that asked for it.
Error placed(Error error, const std::map<std::string, std::string>& places) {
  for (const char* key : {"target", "environment"}) {
    const auto place = places.find(key);
    if (place != places.end() && error.message.starts_with(std::string(key) + " '")) {
      return std::move(error).within(place->second);
    }
  }
  return error;
}

// The environment's name is looked up, its password sealed.
Status settle(Context& context, Submission& submission) {
  RunSpec& spec = submission.spec;
  dialects::EnvironmentDraft draft{.environment = spec.environment,
                                   .build = {},
                                   .password = std::exchange(submission.registry_password, {}),
                                   .description = {}};
  TRY(check_named(context, spec.workspace, draft.environment));
  TRY(settle_environment(context, spec.workspace, draft));
  spec.environment = std::move(draft.environment);
  return {};
}

// The code first, where there is any; then what an image is built from.
Result<std::vector<Taken>> take_folders(Context& context, Submission& submission) {
  std::vector<Taken> folders;
  if (submission.code) {
    TRY_SET(snapshot::Captured captured, take_snapshot(context, *submission.code));
    for (const std::string& line : snapshot_advice(captured)) context.warn(line);
    submission.spec.snapshot = captured.id.hex();
    std::error_code ignored;
    const bool file = fs::is_regular_file(*submission.code, ignored);
    folders.push_back(
        {file ? submission.code->parent_path() : *submission.code, std::move(captured)});
  }
  if (!submission.build.empty()) {
    TRY_SET(snapshot::Captured captured, take_snapshot(context, submission.build));
    submission.spec.environment.recipe.context = captured.id.hex();
    folders.push_back({submission.build, std::move(captured)});
  }
  return folders;
}

}  // namespace

std::map<std::string, std::string> submit_environment() {
  std::map<std::string, std::string> found = own_variables();
  std::erase_if(found, [](const auto& variable) { return !goes_along(variable.first); });
  return found;
}

Result<std::string> experiment_for(const Context& context, const fs::path& folder) {
  std::string name = context.args().value("experiment-name");
  if (!name.empty()) return name;
  TRY_SET(const Project project, find_project(folder));
  name = project.experiment;
  if (name.empty()) name = to_utf8(folder.filename().string());
  return name.empty() ? "default" : name;
}

std::string find_python() {
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path != nullptr ? path : "", ':')) {
    if (!folder.empty() && access((folder + "/python").c_str(), X_OK) == 0) return "python";
  }
  return "python3";
}

Status download_outputs(Context& context, const RunId& id, const fs::path& folder) {
  TRY_SET(client::Api * api, context.api());
  const fs::path into = folder / "outputs";
  TRY_SET(const snapshot::Tree tree, api->outputs(id));
  Progress progress(context.clock(), "download", context.shows_progress());
  const auto update = [&](const client::Transfer& transfer) {
    progress.update(transfer.bytes_done, transfer.bytes_total);
  };
  TRY(client::download_tree(api->http(), tree, folder, update, wire::run_url(id), "outputs"));
  context.say("outputs " + std::to_string(tree.files()) +
              (tree.files() == 1 ? " file, " : " files, ") + format_size(tree.bytes()) + " in " +
              into.string());
  return {};
}

Result<snapshot::Captured> capture_folder(Context& context, const fs::path& folder,
                                          size_t ignored_max) {
  return take_snapshot(context, folder, ignored_max);
}

// A whole machine's or account's files are seldom meant to be code.
Status check_code_folder(const Context& context, const fs::path& folder) {
  if (context.args().has("yes")) return {};
  const char* home = std::getenv("HOME");
  std::error_code ignored;
  const bool is_home = home != nullptr && *home != '\0' && fs::equivalent(folder, home, ignored);
  if (!is_home && !fs::equivalent(folder, "/", ignored)) return {};
  return fail(ErrorKind::invalid,
              folder.string() + " is " + (is_home ? "your home directory" : "the whole machine") +
                  ": all of it would become the run's code",
              "Go to the folder of your script, or say that you mean it with --yes.");
}

Result<SubmitOutcome> submit_run(Context& context, Submission submission, Then then) {
  const Args& args = context.args();
  RunSpec& spec = submission.spec;
  const RunId id = submission.id;
  TRY(check_spec(spec));
  if (submission.code) TRY(check_code_folder(context, *submission.code));
  TRY(check_metadata_file(args));
  TRY(check_download(args));
  TRY_SET(client::Api * api, context.api());
  TRY(settle_local(context, spec));
  if (spec.resources.gpus > 0 || args.has("verbose")) TRY(check_gpus(context, *api, spec));
  if (const Status good = settle(context, submission); !good) {
    return std::unexpected(placed(good.error(), submission.places));
  }
  TRY_SET(const std::vector<Taken> folders, take_folders(context, submission));

  // From here on the run may exist: Ctrl-C must say its name.
  std::atomic<Stage> stage = Stage::submitting;
  Interrupts interrupts(
      [&] {
        if (stage == Stage::submitting) return say_interrupted(context, id);
        context.insist("\nInterrupted; nothing was submitted.");
        _exit(kExitInterrupted);
      },
      [&] { context.interrupt(); });
  const auto sent = send(context, id, spec, folders, stage);
  if (!sent && interrupts.wish() != Wish::none) {
    return fail(ErrorKind::cancelled, "run " + id.value + ": interrupted while it was submitted",
                "Whether it was accepted is told by: trainyard run show " + id.value);
  }
  if (!sent) return std::unexpected(placed(sent.error(), submission.places));
  say_submitted(context, id, spec, submission.code ? &folders.front().captured : nullptr,
                sent->uploaded);
  SubmitOutcome outcome{sent->run, kExitOk};
  if (then == Then::nothing) return outcome;
  if (then == Then::print_id) {
    if (context.format_given()) {
      TRY(print_run(context, sent->run));
      return outcome;
    }
    if (args.has("output-metadata-file")) TRY(context.write_metadata(sent->run));
    TRY(write_output(STDOUT_FILENO, id.value + "\n"));
    return outcome;
  }
  if (args.has("output-metadata-file")) TRY(context.write_metadata(sent->run));
  FollowOptions options;
  options.ranks = rank_count(spec);
  options.version = sent->run.value("version", int64_t{0});
  TRY_SET(const Followed followed, follow_run(context, id, options, interrupts));
  Status fetched;
  if (followed.outcome == Outcome::ended && args.knows("download") && args.has("download")) {
    fetched = download_outputs(context, id, args.value("download"));
    // What came of the run is its own and is told all the same.
    if (!fetched) context.insist(trim(format_error(Error(fetched.error()).within("--download"))));
  }
  TRY_SET(outcome.code, finish_followed(context, id, followed));
  if (!fetched && outcome.code == kExitOk) outcome.code = exit_code(fetched.error().kind);
  return outcome;
}

}  // namespace trainyard::cli
