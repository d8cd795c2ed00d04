#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/progress.h"
#include "client/blobs.h"
#include "wire/urls.h"

namespace trainyard::cli {
namespace {

constexpr Option kJobDownloadRows[] = {
    {"--all", Takes::nothing, "", "The logs and every named output too."},
    {"--output-name", Takes::value, "OUTPUT",
     "Only this one of the outputs that the job file names."},
    {"--download-path -p", Takes::value, "DIR", "Where to put it; else the current folder."},
};

constexpr std::string_view kOutputs = "outputs/";  // Where a run's tree of outputs lies.

// The part of the outputs that one named output is: a folder ("outputs/model/") or a file.
snapshot::Tree part_of(const snapshot::Tree& tree, std::string_view path) {
  if (path.starts_with(kOutputs)) path.remove_prefix(kOutputs.size());
  snapshot::Tree part;
  for (const snapshot::Entry& entry : tree.entries) {
    const bool inside = path.ends_with('/') && entry.path.starts_with(path);
    if (!inside && entry.path != path) continue;
    part.entries.push_back(entry);
    if (inside) part.entries.back().path.erase(0, path.size());
  }
  return part;
}

class Download {
 public:
  Download(Context& context, client::Api& api, RunId id, fs::path folder)
      : context_(context), api_(api), id_(std::move(id)), folder_(std::move(folder)) {}

  Status fetch(const snapshot::Tree& tree, const std::string& below) {
    Progress progress(context_.clock(), "download", context_.shows_progress());
    const auto update = [&](const client::Transfer& transfer) {
      progress.update(transfer.bytes_done, transfer.bytes_total);
    };
    TRY(client::download_tree(api_.http(), tree, folder_, update, wire::run_url(id_), below));
    add({tree.files(), tree.bytes()});
    return {};
  }

  Status fetch_logs_below(const std::string& below) {
    TRY_SET(const Fetched logs, fetch_logs(context_, id_, folder_, below));
    add(logs);
    return {};
  }

  Status finish() {
    context_.say("downloaded " + std::to_string(all_.files) +
                 (all_.files == 1 ? " file, " : " files, ") + format_size(all_.bytes) + " to " +
                 folder_.string());
    if (!context_.format_given()) return {};
    const Json done = {{"folder", folder_.string()}, {"files", all_.files}, {"bytes", all_.bytes}};
    return context_.print(done, {.table = [](const Json& value) {
                            static constexpr std::string_view kKeys[] = {"folder", "files",
                                                                         "bytes"};
                            return plain_table(value, kKeys);
                          }});
  }

 private:
  void add(const Fetched& more) {
    all_.files += more.files;
    all_.bytes += more.bytes;
  }

  Context& context_;
  client::Api& api_;
  RunId id_;
  fs::path folder_;
  Fetched all_;
};

std::vector<std::string> names_of(const Json& outputs) {
  std::vector<std::string> names;
  for (const auto& [name, path] : outputs.items()) names.push_back(name);
  return names;
}

std::unexpected<Error> no_output(const RunId& id, const std::string& name, const Json& outputs) {
  const std::vector<std::string> names = names_of(outputs);
  const std::string near = nearest(name, names);
  return fail(ErrorKind::not_found, "job " + id.value + ": no output '" + name + "'",
              (near.empty() ? "" : "Did you mean '" + near + "'? ") +
                  (names.empty() ? "It names none; without --output-name its outputs/ is fetched."
                                 : "It has: " + join(names, ", ") + "."));
}

}  // namespace

constinit const std::span<const Option> kJobDownloadOptions = kJobDownloadRows;

Result<int> job_download(Context& context) {
  const Args& args = context.args();
  const std::string wanted = args.value("output-name");
  if (!wanted.empty() && args.has("all")) {
    return fail(ErrorKind::invalid, "--all and --output-name say different things");
  }
  TRY_SET(const RunId chosen, context.chosen_run());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json run, api->run(chosen));
  const RunId id{cell_of(run, "id")};
  const Json outputs = run.value("outputNames", Json::object());
  const bool whole = wanted.empty() || wanted == "default" || wanted == "artifacts";
  if (!whole && !outputs.contains(wanted)) return no_output(id, wanted, outputs);
  TRY_SET(const snapshot::Tree tree, api->outputs(id));
  if (cell_of(run, "endedAt").empty()) {
    context.warn("job " + id.value + " is " + cell_of(run, "status") +
                 ": its outputs are kept at its end");
  }
  Download download(context, *api, id, args.value("download-path", "."));
  if (whole) TRY(download.fetch(tree, "artifacts/outputs"));
  if (args.has("all")) TRY(download.fetch_logs_below("artifacts"));
  for (const auto& [name, path] : outputs.items()) {
    if (!args.has("all") && name != wanted) continue;
    TRY(check_relative_path(name));
    TRY(download.fetch(part_of(tree, cell(path)), "named-outputs/" + name));
  }
  TRY(download.finish());
  return kExitOk;
}

}  // namespace trainyard::cli
