#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/console.h"
#include "cli/exit.h"
#include "cli/follow.h"
#include "cli/progress.h"
#include "cli/run_view.h"
#include "client/blobs.h"
#include "snapshot/capture.h"

extern char** environ;

namespace trainyard::cli {
namespace {

constexpr int kTries = 5;  // Of a submission whose server goes away; its id makes them one.

constexpr Option kOptions[] = {
    {"--experiment-name -e --experiment", Takes::value, "NAME",
     "The experiment; else the attached one, else the folder's name."},
    {"--target --ct --compute-target-name", Takes::value, "NAME", "Where to run; else local."},
    {"--cpus", Takes::value, "C", "CPUs it needs; else 1."},
    {"--mem", Takes::value, "SIZE", "Memory it needs: 512M, 4G."},
    {"--gpus", Takes::value, "G", "GPUs it needs; else 0."},
    {"--time", Takes::value, "LIMIT", "Stop it after 90, 15m, 2h, 1:30:00."},
    {"--nodes", Takes::value, "N", "Machines; else 1."},
    {"--processes-per-node", Takes::value, "P", "Ranks on each machine; else 1."},
    {"--distribution", Takes::value, "KIND", "pytorch or none: variables for ranks to meet by."},
    {"--env-var", Takes::value, "K=V", "A variable of the run; again for more."},
    {"--tag", Takes::value, "K=V", "A tag of the run; again for more."},
    {"--name", Takes::value, "TEXT", "What to call it; else its id."},
    {"--async --no-wait", Takes::nothing, "", "Print the run's id and do not wait."},
    {"--environment", Takes::value, "NAME", "", Since::later},
    {"--requirements", Takes::value, "FILE", "", Since::later},
    {"--conda", Takes::value, "FILE", "", Since::later},
    {"--image", Takes::value, "IMAGE", "", Since::later},
    {"--input", Takes::value, "SPEC", "", Since::later},
    {"--checkpoint", Takes::value, "DIR", "", Since::later},
    {"--priority", Takes::value, "PRIORITY", "", Since::later},
    {"--max-retries", Takes::value, "K", "", Since::later},
    {"--secret", Takes::value, "NAME", "", Since::later},
    {"--download", Takes::value, "DIR", "", Since::later},
};

// What a rank sees of the submitter's own variables; nothing else does.
bool goes_along(std::string_view name) {
  return name == "PATH" || name == "HOME" || name == "USER" || name == "LANG" ||
         name == "VIRTUAL_ENV" || name.starts_with("CONDA_");
}

std::map<std::string, std::string> submit_environment() {
  std::map<std::string, std::string> found;
  for (char** pair = environ; *pair != nullptr; ++pair) {
    const std::string_view text = *pair;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || !goes_along(text.substr(0, equals))) continue;
    found.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

Status check_distribution(const std::string& kind) {
  if (kind.empty() || kind == "none" || kind == "pytorch") return {};
  if (kind == "mpi" || kind == "tensorflow") {
    return fail(ErrorKind::invalid, "--distribution " + kind + " comes with a later version",
                "Here already: pytorch, none.");
  }
  return fail(ErrorKind::invalid, "--distribution " + kind + ": not known",
              "Kinds: pytorch, none.");
}

// A whole machine's or account's files are seldom meant to be code.
Status check_folder(const Context& context, const fs::path& folder) {
  if (context.args().has("yes")) return {};
  const char* home = std::getenv("HOME");
  std::error_code ignored;
  const bool is_home = home != nullptr && *home != '\0' && fs::equivalent(folder, home, ignored);
  if (!is_home && !fs::equivalent(folder, "/", ignored)) return {};
  return fail(ErrorKind::invalid,
              "the current folder is " + std::string(is_home ? "your home directory" : "/") +
                  ": all of it would become the run's code",
              "Go to the folder of your script, or say that you mean it with --yes.");
}

Status set_numbers(const Args& args, RunSpec& spec) {
  TRY_SET(const auto cpus, int_option(args, "cpus", 1));
  TRY_SET(const auto gpus, int_option(args, "gpus", 0));
  TRY_SET(const auto nodes, int_option(args, "nodes", 1));
  TRY_SET(const auto processes, int_option(args, "processes-per-node", 1));
  spec.resources.cpus = cpus.value_or(1);
  spec.resources.gpus = gpus.value_or(0);
  spec.nodes = nodes.value_or(1);
  spec.processes_per_node = processes.value_or(1);
  if (args.has("mem")) {
    TRY_SET(spec.resources.memory_bytes, parse_size(args.value("mem"), "--mem"));
  }
  if (args.has("time")) {
    TRY_SET(const seconds limit, parse_duration(args.value("time"), "--time"));
    if (limit <= seconds(0)) return fail(ErrorKind::invalid, "--time must be more than nothing");
    spec.time_limit_s = limit.count();
  }
  return {};
}

Result<RunSpec> make_spec(const Context& context, const fs::path& folder) {
  const Args& args = context.args();
  RunSpec spec;
  spec.command = args.rest();
  if (spec.command.empty()) {
    return fail(ErrorKind::invalid, "no command to run",
                "Put it after --, as in: trainyard submit -- python train.py");
  }
  TRY_SET(const Project project, find_project(folder));
  TRY_SET(spec.workspace, context.workspace());
  spec.experiment = args.value("experiment-name");
  if (spec.experiment.empty()) spec.experiment = project.experiment;
  if (spec.experiment.empty()) spec.experiment = to_utf8(folder.filename().string());
  if (spec.experiment.empty()) spec.experiment = "default";
  spec.display_name = args.value("name");
  spec.target = args.value("target", "local");
  spec.distribution = args.value("distribution");
  TRY(check_distribution(spec.distribution));
  TRY(set_numbers(args, spec));
  TRY_SET(spec.environment_variables, parse_pairs(args.values("env-var"), "--env-var"));
  TRY_SET(spec.tags, parse_pairs(args.values("tag"), "--tag"));
  spec.submit_environment = submit_environment();
  TRY(check_spec(spec));
  return spec;
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

// Whether a run of ours may exist: what Ctrl-C has to say depends on it.
enum class Stage { uploading, submitting };

struct Sent {
  Json run;
  client::Uploaded uploaded;
};

Result<client::Uploaded> upload(Context& context, client::Api& api, const fs::path& folder,
                                const snapshot::Captured& captured) {
  Progress progress(context.clock(), "upload", context.shows_progress());
  return client::upload_missing(api.http(), folder, captured,
                                [&](const client::Transfer& transfer) {
                                  progress.update(transfer.bytes_done, transfer.bytes_total);
                                });
}

// Asks first and uploads only when the server does not know the code: most often it does.
Result<Sent> send(Context& context, const RunId& id, const RunSpec& spec, const fs::path& folder,
                  const snapshot::Captured& captured, std::atomic<Stage>& stage) {
  Sent sent;
  for (int attempt = 1;; ++attempt) {
    TRY_SET(client::Api * api, attempt == 1 ? context.api() : context.reconnect());
    auto run = api->submit(id, spec);
    if (!run && run.error().kind == ErrorKind::not_found &&
        run.error().message.starts_with("snapshot")) {
      stage = Stage::uploading;
      const auto uploaded = upload(context, *api, folder, captured);
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

Result<snapshot::Captured> take_snapshot(Context& context, const fs::path& folder) {
  TRY_SET(const Place place, context.place());
  snapshot::CaptureOptions options;
  options.excluded = {place.home.root()};
  options.cache = place.home.cache();
  if (place.remote()) TRY(make_dirs(options.cache, 0700));
  Progress progress(context.clock(), "read", context.shows_progress());
  options.progress = [&](uint64_t, uint64_t bytes) { progress.update(bytes, 0); };
  TRY_SET(snapshot::Captured captured, snapshot::capture(folder, options));
  for (const std::string& warning : captured.warnings) context.warn(warning);
  return captured;
}

void say_submitted(const Context& context, const RunId& id, const RunSpec& spec,
                   const snapshot::Captured& captured, const client::Uploaded& uploaded) {
  context.say("run " + id.value + " · experiment " + spec.experiment + " · target " + spec.target);
  const size_t files = captured.tree.files();
  const std::string sent = uploaded.files == 0 ? "nothing new"
                                               : std::to_string(uploaded.files) + " new, " +
                                                     format_size(uploaded.bytes) + " sent";
  context.say("snapshot " + std::to_string(files) + (files == 1 ? " file, " : " files, ") +
              format_size(captured.tree.bytes()) + " (" + sent + ")");
}

}  // namespace

constinit const std::span<const Option> kSubmitOptions = kOptions;

Result<int> submit(Context& context) {
  const Args& args = context.args();
  TRY_SET(const fs::path folder, context.folder());
  TRY_SET(RunSpec spec, make_spec(context, folder));
  TRY(check_folder(context, folder));
  TRY(check_metadata_file(args));
  if (spec.resources.gpus > 0 && spec.target == "local") {
    context.warn("this machine has no GPU to give out: the run goes on without");
    spec.resources.gpus = 0;
  }
  TRY(context.api());
  TRY_SET(const snapshot::Captured captured, take_snapshot(context, folder));
  spec.snapshot = captured.id.hex();
  const RunId id = new_run_id();

  // From here on the run may exist: Ctrl-C must say its name.
  std::atomic<Stage> stage = Stage::submitting;
  Interrupts interrupts(
      [&] {
        if (stage == Stage::submitting) return say_interrupted(context, id);
        context.insist("\nInterrupted; nothing was submitted.");
        _exit(kExitInterrupted);
      },
      [&] { context.interrupt(); });
  const auto sent = send(context, id, spec, folder, captured, stage);
  if (!sent && interrupts.wish() != Wish::none) {
    return fail(ErrorKind::cancelled, "run " + id.value + ": interrupted while it was submitted",
                "Whether it was accepted is told by: trainyard run show " + id.value);
  }
  if (!sent) return std::unexpected(sent.error());
  say_submitted(context, id, spec, captured, sent->uploaded);
  if (args.has("async")) {
    if (context.format_given()) {
      TRY(context.print(sent->run, run_details_view(context)));
      return kExitOk;
    }
    if (args.has("output-metadata-file")) TRY(context.write_metadata(sent->run));
    TRY(write_output(STDOUT_FILENO, id.value + "\n"));
    return kExitOk;
  }
  if (args.has("output-metadata-file")) TRY(context.write_metadata(sent->run));
  FollowOptions options;
  options.ranks = rank_count(spec);
  options.version = sent->run.value("version", int64_t{0});
  TRY_SET(const Followed followed, follow_run(context, id, options, interrupts));
  return finish_followed(context, id, followed);
}

}  // namespace trainyard::cli
