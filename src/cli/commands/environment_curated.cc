// The table of curated environments.
#include "cli/commands/commands.h"
#include "cli/environment_options.h"
#include "cli/environment_view.h"
#include "cli/exit.h"

namespace trainyard::cli {
namespace {

constexpr Option kSet[] = {
    {"--note", Takes::value, "TEXT", "What is said to who uses the name."},
};
constexpr Option kEnvironmentCuratedNames[] = {
    {"--name -n", Takes::value, "NAME", "The curated name; a * in it stands for anything."},
};

Result<std::string> chosen_name(const Context& context) {
  const Args& args = context.args();
  std::vector<std::string> names = args.words();
  if (args.knows("name") && args.has("name")) names.push_back(args.value("name"));
  if (names.size() == 1 && !names.front().empty()) return names.front();
  return fail(ErrorKind::invalid, names.empty() ? "which name?" : "one name at a time",
              "As in: trainyard " + std::string(context.command().name) + " NAME");
}

View curated_view() {
  return {.table = [](const Json& value) {
    Table table = environment_view().table(value);
    table.header = {"NAME", "KIND", "HOLDS"};
    for (auto& row : table.rows) row = {row[0], row[2], row[4]};
    return table;
  }};
}

}  // namespace

constinit const std::span<const Option> kEnvironmentCuratedSetOptions = kSet;
constinit const std::span<const Option> kEnvironmentCuratedChoice = kEnvironmentCuratedNames;

Result<int> environment_curated_list(Context& context) {
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json environments, api->curated_environments());
  TRY(context.print(environments, curated_view()));
  return kExitOk;
}

Result<int> environment_curated_set(Context& context) {
  const Args& args = context.args();
  TRY_SET(const std::string name, chosen_name(context));
  dialects::EnvironmentDraft draft;
  TRY(apply_environment_options(context, draft));
  if (args.has("environment") || draft.environment.recipe == Recipe{}) {
    return fail(ErrorKind::invalid, "what is to be in it?",
                "As in: --requirements FILE, --conda FILE or --image IMAGE");
  }
  TRY_SET(const std::string workspace, context.workspace());
  TRY(settle_environment(context, workspace, draft));
  Json body = wire::encode(draft.environment);
  body["note"] = args.value("note");
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json made, api->set_curated(name, body));
  TRY(context.print(made, curated_view()));
  return kExitOk;
}

Result<int> environment_curated_delete(Context& context) {
  TRY_SET(const std::string name, chosen_name(context));
  TRY_SET(client::Api * api, context.api());
  TRY(api->delete_curated(name));
  context.say("curated environment " + name + " is deleted");
  return kExitOk;
}

}  // namespace trainyard::cli
