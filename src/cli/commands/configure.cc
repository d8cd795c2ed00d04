#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/settings.h"

namespace trainyard::cli {
namespace {

constexpr Option kConfigureRows[] = {
    {"--defaults -d", Takes::list, "K=V",
     "Set output (a format) or workspace; an empty value unsets it."},
    {"--list-defaults -l", Takes::nothing, "", "Show what is set, as without options."},
};

Status set_default(Settings& settings, const std::string& key, const std::string& value) {
  if (key == "output") {
    if (!value.empty()) TRY(format_from(value));
    settings.output = value;
    return {};
  }
  if (key == "workspace") {
    if (!value.empty()) TRY(check_name(value, "workspace"));
    settings.workspace = value;
    return {};
  }
  return fail(ErrorKind::invalid, "--defaults " + key + ": not known",
              "Defaults: output, workspace. A server is set with: trainyard login URL");
}

}  // namespace

constinit const std::span<const Option> kConfigureOptions = kConfigureRows;

Result<int> configure(Context& context) {
  TRY_SET(Settings settings, load_settings());
  TRY_SET(const auto pairs, parse_pairs(context.args().values("defaults"), "--defaults"));
  for (const auto& [key, value] : pairs) TRY(set_default(settings, key, value));
  if (!pairs.empty()) TRY(save_settings(settings));
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  const Json shown = {{"output", or_null(settings.output)},
                      {"workspace", or_null(settings.workspace)},
                      {"server", or_null(settings.server)},
                      {"file", or_null(settings_file().string())}};
  TRY(context.print(shown, {.table = [](const Json& value) {
                      Table table;
                      for (const auto& [key, set] : value.items()) {
                        table.rows.push_back({key, set.is_null() ? "not set" : cell(set)});
                      }
                      return table;
                    }}));
  return kExitOk;
}

}  // namespace trainyard::cli
