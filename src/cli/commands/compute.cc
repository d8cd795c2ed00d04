// Computes and compute targets, the same by two names: seen, paused and deleted.
#include <algorithm>

#include "cli/commands/commands.h"
#include "cli/compute_view.h"
#include "cli/exit.h"

namespace trainyard::cli {
namespace {

constexpr Option kComputeNames[] = {
    {"--name -n", Takes::value, "NAME", "The compute."},
    {"--no-wait", Takes::nothing, "", "Taken from scripts for Azure; it takes no time here."},
};

Status print_compute(const Context& context, const Json& compute) {
  return context.print(shaped_compute(context, compute), compute_view(compute));
}

Result<int> set_paused(Context& context, bool paused) {
  TRY_SET(const std::string name, chosen_compute(context));
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json compute, api->pause_compute(workspace, name, paused));
  TRY(print_compute(context, compute));
  return kExitOk;
}

Result<int> remove(Context& context, const std::string& name) {
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY(api->delete_compute(workspace, name));
  context.say("compute " + name + " is deleted");
  return kExitOk;
}

}  // namespace

constinit const std::span<const Option> kComputeChoice = kComputeNames;

Result<std::string> chosen_compute(const Context& context) {
  const Args& args = context.args();
  std::vector<std::string> names = args.words();
  if (args.has("name")) names.push_back(args.value("name"));
  if (names.size() != 1 || names.front().empty()) {
    return fail(ErrorKind::invalid, names.empty() ? "which compute?" : "one compute at a time",
                "As in: trainyard " + std::string(context.command().name) +
                    " -n NAME. They are listed by: trainyard compute list");
  }
  TRY(check_name(names.front(), "compute"));
  return names.front();
}

Result<int> compute_list(Context& context) {
  TRY_SET(const std::optional<int> last, int_option(context.args(), "last", 1));
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(Json computes, api->computes(workspace));
  // The newest first; `local`, which was never made, last.
  std::stable_sort(computes.begin(), computes.end(), [](const Json& a, const Json& b) {
    return cell_of(a, "createdAt") > cell_of(b, "createdAt");
  });
  const auto kept = static_cast<size_t>(last.value_or(0));
  if (last && computes.size() > kept) {
    computes.erase(computes.begin() + static_cast<std::ptrdiff_t>(kept), computes.end());
  }
  Json shaped = Json::array();
  for (const Json& compute : computes) shaped.push_back(shaped_compute(context, compute));
  TRY(context.print(shaped, compute_view(computes)));
  return kExitOk;
}

Result<int> compute_show(Context& context) {
  TRY_SET(const std::string name, chosen_compute(context));
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json compute, api->compute(workspace, name));
  TRY(print_compute(context, compute));
  return kExitOk;
}

Result<int> compute_pause(Context& context) { return set_paused(context, true); }
Result<int> compute_resume(Context& context) { return set_paused(context, false); }

Result<int> compute_delete(Context& context) {
  TRY_SET(const std::string name, chosen_compute(context));
  TRY(context.confirm("Delete the compute " + name + "?"));
  return remove(context, name);
}

// The first generation does not ask.
Result<int> computetarget_delete(Context& context) {
  TRY_SET(const std::string name, chosen_compute(context));
  return remove(context, name);
}

}  // namespace trainyard::cli
