#include "cli/completion.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/commands/commands.h"
#include "cli/console.h"
#include "cli/exit.h"

namespace trainyard::cli {

std::string_view embedded(std::string_view name);

namespace {

// Who presses a key waits: a server that takes longer is not asked.
constexpr int kServerTakesUsMax = 300'000;
constexpr int kRunsMax = 200;  // The newest; an older one is found by the beginning of its id.

// From here on nothing keeps us, whatever it is that we wait for. What was found so far is lost.
void give_up_in_time() {
  signal(SIGALRM, [](int) { _exit(kExitOk); });
  const itimerval limit{{}, {0, kServerTakesUsMax}};
  setitimer(ITIMER_REAL, &limit, nullptr);
}

// The shell hands us words as they were typed.
std::string expanded(const std::string& path) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || !(path == "~" || path.starts_with("~/"))) return path;
  return home + path.substr(1);
}

std::string given(const Completion& completion, std::string_view key) {
  const auto found = completion.given.find(key);
  return found == completion.given.end() ? "" : found->second;
}

// -w, else what the folder is attached to, else "default".
std::string workspace_of(const Completion& completion) {
  if (const std::string name = given(completion, "workspace-name"); !name.empty()) return name;
  const std::string folder = expanded(given(completion, "path"));
  const auto project = find_project(folder.empty() ? fs::current_path() : fs::path(folder));
  return project && !project->workspace.empty() ? project->workspace : "default";
}

class Asking {
 public:
  Asking(Completion& completion, client::Api& api) : completion_(completion), api_(api) {}

  Status ask() {
    switch (completion_.source) {
      case Source::nothing:
      case Source::words:
      case Source::files:
      case Source::folders:
      case Source::command:
        return {};
      case Source::runs:
        return ask_runs();
      case Source::experiments:
        return offer_all(api_.experiments(workspace_of(completion_)), "name",
                         {"runs: ", "runCount"});
      case Source::workspaces:
        return offer_all(api_.workspaces(), "name", {});
      case Source::users:
        return offer_all(api_.users(), "name", {"", "role"});
      case Source::secrets:
        return offer_all(api_.secrets(workspace_of(completion_)), "name", {});
      case Source::tokens:
        return offer_all(api_.tokens(), "id", {"", "label"});
      case Source::computes:
        return offer_all(api_.computes(workspace_of(completion_)), "name", {"", "engine"});
      case Source::environments:
        return ask_environments();
    }
    return {};
  }

 private:
  // What is said of an item: "runs: 7".
  struct Remark {
    std::string_view before;
    std::string_view key;
  };

  void offer(const std::string& value, std::string description) {
    completion_.candidates.push_back(
        {completion_.before + value + completion_.after, std::move(description)});
  }

  Status offer_all(Result<Json> list, std::string_view key, Remark remark) {
    TRY(list);
    for (const Json& item : *list) {
      const std::string value = item.is_string() ? item.get<std::string>() : cell_of(item, key);
      if (!value.starts_with(completion_.begun)) continue;
      const std::string words = remark.key.empty() ? "" : cell_of(item, remark.key);
      offer(value, words.empty() ? "" : std::string(remark.before) + words);
    }
    return {};
  }

  // Registered ones, then curated ones that are no pattern.
  Status ask_environments() {
    TRY(offer_all(api_.environments(workspace_of(completion_), "", false), "name", {"", "kind"}));
    TRY_SET(const Json curated, api_.curated_environments());
    Json names = Json::array();
    for (const Json& item : curated) {
      if (cell_of(item, "name").find('*') == std::string::npos) names.push_back(item);
    }
    return offer_all(std::move(names), "name", {"", "kind"});
  }

  static std::string about(const Json& run) {
    const std::string name = cell_of(run, "name");
    std::vector<std::string> words = {cell_of(run, "status"), cell_of(run, "experiment")};
    if (!name.empty() && name != cell_of(run, "id")) words.insert(words.begin(), name);
    return join(words, ", ");
  }

  // By their ids; by what they are called only where that means one run, for the shell then puts
  // its id in the place of what was typed.
  Status ask_runs() {
    client::RunQuery query;
    query.workspace = given(completion_, "workspace-name");
    query.experiment = given(completion_, "experiment-name");
    TRY_SET(const client::Page page, api_.runs(query, kRunsMax, ""));
    const std::string& begun = completion_.begun;
    std::vector<Json> named;
    for (const Json& run : page.items) {
      const std::string id = cell_of(run, "id");
      if (id.starts_with(begun)) {
        offer(id, about(run));
      } else if (cell_of(run, "name").starts_with(begun)) {
        named.push_back(run);
      }
    }
    if (!completion_.candidates.empty()) return {};
    if (named.size() == 1) {
      offer(cell_of(named.front(), "id"), about(named.front()));
    } else if (named.empty() && !page.next.empty() && check_name(begun, "run")) {
      TRY_SET(const Json run, api_.run(RunId{begun}));
      offer(cell_of(run, "id"), about(run));
    }
    return {};
  }

  Completion& completion_;
  client::Api& api_;
};

Status ask_server(Completion& completion) {
  give_up_in_time();
  TRY_SET(const Place place,
          find_place(given(completion, "server"), expanded(given(completion, "home"))));
  TRY_SET(http::Client client, connect(place));
  client::Api api(std::move(client));
  return Asking(completion, api).ask();
}

}  // namespace

Result<int> completion(Context& context) {
  const auto& words = context.args().words();
  const std::string shell = words.empty() ? "" : words.front();
  const std::string_view script = embedded("completion." + shell);
  if (shell.empty() || script.empty()) {
    return fail(ErrorKind::invalid,
                shell.empty() ? "which shell?" : "no completion for '" + shell + "'",
                "Shells: bash, zsh, fish.");
  }
  TRY(write_output(STDOUT_FILENO, script));
  return kExitOk;
}

// Whatever goes wrong is silence: its words would end up in the middle of what somebody types.
Result<int> complete_words(Context& context) {
  Completion found = complete(all_commands(), common_options(), context.args().rest());
  const bool servers = found.source >= Source::runs;
  if (servers && !ask_server(found)) return kExitOk;
  static_cast<void>(write_output(STDOUT_FILENO, render_completion(found)).has_value());
  return kExitOk;
}

}  // namespace trainyard::cli
