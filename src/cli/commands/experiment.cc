#include <algorithm>

#include "cli/commands/commands.h"
#include "cli/exit.h"

namespace trainyard::cli {
namespace {

constexpr Option kExperimentOptions[] = {
    {"--last", Takes::value, "N", "The newest N; else all."},
};

}  // namespace

constinit const std::span<const Option> kListOptions = kExperimentOptions;

Status print_list(Context& context, Json list, const View& view) {
  TRY_SET(const std::optional<int> last, int_option(context.args(), "last", 1));
  std::stable_sort(list.begin(), list.end(), [](const Json& a, const Json& b) {
    return cell_of(a, "createdAt") > cell_of(b, "createdAt");
  });
  const auto kept = static_cast<size_t>(last.value_or(0));
  if (last && list.size() > kept) {
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(kept), list.end());
  }
  return context.print(list, view);
}

Result<int> experiment_list(Context& context) {
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json experiments, api->experiments(workspace));
  TRY(print_list(context, experiments, {.table = [](const Json& list) {
                   static constexpr std::string_view kKeys[] = {"name", "workspace", "runCount",
                                                                "createdAt"};
                   return plain_table(list, kKeys);
                 }}));
  return kExitOk;
}

}  // namespace trainyard::cli
