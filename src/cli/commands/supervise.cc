#include "supervisor/supervise.h"

#include "cli/commands/commands.h"

namespace trainyard::cli {
namespace {

constexpr Option kSuperviseRows[] = {
    {"--folder", Takes::value, "DIR", "The attempt's folder, with its assignment."},
};

}  // namespace

constinit const std::span<const Option> kSuperviseOptions = kSuperviseRows;

Result<int> supervise(Context& context) {
  if (!context.args().has("folder")) return fail(ErrorKind::invalid, "--folder is missing");
  return supervisor::supervise(context.args().value("folder"));
}

}  // namespace trainyard::cli
