// The table of sizes.
#include <charconv>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"

namespace trainyard::cli {
namespace {

constexpr std::string_view kSizesOfAzure = "Taken from scripts for Azure; without meaning here.";

constexpr Option kListSizes[] = {
    {"--location -l", Takes::value, "PLACE", kSizesOfAzure},
    {"--type", Takes::value, "TYPE", kSizesOfAzure},
};
constexpr Option kSetOptions[] = {
    {"--cpus --vcpus", Takes::value, "N", "Its CPUs."},
    {"--memory", Takes::value, "SIZE", "Its memory in GB: 14, 3.5; or 512M, 1.5T."},
    {"--gpus", Takes::value, "N", "Its GPUs; else none."},
    {"--price", Takes::value, "NUMBER", "Of an hour, in the currency of your choice; else 0."},
    {"--low-priority-price", Takes::value, "NUMBER",
     "Of an hour as a low-priority machine; else the same."},
};
constexpr Option kComputeSizeNames[] = {
    {"--name -n", Takes::value, "TEXT", "The size."},
};

View size_view() {
  return {.table =
              [](const Json& value) {
                Table table{{"NAME", "CPUS", "MEMORY GB", "GPUS", "PRICE", "LOW PRIORITY"}, {}};
                const auto add = [&](const Json& size) {
                  table.rows.push_back({cell_of(size, "name"), cell_of(size, "vCPUs"),
                                        cell_of(size, "memoryGB"), cell_of(size, "gpus"),
                                        cell_of(size, "pricePerHour"),
                                        cell_of(size, "lowPriorityPricePerHour")});
                };
                if (value.is_object()) {
                  add(value);
                } else {
                  for (const Json& size : value) add(size);
                }
                return table;
              },
          .text = {}};
}

Result<std::string> chosen_size(const Context& context) {
  const Args& args = context.args();
  std::vector<std::string> names = args.words();
  if (args.has("name")) names.push_back(args.value("name"));
  if (names.size() != 1 || names.front().empty()) {
    return fail(ErrorKind::invalid, names.empty() ? "which size?" : "one size at a time",
                "As in: trainyard " + std::string(context.command().name) + " NAME");
  }
  TRY(check_name(names.front(), "size"));
  return names.front();
}

Result<double> number_of(std::string_view text, std::string_view what) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  return fail(ErrorKind::invalid,
              std::string(what) + " '" + std::string(text) + "' is not a number");
}

// A plain number is gigabytes.
Result<double> memory_of(std::string_view text) {
  constexpr double kGb = 1024.0 * 1024 * 1024;
  if (text.find_first_not_of("0123456789.") == std::string_view::npos) {
    return number_of(text, "--memory");
  }
  TRY_SET(const int64_t bytes, parse_size(text, "--memory"));
  return static_cast<double>(bytes) / kGb;
}

Result<Json> changes_of(const Args& args) {
  Json changes = Json::object();
  TRY_SET(const std::optional<int> cpus, int_option(args, "cpus", 1));
  TRY_SET(const std::optional<int> gpus, int_option(args, "gpus", 0));
  if (cpus) changes["vCPUs"] = *cpus;
  if (gpus) changes["gpus"] = *gpus;
  if (args.has("memory")) {
    TRY_SET(changes["memoryGB"], memory_of(args.value("memory")));
  }
  for (const auto& [option, key] :
       {std::pair{"price", "pricePerHour"}, {"low-priority-price", "lowPriorityPricePerHour"}}) {
    if (!args.has(option)) continue;
    TRY_SET(changes[key], number_of(args.value(option), "--" + std::string(option)));
  }
  if (changes.empty()) return fail(ErrorKind::invalid, "nothing to set", "As in: --price 0.9");
  return changes;
}

}  // namespace

constinit const std::span<const Option> kComputeListSizesOptions = kListSizes;
constinit const std::span<const Option> kComputeSizeSetOptions = kSetOptions;
constinit const std::span<const Option> kComputeSizeChoice = kComputeSizeNames;

Result<int> compute_list_sizes(Context& context) {
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json sizes, api->sizes());
  TRY(context.print(sizes, size_view()));
  return kExitOk;
}

Result<int> compute_size_set(Context& context) {
  TRY_SET(const std::string name, chosen_size(context));
  TRY_SET(const Json changes, changes_of(context.args()));
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json size, api->set_size(name, changes));
  TRY(context.print(size, size_view()));
  return kExitOk;
}

Result<int> compute_size_delete(Context& context) {
  TRY_SET(const std::string name, chosen_size(context));
  TRY_SET(client::Api * api, context.api());
  TRY(api->delete_size(name));
  context.say("size " + name + " is deleted");
  return kExitOk;
}

}  // namespace trainyard::cli
