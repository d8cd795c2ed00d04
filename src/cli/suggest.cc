#include "cli/suggest.h"

#include <algorithm>

#include "base/text.h"

namespace trainyard::cli {
namespace {

// What other tools call a command of ours: the last word of its name.
constexpr std::pair<std::string_view, std::string_view> kVerbSynonyms[] = {
    {"rm", "delete"},       {"remove", "delete"},  {"del", "delete"},       {"destroy", "delete"},
    {"ls", "list"},         {"ps", "list"},        {"get", "show"},         {"describe", "show"},
    {"info", "show"},       {"inspect", "show"},   {"status", "show"},      {"stop", "cancel"},
    {"kill", "cancel"},     {"abort", "cancel"},   {"stop", "pause"},       {"new", "create"},
    {"add", "create"},      {"make", "create"},    {"log", "logs"},         {"tail", "logs"},
    {"stream", "logs"},     {"follow", "logs"},    {"copy", "cp"},          {"fetch", "download"},
    {"edit", "update"},     {"modify", "update"},  {"undelete", "restore"}, {"retry", "rerun"},
    {"restart", "rerun"},   {"ls-files", "files"}, {"artifacts", "files"},  {"logs", "stream"},
    {"launch", "start"},    {"shutdown", "stop"},  {"delete", "remove"},    {"delete", "revoke"},
    {"create", "register"}, {"create", "set"},     {"submit", "create"},    {"check", "validate"},
    {"register", "create"},
};
// A single word that begins no command.
constexpr std::pair<std::string_view, std::string_view> kWordSynonyms[] = {
    {"ls", "run list"},          {"list", "run list"},        {"rm", "run delete"},
    {"kill", "run cancel"},      {"stop", "run cancel"},      {"cancel", "run cancel"},
    {"train", "submit"},         {"exec", "node exec"},       {"start", "submit"},
    {"init", "folder attach"},   {"attach", "folder attach"}, {"status", "run list"},
    {"env", "environment list"}, {"target", "compute list"},  {"targets", "compute list"},
    {"serve", "server run"},     {"get", "run show"},         {"show", "run show"},
    {"describe", "run show"},
};

// What other tools call an option of ours; the first that the command has is meant.
constexpr std::pair<std::string_view, std::string_view> kOptionSynonyms[] = {
    {"--env", "--env-var"},
    {"--environment-variable", "--env-var"},
    {"--gpu", "--gpus"},
    {"--num-gpus", "--gpus"},
    {"--cpu", "--cpus"},
    {"--num-cpus", "--cpus"},
    {"--memory", "--mem"},
    {"--num-nodes", "--nodes"},
    {"--node-count", "--nodes"},
    {"--instance-count", "--nodes"},
    {"--compute", "--target"},
    {"--cluster", "--target"},
    {"--detach", "--async"},
    {"--background", "--async"},
    {"--timeout", "--time"},
    {"--time-limit", "--time"},
    {"--retries", "--max-retries"},
    {"--display-name", "--name"},
    {"--label", "--tag"},
    {"--req", "--requirements"},
    {"--docker", "--image"},
    {"--container", "--image"},
    {"--format", "--output"},
    {"--json", "--output"},
    {"--force", "--yes"},
    {"--quiet", "--only-show-errors"},
    {"--silent", "--only-show-errors"},
    {"--count", "--last"},
    {"--max", "--last"},
    {"--state", "--status"},
    {"--lines", "--tail"},
    {"--config", "--run-configuration-name"},
};

std::string synonym_of(std::span<const std::string> words, std::span<const Command> commands) {
  if (words.size() == 1) {
    for (const auto& [other, ours] : kWordSynonyms) {
      if (other == words.front()) return std::string(ours);
    }
    return {};
  }
  const std::string group = join(words.first(words.size() - 1), " ") + " ";
  for (const auto& [other, ours] : kVerbSynonyms) {
    const std::string name = group + std::string(ours);
    if (other == words.back() &&
        std::ranges::find(commands, name, &Command::name) != commands.end())
      return name;
  }
  return {};
}

}  // namespace

std::string command_meant_by(std::span<const std::string> words,
                             std::span<const Command> commands) {
  const std::string name = join(words, " ");
  std::string near = synonym_of(words, commands);
  if (!near.empty()) return near;
  // Only neighbours are near: "run lst" means a command of `run`, "runs" a first word.
  std::vector<std::string> known;
  for (const Command& command : commands) {
    if (command.internal) continue;
    known.emplace_back(words.size() > 1 ? command.name
                                        : command.name.substr(0, command.name.find(' ')));
  }
  near = nearest(name, known);
  // "rerun" is one of `run`.
  for (const Command& command : commands) {
    const bool same =
        words.size() == 1 && near.empty() && command.name.ends_with(" " + words.front());
    if (same && !command.internal) near = command.name;
  }
  if (near.empty() && words.size() > 1 && words.front() == "run") near = "submit -- " + words[1];
  return near;
}

std::string option_meant_by(std::string_view name, std::span<const std::string> known) {
  for (const auto& [other, ours] : kOptionSynonyms) {
    if (other == name && std::ranges::find(known, ours) != known.end()) return std::string(ours);
  }
  return nearest(name, known);
}

}  // namespace trainyard::cli
