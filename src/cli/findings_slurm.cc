#include <cstdlib>

#include "cli/findings.h"
#include "engine/slurm/commands.h"

namespace trainyard::cli {
namespace {

constexpr seconds kAnswerTime{4};

// Slurm's own file; empty: there is none where its programs look.
std::string slurm_settings() {
  const char* named = std::getenv("SLURM_CONF");
  if (named != nullptr && *named != '\0') return named;
  std::error_code none;
  for (const char* usual : {"/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf"}) {
    if (fs::exists(usual, none)) return usual;
  }
  return {};
}

}  // namespace

// Not having it is no fault: a cluster is one of several places for runs.
Finding look_at_slurm() {
  const std::string program = find_program("sbatch");
  if (program.empty()) {
    return {Grade::ok, "slurm",
            "not here; a cluster can be reached by compute create --ssh USER@LOGIN", ""};
  }
  const std::string settings = slurm_settings();
  if (settings.empty()) {
    return {Grade::ok, "slurm", program + ", without a slurm.conf; SLURM_CONF names one", ""};
  }
  const auto commands = engine::slurm::make_commands(
      {.ssh = {}, .slurm_conf = settings, .partition = {}, .timeout = kAnswerTime});
  if (const auto answer = commands->ask({"sinfo", "--noheader", "--format=%R"}); !answer) {
    return {Grade::warn, "slurm", "it does not answer: " + answer.error().message,
            "Runs for it wait until it does. Its controller's log says more; " + settings +
                " names its machine."};
  }
  return {Grade::ok, "slurm",
          program + ": a cluster can be a target: compute create --engine slurm", ""};
}

}  // namespace trainyard::cli
