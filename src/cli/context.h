#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/connect.h"
#include "cli/output.h"
#include "cli/project.h"
#include "client/api.h"

namespace trainyard::cli {

// What a command works with: its arguments, the server, our two outputs. One thread, but for
// interrupt().
class Context {
 public:
  Context(const Command& command, Args args);

  const Command& command() const { return command_; }
  const Args& args() const { return args_; }
  Clock& clock() { return clock_; }
  const Screen& screen() const { return screen_; }

  Result<Place> place() const;
  // The server, started if need be; the same connection each time.
  Result<client::Api*> api();
  // The server if one runs; starts none.
  Result<client::Api*> api_if_there();
  // Starts the home's server with these words for `server run`.
  Result<client::Api*> start(std::span<const std::string> words);
  // A new connection after the old one was lost or interrupted.
  Result<client::Api*> reconnect();
  // Makes a call under way fail with `cancelled`. Any thread.
  void interrupt();

  // The folder a command is about: --path, else where we are; absolute.
  Result<fs::path> folder() const;
  Result<Project> project() const;
  // -w, else what the folder is attached to, else the saved default, else "default".
  Result<std::string> workspace() const;
  // The run named by the first word, -r or -n (cli/run_names.h); checked against -e where that is
  // given.
  Result<RunId> chosen_run();

  // Our own words, on stderr; silent with --only-show-errors.
  void say(std::string_view line) const;
  void warn(std::string_view line) const;
  // Only with --verbose.
  void detail(std::string_view line) const;
  // Said in any case.
  void insist(std::string_view line) const;
  bool shows_progress() const;

  // Was output asked for, by -o or --query?
  bool format_given() const { return args_.has("output") || args_.has("query"); }
  // -o, else $TRAINYARD_OUTPUT, else the saved default; else table on a terminal, json otherwise.
  Result<Format> format() const;
  // Prints what --query leaves of it, and writes -t FILE.
  Status print(const Json& value, const View& view) const;
  Status write_metadata(const Json& value) const;
  // --yes, or a yes on the terminal; `invalid` when there is nobody to ask.
  Status confirm(std::string_view question) const;

 private:
  Result<client::Api*> keep(Result<http::Client> client);

  const Command& command_;
  Args args_;
  MonotoneClock clock_;
  Screen screen_;
  std::mutex mutex_;  // Of replacing api_ against interrupt().
  std::unique_ptr<client::Api> api_;
};

// A whole number of an option, at least `low`.
Result<std::optional<int>> int_option(const Args& args, std::string_view key, int low);

}  // namespace trainyard::cli
