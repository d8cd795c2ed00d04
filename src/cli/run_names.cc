#include "cli/run_names.h"

#include <algorithm>

#include "base/text.h"

namespace trainyard::cli {
namespace {

constexpr int kOwnRunsPage = 200;
constexpr int kCandidates = 5;  // Shown, when a word fits several runs.

Result<RunId> newest_run(client::Api& api, const std::string& workspace) {
  TRY_SET(const client::Page page, api.runs({.workspace = workspace}, 1, ""));
  if (!page.items.empty()) return RunId{cell_of(page.items.front(), "id")};
  return fail(ErrorKind::not_found, "workspace " + workspace + " has no runs",
              "Start one with: trainyard submit -- python train.py");
}

Result<Json> runs_that_fit(client::Api& api, std::string_view word, const std::string& workspace) {
  const client::RunQuery query{
      .workspace = workspace, .archived = "any", .children = true, .named = std::string(word)};
  TRY_SET(client::Page page, api.runs(query, kCandidates + 1, ""));
  return std::move(page.items);
}

// A whole id may begin the ids of other runs, of newer ones and of this workspace's.
bool is_whole_id(client::Api& api, std::string_view word) {
  if (!check_name(word, "run")) return false;
  const auto run = api.run(RunId{std::string(word)});
  return run && cell_of(*run, "id") == word;
}

Status check_experiment(Context& context, const RunId& id) {
  if (!context.args().has("experiment-name")) return {};
  const std::string wanted = context.args().value("experiment-name");
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json run, api->run(id));
  if (cell_of(run, "experiment") == wanted) return {};
  return fail(ErrorKind::not_found, "run " + id.value + ": not in experiment '" + wanted + "'",
              "It is in '" + cell_of(run, "experiment") + "'.");
}

std::string describe(const Json& run) {
  const std::string id = cell_of(run, "id");
  const std::string name = cell_of(run, "name");
  return id + " (" + (name == id ? "" : name + ", ") + cell_of(run, "status") + ")";
}

}  // namespace

Result<RunId> find_run(Context& context, std::string_view word) {
  if (word.empty()) return fail(ErrorKind::invalid, "the run's id is empty");
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  if (word == "latest" || word == "^") return newest_run(*api, workspace);
  for (const std::string& where : {workspace, std::string()}) {
    const auto runs = runs_that_fit(*api, word, where);
    // Without the workspace, or the right to list its runs, an id still means one run.
    const bool passing = !runs && (runs.error().kind == ErrorKind::not_found ||
                                   runs.error().kind == ErrorKind::denied);
    if (!runs && !passing) return std::unexpected(runs.error());
    if (passing) continue;
    auto chosen = choose_run(word, *runs);
    if (chosen && chosen->value == word) return chosen;
    if (!chosen && chosen.error().kind == ErrorKind::not_found) continue;
    if (is_whole_id(*api, word)) return RunId{std::string(word)};
    return chosen;
  }
  // The server knows more about an id that leads nowhere: that the run was deleted, for example.
  if (check_name(word, "run")) return RunId{std::string(word)};
  return fail(ErrorKind::not_found, "no run has the id or the name '" + std::string(word) + "'",
              "List the runs with: trainyard run list");
}

Result<std::vector<std::string>> run_words(const Context& context) {
  std::vector<std::string> words = context.args().words();
  for (const std::string_view key : {"run", "name"}) {
    const std::vector<std::string>& more = context.args().values(key);
    words.insert(words.end(), more.begin(), more.end());
  }
  if (!words.empty()) return words;
  return fail(ErrorKind::invalid, "which runs?",
              "As in: trainyard " + std::string(context.command().name) +
                  " RUN RUN. Runs are listed by: trainyard run list");
}

Result<std::vector<RunId>> find_runs(Context& context, std::span<const std::string> words) {
  std::vector<RunId> runs;
  for (const std::string& word : words) {
    TRY_SET(RunId run, find_run(context, word));
    TRY(check_experiment(context, run));
    if (std::ranges::find(runs, run) == runs.end()) runs.push_back(std::move(run));
  }
  return runs;
}

Result<std::vector<RunId>> own_runs(Context& context, std::string_view statuses) {
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json server, api->server(false));
  client::RunQuery query{.status = std::string(statuses), .user = cell_of(server, "user")};
  query.children = statuses == kOpenStatuses;  // What is over goes with its parent.
  TRY_SET(query.workspace, context.workspace());
  std::vector<RunId> runs;
  std::string cursor;
  do {
    TRY_SET(const client::Page page, api->runs(query, kOwnRunsPage, cursor));
    for (const Json& run : page.items) runs.push_back(RunId{cell_of(run, "id")});
    cursor = page.next;
  } while (!cursor.empty());
  return runs;
}

Result<std::vector<RunId>> named_or_all(Context& context, std::string_view statuses) {
  const Args& args = context.args();
  if (!args.has("all")) {
    TRY_SET(const std::vector<std::string> words, run_words(context));
    return find_runs(context, words);
  }
  if (!args.words().empty() || args.has("run") || args.has("name")) {
    return fail(ErrorKind::invalid, "--all and a run at the same time",
                "Give either the runs or --all.");
  }
  return own_runs(context, statuses);
}

Result<RunId> choose_run(std::string_view word, const Json& runs) {
  std::vector<std::string> ids;
  std::vector<std::string> candidates;
  for (const Json& run : runs) {
    const std::string id = cell_of(run, "id");
    if (id == word) return RunId{id};
    if (!id.starts_with(word) && cell_of(run, "name") != word) continue;
    ids.push_back(id);
    candidates.push_back(ids.size() > kCandidates ? "…" : describe(run));
  }
  if (ids.size() == 1) return RunId{ids.front()};
  if (ids.empty()) {
    return fail(ErrorKind::not_found, "run '" + std::string(word) + "' does not exist");
  }
  return fail(
      ErrorKind::conflict,
      "several runs have the id or name '" + std::string(word) + "': " + join(candidates, ", "),
      "Give the id of one of them, or more of it.");
}

}  // namespace trainyard::cli
