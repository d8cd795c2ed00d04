#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "api/backup.h"
#include "api/check.h"
#include "base/process.h"
#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"

namespace trainyard::cli {
namespace {

constexpr seconds kStopMax{60};  // For what is under way to be answered.

constexpr Option kStartOptions[] = {
    {"--listen", Takes::value, "HOST:PORT", "The TCP address; else 127.0.0.1 and the port it had."},
    {"--advertise", Takes::value, "URL", "How others reach it, where that is another address."},
    {"--tls-cert", Takes::value, "FILE", "Speak TLS on TCP with this certificate (PEM)."},
    {"--tls-key", Takes::value, "FILE", "The certificate's key (PEM)."},
    {"--insecure", Takes::nothing, "", "Listen beyond this machine without encryption."},
    {"--allow-server-target", Takes::nothing, "",
     "Let runs use this machine (--target server) though it listens beyond it."},
    {"--environments-max", Takes::value, "SIZE",
     "Keep at most so much of built environments (50G; 0: all)."},
    {"--interpreters", Takes::value, "PATH[:PATH…]",
     "Pythons that anybody may name by path in an environment."},
    {"--gc-every", Takes::value, "TIME",
     "Remove what nothing refers to this often (default: 6h; 0: only by server gc)."},
    {"--connections-per-address", Takes::value, "N",
     "Accept at most N connections from one address (default: half of all)."},
};
constexpr Option kStatusOptions[] = {
    {"--show-token", Takes::nothing, "", "Add a token for the API."},
};
constexpr Option kBackupRows[] = {
    {"--directory -d", Takes::value, "DIR", "The backup's folder, like the word."},
    {"--without-key", Takes::nothing, "",
     "Leave out the key file, without which nobody reads the secrets."},
};
constexpr Option kRestoreRows[] = {
    {"--directory -d", Takes::value, "DIR", "The backup's folder, like the word."},
    {"--key-file", Takes::value, "FILE", "The key of a backup that was made --without-key."},
};
constexpr Option kCheckOptions[] = {
    {"--content", Takes::nothing, "", "Read every file and compare it with its hash."},
};

View status_view() {
  return {.table =
              [](const Json& server) {
                static constexpr std::string_view kKeys[] = {"pid", "url", "socket", "version"};
                return plain_table(server, kKeys);
              },
          .text =
              [](const Json& server) {
                Table table;
                for (auto it = server.begin(); it != server.end(); ++it) {
                  table.rows.push_back({it.key(), cell(*it)});
                }
                return render_table(table, {});
              }};
}

// What was given to `server start` for the server itself.
Result<std::vector<std::string>> start_words(const Args& args) {
  std::vector<std::string> words;
  for (const std::string_view key : {"listen", "advertise", "environments-max", "interpreters",
                                     "gc-every", "connections-per-address"}) {
    if (args.has(key)) words.push_back("--" + std::string(key) + "=" + args.value(key));
  }
  for (const std::string_view key : {"tls-cert", "tls-key"}) {
    TRY_SET(const fs::path file, file_option(args, key));
    if (!file.empty()) words.push_back("--" + std::string(key) + "=" + file.string());
  }
  for (const std::string_view key : {"insecure", "allow-server-target"}) {
    if (args.has(key)) words.push_back("--" + std::string(key));
  }
  return words;
}

Result<Place> own_home(const Context& context) {
  TRY_SET(Place place, context.place());
  if (!place.remote()) return place;
  return fail(ErrorKind::invalid,
              "'" + std::string(context.command().name) + "' is about a server on this machine",
              "Leave out --server and TRAINYARD_SERVER, or name its home with --home.");
}

Error no_server(const Place& place, const Error& why) {
  if (place.remote()) return why;
  return {ErrorKind::unavailable, "no server runs for the home " + place.home.root().string(),
          "Start one with: trainyard server start"};
}

Status wait_for_end(const Fd& process) {
  pollfd end{process.get(), POLLIN, 0};
  const int timeout = static_cast<int>(milliseconds(kStopMax).count());
  int ready = 0;
  do {
    ready = poll(&end, 1, timeout);
  } while (ready < 0 && errno == EINTR);
  if (ready > 0) return {};
  return fail(ErrorKind::unavailable, "the server has not ended within 60 s",
              "It answers what is under way first; look again with: trainyard server status");
}

// The backup's folder, absolute: the server has another current folder.
Result<fs::path> backup_folder(const Context& context) {
  std::vector<std::string> named = context.args().words();
  if (context.args().has("directory")) named.push_back(context.args().value("directory"));
  if (named.size() != 1 || named.front().empty()) {
    return fail(ErrorKind::invalid, "which folder?",
                "As in: trainyard " + std::string(context.command().name) + " DIR");
  }
  std::error_code error;
  fs::path folder = fs::absolute(named.front(), error).lexically_normal();
  if (error) return fail_errno(error.value(), named.front());
  return folder;
}

View members_view() {
  View view = status_view();
  view.table = [](const Json& value) {
    Table table;
    auto& row = table.rows.emplace_back();
    for (const Json& item : value) row.push_back(cell(item));
    return table;
  };
  return view;
}

std::string check_words(const Json& found) {
  std::string text = cell_of(found, "runs") + " runs, " + cell_of(found, "blobs") +
                     " files looked at: " + (found.value("ok", false) ? "all whole\n" : "\n");
  if (!found.contains("findings")) return text;
  for (const Json& finding : found["findings"]) {
    text += cell_of(finding, "what") + " " + cell_of(finding, "name") + ": " +
            cell_of(finding, "problem");
    const std::string run = cell_of(finding, "run");
    text += (run.empty() ? "" : " (run " + run + ")") + "\n";
  }
  return text;
}

}  // namespace

constinit const std::span<const Option> kServerStartOptions = kStartOptions;
constinit const std::span<const Option> kServerStatusOptions = kStatusOptions;
constinit const std::span<const Option> kServerBackupOptions = kBackupRows;
constinit const std::span<const Option> kServerRestoreOptions = kRestoreRows;
constinit const std::span<const Option> kServerCheckOptions = kCheckOptions;

Result<int> server_start(Context& context) {
  TRY_SET(const Place place, own_home(context));
  TRY_SET(const std::vector<std::string> words, start_words(context.args()));
  auto api = context.api_if_there();
  if (api && !words.empty()) {
    return fail(ErrorKind::conflict, "the home's server runs already",
                "To start it otherwise, first: trainyard server stop");
  }
  const bool fresh = !api;
  if (fresh) api = context.start(words);
  if (!api) return std::unexpected(api.error());
  if (fresh && !words.empty()) {
    const std::string said = last_words(place.home);
    if (!said.empty()) context.say(said);
  }
  TRY_SET(const Json server, (*api)->server(false));
  TRY(context.print(server, status_view()));
  return kExitOk;
}

Result<int> server_stop(Context& context) {
  TRY_SET(const Place place, own_home(context));
  const auto api = context.api_if_there();
  if (!api) {
    if (api.error().kind != ErrorKind::unavailable) return std::unexpected(api.error());
    context.say("no server runs for the home " + place.home.root().string());
    return kExitOk;
  }
  TRY_SET(const Json server, (*api)->server(false));
  TRY_SET(const int64_t pid, wire::int_member(server, "pid"));
  const auto process = open_pidfd(static_cast<pid_t>(pid));
  TRY((*api)->stop_server());
  if (process) TRY(wait_for_end(*process));
  context.say("the server has stopped; runs go on");
  return kExitOk;
}

Result<int> server_status(Context& context) {
  TRY_SET(const Place place, context.place());
  const auto api = context.api_if_there();
  if (!api) {
    if (api.error().kind != ErrorKind::unavailable && api.error().kind != ErrorKind::not_found) {
      return std::unexpected(api.error());
    }
    return std::unexpected(no_server(place, api.error()));
  }
  TRY_SET(const Json server, (*api)->server(context.args().has("show-token")));
  TRY(context.print(server, status_view()));
  return kExitOk;
}

Result<int> server_backup(Context& context) {
  TRY(own_home(context));
  TRY_SET(const fs::path folder, backup_folder(context));
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json manifest, api->backup(folder.string(), context.args().has("without-key")));
  context.say("backed up to " + folder.string());
  const std::string key = cell_of(manifest, "keyFile");
  if (!key.empty()) {
    context.say((folder / key).string() +
                " opens every secret in the backup: keep it apart, or back up --without-key");
  } else if (cell_of(manifest, "secrets") != "0") {
    context.warn("the backup has no key: without a copy of the home's secrets.key its " +
                 cell_of(manifest, "secrets") + " secrets cannot be read after a restore");
  }
  TRY(context.print(manifest, members_view()));
  return kExitOk;
}

Result<int> server_restore(Context& context) {
  TRY_SET(const Place place, own_home(context));
  TRY_SET(const fs::path folder, backup_folder(context));
  TRY_SET(const fs::path key, file_option(context.args(), "key-file"));
  TRY_SET(const Json manifest, api::restore(folder, place.home, key));
  context.say("restored to the home " + place.home.root().string());
  if (manifest.value("missingKey", false)) {
    context.warn("the backup has no key, so its " + cell_of(manifest, "secrets") +
                 " secrets cannot be read. Put the key file with the id " +
                 cell_of(manifest, "keyId") + " at " + place.home.secrets_key().string() +
                 " before a server starts, or set each secret again with: trainyard secret set");
  }
  TRY(context.print(manifest, members_view()));
  return kExitOk;
}

// By the server where one runs; a home too broken for a server is looked at without one.
Result<int> server_check(Context& context) {
  TRY_SET(const Place place, own_home(context));
  const bool content = context.args().has("content");
  const auto api = context.api_if_there();
  const auto found =
      api ? (*api)->check(content)
          : api::check_home(place.home, context.clock(),
                            content ? api::CheckDepth::content : api::CheckDepth::presence);
  if (!found) return std::unexpected(found.error());
  View view = members_view();
  view.text = check_words;
  TRY(context.print(*found, view));
  return found->value("ok", false) ? kExitOk : kExitUnavailable;
}

}  // namespace trainyard::cli
