#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/run_view.h"

namespace trainyard::cli {
namespace {

constexpr Option kRunUpdateRows[] = {
    {"--add-tag", Takes::value, "K=V", "Give it this tag; again for more."},
    {"--remove-tag", Takes::value, "K", "Take this tag away; again for more."},
};

}  // namespace

constinit const std::span<const Option> kRunUpdateOptions = kRunUpdateRows;

Result<int> run_update(Context& context) {
  const Args& args = context.args();
  TRY_SET(const auto added, parse_pairs(args.values("add-tag"), "--add-tag"));
  Json tags = Json::object();
  for (const auto& [key, value] : added) tags[key] = value;
  for (const std::string& key : args.values("remove-tag")) {
    if (added.contains(key)) {
      return fail(ErrorKind::invalid, "the tag '" + key + "' is to be added and removed");
    }
    tags[key] = nullptr;
  }
  if (tags.empty()) {
    return fail(ErrorKind::invalid, "what is to be changed?", "As in: --add-tag stage=final");
  }
  TRY_SET(const RunId id, context.chosen_run());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json run, api->update(id, {{"tags", tags}}));
  TRY(context.print(run, run_details_view(context)));
  return kExitOk;
}

}  // namespace trainyard::cli
