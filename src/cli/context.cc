#include "cli/context.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/text.h"
#include "cli/console.h"
#include "cli/named_file.h"
#include "cli/run_names.h"
#include "cli/settings.h"
#include "query/query.h"

namespace trainyard::cli {

Context::Context(const Command& command, Args args)
    : command_(command), args_(std::move(args)), screen_(look_at_screen()) {}

// ---- the server ----

Result<Place> Context::place() const {
  // What is about this machine: a saved server is another one.
  static constexpr std::string_view kOfThisMachine[] = {
      "server run", "server start", "server stop", "server restore",
      "node join",  "node run",     "node leave",  "node own"};
  const bool here = std::ranges::find(kOfThisMachine, command_.name) != std::end(kOfThisMachine);
  return find_place(args_.value("server"), args_.value("home"), here ? Saved::ignore : Saved::use);
}

Result<client::Api*> Context::keep(Result<http::Client> client) {
  if (!client) return std::unexpected(std::move(client).error());
  auto api = std::make_unique<client::Api>(*std::move(client));
  if (args_.has("debug")) {
    api->trace([this](std::string_view line) { insist("debug: " + std::string(line)); });
  }
  const std::lock_guard lock(mutex_);
  api_ = std::move(api);
  return api_.get();
}

Result<client::Api*> Context::api() {
  if (api_) return api_.get();
  return reconnect();
}

Result<client::Api*> Context::reconnect() {
  TRY_SET(const Place where, place());
  detail("server: " + (where.remote() ? where.url : where.home.socket().string()));
  TRY_SET(client::Api * api, keep(connect_or_start(where, clock_)));
  api->revive([this, where] { return connect_or_start(where, clock_); });
  return api;
}

Result<client::Api*> Context::api_if_there() {
  TRY_SET(const Place where, place());
  return keep(connect(where));
}

Result<client::Api*> Context::start(std::span<const std::string> words) {
  TRY_SET(const Place where, place());
  return keep(connect_or_start(where, clock_, words));
}

void Context::interrupt() {
  const std::lock_guard lock(mutex_);
  if (api_) api_->interrupt();
}

// ---- where we are ----

Result<fs::path> Context::folder() const {
  std::error_code error;
  fs::path here = fs::current_path(error);
  if (error) return fail_errno(error.value(), "the current folder");
  if (!args_.has("path")) return here;
  const fs::path folder = (here / args_.value("path")).lexically_normal();
  if (!fs::is_directory(folder, error)) {
    return fail(error ? ErrorKind::not_found : ErrorKind::invalid,
                "--path " + args_.value("path") + ": not a folder");
  }
  return folder.has_filename() ? folder : folder.parent_path();
}

Result<Project> Context::project() const {
  TRY_SET(const fs::path where, folder());
  return find_project(where);
}

Result<std::string> Context::workspace() const {
  std::string name = args_.value("workspace-name");
  if (name.empty()) {
    TRY_SET(const Project attached, project());
    name = attached.workspace;
  }
  if (name.empty()) {
    TRY_SET(const Settings settings, load_settings());
    name = settings.workspace.empty() ? "default" : settings.workspace;
  }
  TRY(check_name(name, "workspace"));
  return name;
}

Result<RunId> Context::chosen_run() {
  std::vector<std::string> named = args_.values("run");
  for (const std::string& name : args_.values("name")) named.push_back(name);
  if (!args_.words().empty()) named.push_back(args_.words().front());
  if (named.size() != 1 || named.front().empty()) {
    return fail(ErrorKind::invalid, named.empty() ? "which run?" : "one run at a time",
                "Give its id, the beginning of it, its name or latest: trainyard " +
                    std::string(command_.name) + " RUN. Runs are listed by: trainyard run list");
  }
  TRY_SET(std::vector<RunId> found, find_runs(*this, named));
  return std::move(found.front());
}

// ---- our outputs ----

void Context::say(std::string_view line) const {
  if (!args_.has("only-show-errors")) insist(line);
}

void Context::warn(std::string_view line) const {
  if (args_.has("only-show-errors")) return;
  static_cast<void>(write_output(STDERR_FILENO, paint_warning("warning:", screen_.error_colour) +
                                                    " " + printable(line, "\n") + "\n")
                        .has_value());
}

void Context::detail(std::string_view line) const {
  if (args_.has("verbose") || args_.has("debug")) say(line);
}

void Context::insist(std::string_view line) const {
  static_cast<void>(write_output(STDERR_FILENO, printable(line, "\n") + "\n").has_value());
}

bool Context::shows_progress() const {
  return screen_.error_terminal && !args_.has("only-show-errors");
}

Result<Format> Context::format() const {
  if (args_.has("output")) return format_from(args_.value("output"));
  if (const char* name = std::getenv("TRAINYARD_OUTPUT"); name != nullptr && *name != '\0') {
    auto format = format_from(name);
    if (!format) return std::unexpected(std::move(format).error().within("TRAINYARD_OUTPUT"));
    return format;
  }
  TRY_SET(const Settings settings, load_settings());
  if (!settings.output.empty()) return format_from(settings.output);
  return screen_.out_terminal ? Format::table : Format::json;
}

Status Context::print(const Json& value, const View& view) const {
  TRY_SET(const Format how, format());
  if (args_.has("output-metadata-file")) TRY(write_metadata(value));
  if (!args_.has("query")) return write_output(STDOUT_FILENO, render(value, how, view, screen_));
  TRY_SET(const query::Query query, query::Query::compile(args_.value("query")));
  TRY_SET(const Json found, query.search(value));
  return write_output(STDOUT_FILENO, render(found, how, any_view(), screen_));
}

Status Context::write_metadata(const Json& value) const {
  const fs::path path = args_.value("output-metadata-file");
  TRY_WITHIN("-t " + path.string(), write_named_file(path, render_json(value, false)));
  return {};
}

Status Context::confirm(std::string_view question) const {
  if (args_.has("yes")) return {};
  if (isatty(STDIN_FILENO) != 1 || !screen_.error_terminal) {
    return fail(ErrorKind::invalid, std::string(question) + " That needs a confirmation",
                "Add --yes.");
  }
  static_cast<void>(write_output(STDERR_FILENO, printable(question) + " (y/n): ").has_value());
  std::string answer(64, '\0');
  const ssize_t got = ::read(STDIN_FILENO, answer.data(), answer.size());
  answer.resize(got > 0 ? static_cast<size_t>(got) : 0);
  const std::string_view said = trim(answer);
  if (said == "y" || said == "Y" || said == "yes") return {};
  return fail(ErrorKind::cancelled, "left as it is");
}

Result<std::optional<int>> int_option(const Args& args, std::string_view key, int low) {
  if (!args.has(key)) return std::optional<int>();
  const std::string what = "--" + std::string(key);
  TRY_SET(const int64_t value, parse_int(args.value(key), what));
  if (value < low || value > std::numeric_limits<int>::max()) {
    return fail(ErrorKind::invalid,
                what + " " + args.value(key) + ": must be at least " + std::to_string(low));
  }
  return std::optional<int>(static_cast<int>(value));
}

}  // namespace trainyard::cli
