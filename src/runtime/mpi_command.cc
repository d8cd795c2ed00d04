#include "runtime/mpi_command.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace trainyard::runtime {
namespace {

// Found wherever ranks are: the path of our own program differs from node to node.
constexpr const char* kRankScript = "exec \"$TRAINYARD_MPI_PROGRAM\" mpi-rank";

constexpr std::array<std::string_view, 6> kOfMpi = {"OMPI_", "PMIX_", "ORTE_",
                                                    "PRTE_", "PMI_",  "MPI_LOCAL"};
constexpr std::array<std::string_view, 6> kOfSchedulers = {"SLURM_", "PMI_", "PMIX_",
                                                           "PBS_",   "LSB_", "PE_HOSTFILE"};

template <size_t N>
bool starts_with_any(std::string_view name, const std::array<std::string_view, N>& prefixes) {
  return std::ranges::any_of(prefixes, [&](auto prefix) { return name.starts_with(prefix); });
}

std::string variable(const MpiVariables& variables, const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

}  // namespace

MpiKind mpi_kind(std::string_view version) {
  MpiKind kind;
  kind.name = std::string(trim(version.substr(0, version.find('\n'))));
  if (kind.name.empty()) return kind;
  kind.family = MpiKind::Family::other;
  constexpr std::string_view kOpenMpi = "(Open MPI) ";
  if (const size_t at = version.find(kOpenMpi); at != std::string_view::npos) {
    const std::string_view number = version.substr(at + kOpenMpi.size());
    const Result<int64_t> major = parse_int(number.substr(0, number.find('.')), "version");
    kind.family = MpiKind::Family::open_mpi;
    kind.major = static_cast<int>(major.value_or(4));
  } else if (version.find("HYDRA") != std::string_view::npos ||
             version.find("Intel(R) MPI") != std::string_view::npos) {
    kind.family = MpiKind::Family::hydra;
  }
  return kind;
}

std::string host_file(const MpiPlace& place) {
  std::string text;
  const std::string slots = " slots=" + std::to_string(place.per_node) + "\n";
  if (place.hosts.empty()) return "localhost" + slots;
  for (const MpiHost& host : place.hosts) {
    text += (text.empty() && place.one_machine() ? "localhost" : host.address) + slots;
  }
  return text;
}

void hide_scheduler(MpiVariables& variables) {
  std::erase_if(variables,
                [](const auto& pair) { return starts_with_any(pair.first, kOfSchedulers); });
}

void add_open_mpi_variables(const MpiKind& kind, const MpiPlace& place, int cpus,
                            MpiVariables& variables) {
  const bool new_names = kind.major >= 5;  // Its launcher is PRRTE, with other names.
  const std::string launcher = new_names ? "PRTE_MCA_" : "OMPI_MCA_";
  const std::string scratch = variable(variables, kMpiScratch);
  if (place.nodes() > 1) {
    const std::string rsh = new_names ? "ssh" : "rsh";
    variables[launcher + "plm"] = rsh;
    variables[launcher + "plm_" + rsh + "_agent"] = variable(variables, kMpiProgram) + " mpi-agent";
    variables[launcher + "plm_" + rsh + "_no_tree_spawn"] = "1";
    variables[launcher + (new_names ? "prte" : "orte") + "_leave_session_attached"] = "1";
    // When one node's ranks have failed and are gone, the others have their grace still.
    variables.try_emplace(launcher + "odls_base_sigkill_timeout",
                          std::to_string(std::max(place.grace_s, 1)));
  }
  if (place.one_machine()) {
    // Ranks of other nodes seem to share our memory, and name their segments as ours do.
    variables.try_emplace("OMPI_MCA_btl", "tcp,self");
    // Its own choice leaves loopback out, and a machine may have no other network.
    variables.try_emplace("OMPI_MCA_btl_tcp_if_include", "lo");
  }
  variables[launcher + "ras"] = "^slurm,tm,pbs,gridengine,lsf,alps";
  if (!scratch.empty()) {  // What a killed MPI leaves goes with our folder.
    if (place.one_machine()) {
      variables["TMPDIR"] = scratch;  // mpirun hands a parameter on to daemons, who have their own.
    } else {
      variables.try_emplace(launcher + (new_names ? "prte" : "orte") + "_tmpdir_base", scratch);
    }
    variables.try_emplace(
        new_names ? "OMPI_MCA_btl_sm_backing_directory" : "OMPI_MCA_btl_vader_backing_directory",
        scratch);
  }
  // Ranks that wait by spinning on a CPU that another needs come to nothing.
  if (place.per_node > cpus) variables.try_emplace("OMPI_MCA_mpi_yield_when_idle", "1");
}

std::vector<std::string> open_mpi_command(const std::string& file, const MpiPlace& place,
                                          const std::string& host_file, bool root) {
  std::vector<std::string> words = {file};
  if (root) words.push_back("--allow-run-as-root");
  words.insert(words.end(), {"--hostfile", host_file, "-np", std::to_string(place.ranks()),
                             "--map-by", "slot", "--bind-to", "none", "--wdir", "/"});
  words.insert(words.end(), {"/bin/sh", "-c", kRankScript});
  return words;
}

bool is_mpirun(const std::vector<std::string>& command) {
  if (command.empty()) return false;
  std::string_view name = trim(command.front());
  name = name.substr(0, name.find_first_of(" \t\n"));  // A shell's text is one word.
  name = name.substr(name.rfind('/') + 1);
  return name == "mpirun" || name == "mpiexec" || name == "orterun" || name == "prterun";
}

MpiVariables rank_variables(MpiVariables planned, const MpiVariables& own) {
  for (const auto& [name, value] : own) {
    if (starts_with_any(name, kOfMpi)) planned[name] = value;
  }
  return planned;
}

}  // namespace trainyard::runtime
