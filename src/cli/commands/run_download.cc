#include <fcntl.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/console.h"
#include "cli/exit.h"
#include "cli/named_file.h"
#include "cli/progress.h"
#include "cli/run_names.h"
#include "client/blobs.h"
#include "snapshot/folder_cursor.h"
#include "snapshot/new_file.h"
#include "wire/urls.h"

namespace trainyard::cli {
namespace {

constexpr Option kLogsOptions[] = {
    {"--output-dir -d --directory", Takes::value, "DIR",
     "Where to put them (default: a folder named after the run)."},
};
constexpr Option kDownloadOptions[] = {
    {"--output-dir -d --directory", Takes::value, "DIR",
     "Where to put it (default: a folder named after the run, RUN-code for the code)."},
    {"--snapshot", Takes::nothing, "", "The code as it was submitted, instead of the outputs."},
};

constexpr unsigned kFileMode = 0644;

struct RemoteFile {
  std::string path;
  std::string kind;
  uint64_t size = 0;
};

Result<std::vector<RemoteFile>> list_files(client::Api& api, const RunId& id) {
  TRY_SET(const Json files, api.files(id));
  std::vector<RemoteFile> found;
  for (const Json& file : files) {
    RemoteFile each{cell_of(file, "path"), cell_of(file, "kind"), 0};
    TRY_SET(const int64_t size, wire::int_member(file, "size"));
    each.size = static_cast<uint64_t>(size);
    // A script names its own files: none of them may lead out of the folder we write to.
    TRY(check_relative_path(each.path));
    found.push_back(std::move(each));
  }
  return found;
}

uint64_t total_of(const std::vector<RemoteFile>& files) {
  uint64_t total = 0;
  for (const RemoteFile& file : files) total += file.size;
  return total;
}

// All that there is of the file now, in as many answers as it takes.
Status fetch(client::Api& api, const RunId& id, const std::string& path,
             const client::ByteSink& sink) {
  uint64_t from = 0;
  for (;;) {
    TRY_SET(const client::FilePart part, api.file(id, path, from, 0, sink));
    if (part.next <= from) return {};
    from = part.next;
  }
}

// Whole or not there, and through no link that is at `place` or on the way to it.
Status fetch_to(client::Api& api, const RunId& id, const RemoteFile& file,
                snapshot::FolderCursor& folders, const std::string& place,
                const std::function<void(size_t)>& on_bytes) {
  TRY_SET(const int folder, folders.at(snapshot::parent_of(place)));
  snapshot::NewFile made(folder);
  TRY_SET(const Fd out, made.create(kFileMode));
  const auto keep = [&](std::string_view bytes) -> Status {
    TRY(write_all(out.get(), bytes, place));
    on_bytes(bytes.size());
    return {};
  };
  TRY(fetch(api, id, file.path, keep));
  return made.rename_to(std::string(snapshot::name_of(place)));
}

// Each to its place in `root`, a folder of the user's choice; `place_of` is a relative path.
Status fetch_all(Context& context, client::Api& api, const RunId& id,
                 const std::vector<RemoteFile>& files, const fs::path& root,
                 const std::function<std::string(const RemoteFile&)>& place_of) {
  TRY_SET(const Fd folder, snapshot::open_root(root.empty() ? "." : root));
  snapshot::FolderCursor folders(folder.get(), root, snapshot::FolderCursor::Missing::make);
  Progress progress(context.clock(), "download", context.shows_progress());
  const uint64_t total = total_of(files);
  uint64_t done = 0;
  for (const RemoteFile& file : files) {
    const std::string place = place_of(file);
    TRY(check_relative_path(place));
    TRY_WITHIN("download " + file.path, fetch_to(api, id, file, folders, place, [&](size_t size) {
                 done += size;
                 progress.update(done, total);
               }));
  }
  return {};
}

// What was done, for -o; in words on stderr.
Status say_done(Context& context, std::string_view what, uint64_t files, uint64_t bytes,
                const fs::path& folder) {
  context.say(std::string(what) + " " + std::to_string(files) +
              (files == 1 ? " file, " : " files, ") + format_size(bytes) + " in " +
              folder.string());
  if (!context.format_given()) return {};
  const Json done = {{"folder", folder.string()}, {"files", files}, {"bytes", bytes}};
  return context.print(done, {.table = [](const Json& value) {
                         static constexpr std::string_view kKeys[] = {"folder", "files", "bytes"};
                         return plain_table(value, kKeys);
                       }});
}

// "RUN:PATH"
struct RunSource {
  RunId run;
  std::string path;
};

Result<RunSource> parse_source(Context& context, const std::string& word) {
  const size_t colon = word.find(':');
  if (colon == std::string::npos || colon == 0) {
    return fail(ErrorKind::invalid, "'" + word + "' is not RUN:PATH",
                "As in: trainyard run cp RUN:outputs/model.pkl .");
  }
  RunSource source{{}, word.substr(colon + 1)};
  while (source.path.ends_with('/')) source.path.pop_back();
  if (source.path == ".") source.path.clear();
  if (!source.path.empty()) TRY(check_relative_path(source.path));
  TRY_SET(source.run, find_run(context, word.substr(0, colon)));
  return source;
}

// -d, or a folder that is named after the run, so that downloads of several do not mix.
Result<fs::path> download_folder(Context& context, client::Api& api, const RunId& id,
                                 const std::string& suffix = {}) {
  if (context.args().has("output-dir")) return fs::path(context.args().value("output-dir"));
  TRY_SET(const Json run, api.run(id));
  const std::string name = cell_of(run, "id");
  TRY(check_name(name, "run"));
  return fs::path(name + suffix);
}

}  // namespace

constinit const std::span<const Option> kRunDownloadLogsOptions = kLogsOptions;
constinit const std::span<const Option> kRunDownloadOptions = kDownloadOptions;

Result<Fetched> fetch_logs(Context& context, const RunId& id, const fs::path& folder,
                           const std::string& below) {
  TRY_SET(client::Api * api, context.api());
  TRY_SET(std::vector<RemoteFile> files, list_files(*api, id));
  std::erase_if(files, [](const RemoteFile& file) {
    return file.kind == "output" || file.kind == "snapshot";
  });
  TRY(fetch_all(context, *api, id, files, folder, [&](const RemoteFile& file) {
    return below.empty() ? file.path : below + "/" + file.path;
  }));
  return Fetched{files.size(), total_of(files)};
}

Result<int> run_download_logs(Context& context) {
  TRY_SET(const RunId id, context.chosen_run());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const fs::path folder, download_folder(context, *api, id));
  TRY_SET(const Fetched logs, fetch_logs(context, id, folder));
  TRY(say_done(context, "logs", logs.files, logs.bytes, folder));
  return kExitOk;
}

Result<int> run_download(Context& context) {
  TRY_SET(const RunId id, context.chosen_run());
  TRY_SET(client::Api * api, context.api());
  const bool code = context.args().has("snapshot");
  // The outputs keep their folder's name, as scripts know it; the code is the folder.
  TRY_SET(const fs::path folder, download_folder(context, *api, id, code ? "-code" : ""));
  const fs::path into = code ? folder : folder / "outputs";
  TRY_SET(const snapshot::Tree tree, code ? api->snapshot(id) : api->outputs(id));
  Progress progress(context.clock(), "download", context.shows_progress());
  const auto update = [&](const client::Transfer& transfer) {
    progress.update(transfer.bytes_done, transfer.bytes_total);
  };
  const std::string_view below = code ? "" : "outputs";
  TRY(client::download_tree(api->http(), tree, folder, update, wire::run_url(id), below));
  TRY(say_done(context, code ? "snapshot" : "outputs", tree.files(), tree.bytes(), into));
  return kExitOk;
}

Result<int> run_cp(Context& context) {
  const auto& words = context.args().words();
  if (words.size() != 2) {
    return fail(ErrorKind::invalid, "what from where?",
                "As in: trainyard run cp RUN:outputs/model.pkl .");
  }
  TRY_SET(const RunSource source, parse_source(context, words[0]));
  TRY_SET(client::Api * api, context.api());
  TRY_SET(std::vector<RemoteFile> files, list_files(*api, source.run));
  const std::string prefix = source.path.empty() ? "" : source.path + "/";
  const bool one = std::any_of(files.begin(), files.end(),
                               [&](const RemoteFile& file) { return file.path == source.path; });
  std::erase_if(files, [&](const RemoteFile& file) {
    return one ? file.path != source.path : !file.path.starts_with(prefix);
  });
  if (files.empty()) {
    return fail(ErrorKind::not_found,
                "run " + source.run.value + ": no file or folder '" + source.path + "'");
  }
  if (one && words[1] == "-") {
    TRY(fetch(*api, source.run, source.path,
              [](std::string_view bytes) { return write_output(STDOUT_FILENO, bytes); }));
    return kExitOk;
  }
  if (one && is_stream(words[1])) {
    TRY_SET(const Fd stream, open_stream(words[1]));
    TRY(fetch(*api, source.run, source.path,
              [&](std::string_view bytes) { return write_all(stream.get(), bytes, words[1]); }));
    return kExitOk;
  }
  // As cp does: into a folder that is there, else under the name given.
  fs::path root = words[1];
  fs::path name;
  std::error_code ignored;
  if (fs::is_directory(root, ignored)) {
    name = fs::path(source.path.empty() ? source.run.value : source.path).filename();
  } else if (one && words[1].ends_with('/')) {
    return fail(ErrorKind::not_found, words[1] + ": no such folder");
  } else if (one) {
    name = root.filename();
    root = root.parent_path();
  }
  TRY(fetch_all(context, *api, source.run, files, root, [&](const RemoteFile& file) {
    return one ? name.string() : (name / file.path.substr(prefix.size())).string();
  }));
  TRY(say_done(context, "copied", files.size(), total_of(files), root / name));
  return kExitOk;
}

}  // namespace trainyard::cli
