#include "cli/completion.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "cli/cli.h"

using namespace trainyard;
using namespace trainyard::cli;

namespace {

using Words = std::vector<std::string>;

constexpr Option kCommon[] = {
    {"--output -o", Takes::value, "FORMAT", "json, tsv or none; table on a terminal."},
    {"--verbose -v", Takes::nothing, "", "Say more."},
    {"--home", Takes::value, "DIR", "Where everything is."},
    {"--workspace-name -w --workspace", Takes::value, "NAME", "The workspace."},
};
constexpr Option kChoice[] = {{"--run -r --run-id", Takes::value, "RUN", "The run."},
                              {"--name -n", Takes::value, "NAME", "The same."}};
constexpr Option kList[] = {
    {"--status", Takes::value, "STATUS", "Only those in this state: Running, Completed, …"},
    {"--tags --tag", Takes::list, "K=V", "Only those with these."},
    {"--experiment-name -e", Takes::value, "NAME", "Only this experiment's."},
    {"--last", Takes::value, "N", "The newest N; else all."},
    {"--later", Takes::value, "DIR", "", Since::later},
};
constexpr Option kUser[] = {{"--role", Takes::value, "ROLE", "reader or admin; else reader."},
                            {"--name -n", Takes::value, "NAME", "The user."}};
constexpr Option kEnvironment[] = {{"--name -n", Takes::value, "NAME", "Which."},
                                   {"--environment", Takes::value, "NAME[:V]", "Another."}};
constexpr Option kSecret[] = {{"--secret", Takes::value, "SECRET", "One more."}};
constexpr Option kToken[] = {{"--user", Takes::value, "NAME", "Whose; else yours."},
                             {"--id -i", Takes::value, "ID", "Its number."}};
const std::span<const Option> kNone;

const Command kCommands[] = {
    {"submit", "Run a command", "[OPTION]… -- CMD [ARG]…", kList, kNone, 0, Rest::apart},
    {"run list", "List runs", "[OPTION]…", kList, kNone},
    {"run show", "Show a run", "RUN [-f]", kNone, kChoice, 1},
    {"run cp", "Copy", "RUN:PATH DEST", kNone, kNone, 2},
    {"user create", "Make a user", "NAME [--role ROLE]", kUser, kNone, 1},
    {"user delete", "Delete a user", "NAME", kNone, kUser, 1},
    {"token revoke", "Make it worthless", "ID", kNone, kToken, 1},
    {"job validate", "Check job files", "[OPTION]… FILE…", kNone, kNone, 9},
    {"job show", "Show a job", "NAME", kNone, kChoice, 1},
    {"folder attach", "Attach a folder", "[DIR]", kNone, kNone, 1},
    {"folder script", "Run one", "[OPTION]… SCRIPT ARG…", kList, kNone, 0, Rest::after_word},
    {"secret delete", "Delete a secret", "SECRET", kSecret, kNone, 1},
    {"environment show", "Show one", "NAME", kNone, kEnvironment, 1},
    {"completion", "Print a script", "bash|zsh|fish", kNone, kNone, 1},
    {"supervise", "Carry an attempt", "--folder DIR", kNone, kNone, 0, Rest::words, nullptr, true},
};

Completion asked(const Words& words) { return complete(kCommands, kCommon, words); }

Words values(const Words& words) {
  Words found;
  for (const Candidate& candidate : asked(words).candidates) found.push_back(candidate.value);
  return found;
}

}  // namespace

TEST_CASE("the first words are commands and groups, each once, the internal ones aside") {
  CHECK(values({""}) == Words{"submit", "run", "user", "token", "job", "folder", "secret",
                              "environment", "completion"});
  CHECK(values({}) == values({""}));
  CHECK(values({"ru"}) == Words{"run"});
  CHECK(values({"run", ""}) == Words{"list", "show", "cp"});
  CHECK(values({"run", "s"}) == Words{"show"});
  CHECK(values({"help", "run", "s"}) == Words{"show"});
  CHECK(values({"-v", "--home", "/x", "run", "s"}) == Words{"show"});
  CHECK(values({"nonsense", ""}).empty());
  CHECK(asked({"run", "li"}).candidates.front().description == "List runs");
  CHECK(asked({"ru"}).candidates.front().description == "list, show, cp");
}

TEST_CASE("options are offered by their first name, the command's own first") {
  CHECK(values({"run", "list", "--"}) == Words{"--status", "--tags", "--experiment-name", "--last",
                                               "--output", "--verbose", "--home",
                                               "--workspace-name"});
  CHECK(values({"run", "list", "--workspace"}) == Words{"--workspace-name"});
  CHECK(values({"run", "show", "--run-"}) == Words{"--run-id"});
  CHECK(values({"--out"}) == Words{"--output"});
  CHECK(values({"--ver"}) == Words{"--verbose", "--version"});
  CHECK(asked({"--out"}).candidates.front().description ==
        "json, tsv or none; table on a terminal.");
}

TEST_CASE("a lone dash offers letters too") {
  CHECK(values({"run", "show", "-"}) == Words{"-r", "--run", "-n", "--name", "-o", "--output", "-v",
                                              "--verbose", "--home", "-w", "--workspace-name"});
}

TEST_CASE("a flag is offered once, and what comes with a later version never") {
  CHECK(values({"run", "list", "-v", "--v"}).empty());
  CHECK(values({"run", "list", "--lat"}).empty());
}

TEST_CASE("an option's values are those its help begins with") {
  CHECK(values({"run", "list", "-o", ""}) == Words{"json", "tsv", "none"});
  CHECK(values({"run", "list", "--output", "j"}) == Words{"json"});
  CHECK(values({"-o", "t"}) == Words{"tsv"});
  CHECK(values({"user", "create", "--role", ""}) == Words{"reader", "admin"});
  CHECK(asked({"run", "list", "--last", ""}).source == Source::nothing);
}

TEST_CASE("a value may hang on its option") {
  CHECK(values({"run", "list", "--output=t"}) == Words{"--output=tsv"});
  CHECK(values({"run", "list", "-oj"}) == Words{"-ojson"});
  CHECK(values({"run", "list", "-o=j"}) == Words{"-o=json"});
  const Completion run = asked({"run", "show", "--run=bri"});
  CHECK(run.source == Source::runs);
  CHECK(run.before == "--run=");
  CHECK(run.begun == "bri");
  CHECK(asked({"--home=/t"}).source == Source::folders);
  CHECK(asked({"--verbose=x"}).source == Source::nothing);
  CHECK(asked({"--nonsense=x"}).source == Source::nothing);
}

TEST_CASE("a status is one of the contract's words") {
  CHECK(values({"run", "list", "--status", "C"}) ==
        Words{"CancelRequested", "Completed", "Canceled"});
}

TEST_CASE("words of the help say what a value is") {
  CHECK(asked({"run", "show", ""}).source == Source::runs);
  CHECK(asked({"run", "show", "-r", ""}).source == Source::runs);
  CHECK(asked({"run", "show", "-n", ""}).source == Source::runs);
  CHECK(asked({"job", "show", ""}).source == Source::runs);
  CHECK(asked({"run", "list", "-e", "x"}).source == Source::experiments);
  CHECK(asked({"run", "list", "-w", "x"}).source == Source::workspaces);
  CHECK(asked({"user", "delete", "x"}).source == Source::users);
  CHECK(asked({"user", "delete", "-n", "x"}).source == Source::users);
  CHECK(asked({"token", "revoke", "--user", ""}).source == Source::users);
  CHECK(asked({"token", "revoke", ""}).source == Source::tokens);
  CHECK(asked({"secret", "delete", ""}).source == Source::secrets);
  CHECK(asked({"secret", "delete", "--secret", ""}).source == Source::secrets);
  CHECK(asked({"folder", "attach", ""}).source == Source::folders);
  CHECK(asked({"environment", "show", ""}).source == Source::environments);
  CHECK(asked({"environment", "show", "-n", ""}).source == Source::environments);
  CHECK(asked({"environment", "show", "--environment", ""}).source == Source::environments);
  CHECK(asked({"--home", ""}).source == Source::folders);
  CHECK(asked({"run", "cp", ""}).source == Source::runs);
  CHECK(asked({"run", "cp", ""}).after == ":");
  CHECK(asked({"run", "cp", "a:b", ""}).source == Source::files);
  CHECK(values({"completion", ""}) == Words{"bash", "zsh", "fish"});
  CHECK(asked({"run", "list", "--tags", ""}).source == Source::nothing);
}

TEST_CASE("a command takes no more words than its usage has") {
  CHECK(asked({"run", "show", "a", ""}).source == Source::nothing);
  CHECK(asked({"job", "validate", "a", "b", ""}).source == Source::files);
  CHECK(asked({"run", "list", ""}).source == Source::nothing);
}

TEST_CASE("the name of what is to be made is not one that there is") {
  CHECK(asked({"user", "create", ""}).source == Source::nothing);
}

TEST_CASE("what follows -- is a command line of the user's own") {
  const Completion first = asked({"submit", "-v", "--", ""});
  CHECK(first.source == Source::command);
  CHECK(first.command_at == 3);
  CHECK(asked({"submit", "--", "python", "--ver"}).source == Source::command);
  CHECK(asked({"submit", "--", "python", "--", "x"}).command_at == 2);
  // Where a command has none, -- only ends the options.
  CHECK(asked({"run", "show", "--", "-x"}).source == Source::runs);
}

TEST_CASE("a script's words are files, options or not") {
  CHECK(asked({"folder", "script", "-e", "x", ""}).source == Source::files);
  CHECK(asked({"folder", "script", "-e", "x", "train.py", ""}).source == Source::files);
  CHECK(asked({"folder", "script", "-e", "x", "train.py", "--sta"}).candidates.empty());
  CHECK(values({"folder", "script", "--sta"}) == Words{"--status"});
}

TEST_CASE("a list goes on until the next option") {
  CHECK(asked({"run", "list", "--tags", "a=1", ""}).source == Source::nothing);
  CHECK(values({"run", "list", "--tags", "a=1", "--stat"}) == Words{"--status"});
  CHECK(values({"run", "list", "--tags", "a=1", "-o", "t"}) == Words{"tsv"});
}

TEST_CASE("an option that lacks its value is not given the next option for one") {
  CHECK(values({"run", "list", "-e", "-o", "t"}) == Words{"tsv"});
}

TEST_CASE("what was typed before says where to ask") {
  const auto given = asked({"--home", "/x", "run", "show", "-vw", "lab", "--name=a",
                            "-r"
                            "q",
                            "bri"})
                         .given;
  CHECK(given.at("home") == "/x");
  CHECK(given.at("workspace-name") == "lab");
  CHECK(given.at("name") == "a");
  CHECK(given.at("run") == "q");
  CHECK(given.contains("verbose"));
}

TEST_CASE("an answer has a line for each candidate, or one for the shell") {
  Completion completion;
  completion.source = Source::words;
  completion.candidates = {{"a", ""}, {"b", "one\ttwo\nthree"}};
  CHECK(render_completion(completion) == "a\nb\tone two three\n");
  CHECK(render_completion(asked({"--home", ""})) == ":folders\n");
  CHECK(render_completion(asked({"job", "validate", ""})) == ":files\n");
  CHECK(render_completion(asked({"submit", "--", "x"})) == ":command 2\n");
  CHECK(render_completion({}).empty());
}

TEST_CASE("in the real table every command is found and every option's names are offered") {
  for (const Command& command : all_commands()) {
    if (command.internal) continue;
    Words words;
    for (size_t at = 0; at <= command.name.size();) {
      const size_t end = std::min(command.name.find(' ', at), command.name.size());
      words.emplace_back(command.name.substr(at, end - at));
      at = end + 1;
    }
    CAPTURE(command.name);
    const auto names = complete(all_commands(), common_options(), words).candidates;
    CHECK(std::ranges::any_of(names, [&](const auto& c) { return c.value == words.back(); }));
    words.emplace_back("--");
    const auto options = complete(all_commands(), common_options(), words).candidates;
    for (const auto table : {command.options, command.shared, common_options()}) {
      for (const Option& option : table) {
        const std::string_view name = option.all_names().front();
        CAPTURE(name);
        CHECK(std::ranges::any_of(options, [&](const auto& c) { return c.value == name; }) ==
              (option.since == Since::now));
      }
    }
  }
}

TEST_CASE("in the real table the options with known values complete") {
  const auto count = [](const Words& words) {
    return complete(all_commands(), common_options(), words).candidates.size();
  };
  CHECK(count({"run", "list", "-o", ""}) == 7);
  CHECK(count({"run", "list", "--status", ""}) == 11);
  CHECK(count({"user", "create", "--role", ""}) == 3);
  CHECK(count({"submit", "--distribution", ""}) >= 2);
}

TEST_CASE("a command's name may have three words, and a target is one that is there") {
  const auto real = [](const Words& words) {
    return complete(all_commands(), common_options(), words);
  };
  const Completion words = real({"computetarget", "create", ""});
  REQUIRE(words.candidates.size() == 1);
  CHECK(words.candidates.front().value == "amlcompute");
  const Completion group = real({"compute", "si"});
  REQUIRE(group.candidates.size() == 1);
  CHECK(group.candidates.front().description == "set, delete");
  CHECK(real({"computetarget", "update", "amlcompute", "-n", ""}).source == Source::computes);
  CHECK(real({"compute", "show", ""}).source == Source::computes);
  CHECK(real({"compute", "create", ""}).source == Source::nothing);
  CHECK(real({"submit", "--target", ""}).source == Source::computes);
  CHECK(real({"workspace", "update", "--image-build-compute", ""}).source == Source::computes);
}
