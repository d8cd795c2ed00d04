#include "runtime/mpi_programs.h"

#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "base/variables.h"

namespace trainyard::runtime {
namespace {

constexpr int kProgramFailed = 1;
constexpr int kExitUsage = 2;
// All nodes were ready when mpirun was started; one that takes longer has died since.
constexpr milliseconds kNodePatience{60'000};

}  // namespace

std::string mpi_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

int mpi_agent(const std::vector<std::string>& words) {
  prctl(PR_SET_NAME, "trainyard-agent");
  const auto fail_with = [](const std::string& text) {
    std::fprintf(stderr, "trainyard: mpirun's agent: %s\n", text.c_str());
    return kProgramFailed;
  };
  if (words.size() < 2) return fail_with("no host or no command");
  const Result<std::vector<MpiHost>> hosts = parse_hosts(mpi_variable(kMpiHosts));
  if (!hosts) return fail_with(hosts.error().message);
  const MpiHost* const host = find_host(*hosts, words[0]);
  if (host == nullptr) return fail_with(words[0] + " is not a node of this run");
  // As ssh does: the words make one text for the shell there.
  const std::string command = join(std::span(words).subspan(1), " ");
  const Result<int> code = run_on(*host, mpi_variable(kMpiToken), command, kNodePatience);
  return code ? *code : fail_with(code.error().message);
}

int mpi_program(const std::vector<std::string>& words) {
  if (words.empty()) return -1;
  if (words[0] == "mpi-agent") return mpi_agent({words.begin() + 1, words.end()});
  const bool launch = words[0] == "mpi-launch";
  if (!launch && words[0] != "mpi-rank") return -1;
  if (words.size() != 1) return kExitUsage;
  return launch ? mpi_launch() : mpi_rank();
}

}  // namespace trainyard::runtime
