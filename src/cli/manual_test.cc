#include "cli/manual.h"

#include <doctest/doctest.h>

#include <set>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/output.h"

namespace trainyard::cli {
std::string_view embedded(std::string_view name);
}

using namespace trainyard;
using namespace trainyard::cli;

TEST_CASE("every command has its manual, with an example of itself") {
  for (const Command& command : all_commands()) {
    CAPTURE(command.name);
    const std::string_view manual = embedded(manual_file(command.name));
    CHECK(manual.starts_with("# trainyard " + std::string(command.name) + "\n"));
    const size_t example = manual.find("## Example");
    REQUIRE(example != std::string_view::npos);
    CHECK(manual.substr(example).find("trainyard " + std::string(command.name)) !=
          std::string_view::npos);
  }
}

TEST_CASE("no command has two options of one name, and keys are long names") {
  for (const Command& command : all_commands()) {
    CAPTURE(command.name);
    std::set<std::string_view> seen;
    for (const auto table : {command.options, command.shared}) {
      for (const Option& option : table) {
        CHECK(option.names.starts_with("--"));
        CHECK((option.takes == Takes::nothing) == option.word.empty());
        CHECK((option.since == Since::later) == option.help.empty());
        for (const std::string_view name : option.all_names()) CHECK(seen.insert(name).second);
      }
    }
  }
}

TEST_CASE("the help of a command has its usage, its example and its options") {
  for (const Command& command : all_commands()) {
    const std::string help = command_help(command, common_options());
    CAPTURE(command.name);
    CHECK(help.find("USAGE\n  trainyard " + std::string(command.name)) != std::string::npos);
    CHECK(help.find("EXAMPLE\n") != std::string::npos);
    CHECK(help.find("--home DIR") != std::string::npos);
    CHECK(help.find('`') == std::string::npos);
    for (const std::string& line : split(help, '\n')) CHECK(columns(line) <= 115);
  }
}

TEST_CASE("the overview names every command but the internal ones") {
  const std::string all = group_help("", all_commands());
  for (const Command& command : all_commands()) {
    CAPTURE(command.name);
    CHECK((all.find("  " + std::string(command.name) + " ") != std::string::npos) ==
          !command.internal);
  }
  const std::string runs = group_help("run", all_commands());
  CHECK(runs.find("run logs") != std::string::npos);
  CHECK(runs.find("server start") == std::string::npos);
}

TEST_CASE("markdown becomes plain text") {
  CHECK(render_manual(
            "# name\n\nSome `code` and **bold**.\n\n## Example\n\n```console\na `b`\n```\n") ==
        "Some code and bold.\n\nEXAMPLE\n\n  a `b`\n");
  CHECK(render_manual("It becomes `***`, **really**.") == "It becomes ***, really.\n");
}
