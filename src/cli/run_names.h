#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/context.h"

namespace trainyard::cli {

// The run that a person means by `word`: its id, a unique beginning of it, its display name, or
// `latest` for the workspace's newest; `^` is the same. Runs of the workspace come first, then
// those of all others. conflict, with the candidates: several fit.
Result<RunId> find_run(Context& context, std::string_view word);

// What a command that takes several runs is given: its words, -r and -n. invalid: nothing.
Result<std::vector<std::string>> run_words(const Context& context);
// The runs that are meant by `words`, each once, checked against -e where that is given. Nothing is
// done before all are found.
Result<std::vector<RunId>> find_runs(Context& context, std::span<const std::string> words);

// All of the caller's runs in the workspace with one of these statuses, newest first.
inline constexpr std::string_view kOpenStatuses =
    "NotStarted,Queued,Provisioning,Preparing,Starting,Running,Finalizing";
inline constexpr std::string_view kOverStatuses = "Completed,Failed,Canceled";
Result<std::vector<RunId>> own_runs(Context& context, std::string_view statuses);
// What a command with --all is given: those runs, or the ones that its words name.
Result<std::vector<RunId>> named_or_all(Context& context, std::string_view statuses);

// The one of `runs`, entries of a list, whose id is `word`, or the only one that `word` fits.
// not_found: none fits.
Result<RunId> choose_run(std::string_view word, const Json& runs);

}  // namespace trainyard::cli
