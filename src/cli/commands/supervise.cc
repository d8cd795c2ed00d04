#include "supervisor/supervise.h"

#include "cli/commands/commands.h"

namespace trainyard::cli {
namespace {

constexpr Option kSuperviseRows[] = {
    {"--folder", Takes::value, "DIR", "The attempt's folder, with its assignment."},
    {"--collect", Takes::nothing, "", "It is a copy: send what is left of it."},
};

}  // namespace

constinit const std::span<const Option> kSuperviseOptions = kSuperviseRows;

Result<int> supervise(Context& context) {
  if (!context.args().has("folder")) return fail(ErrorKind::invalid, "--folder is missing");
  using supervisor::Purpose;
  return supervisor::supervise(context.args().value("folder"), supervisor::TokenFrom::assignment,
                               context.args().has("collect") ? Purpose::collect : Purpose::carry);
}

}  // namespace trainyard::cli
