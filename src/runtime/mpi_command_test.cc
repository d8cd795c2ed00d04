#include "runtime/mpi_command.h"

#include <doctest/doctest.h>

#include "base/text.h"

namespace trainyard::runtime {
namespace {

MpiPlace four_nodes() {
  return {{{"198.18.0.11", 4000, "n1"},
           {"198.18.0.12", 4000, "n2"},
           {"198.18.0.13", 4001, "n3"},
           {"fd00::2", 9, "n4"}},
          0,
          2,
          30};
}

TEST_CASE("an mpirun is known by what it says of its version") {
  using enum MpiKind::Family;
  const MpiKind four = mpi_kind("mpirun (Open MPI) 4.1.4\n\nReport bugs to …\n");
  CHECK(four == MpiKind{open_mpi, 4, "mpirun (Open MPI) 4.1.4"});
  CHECK(mpi_kind("mpirun (Open MPI) 5.0.3\n").major == 5);
  CHECK(mpi_kind("HYDRA build details:\n    Version: 4.0.2\n").family == hydra);
  CHECK(mpi_kind("Intel(R) MPI Library for Linux* OS, Version 2021.8\n").family == hydra);
  CHECK(mpi_kind("something else\n").family == other);
  CHECK(mpi_kind("").family == none);
}

TEST_CASE("a host file has the nodes in their order, with their ranks") {
  CHECK(host_file(four_nodes()) ==
        "198.18.0.11 slots=2\n198.18.0.12 slots=2\n198.18.0.13 slots=2\nfd00::2 slots=2\n");
  MpiPlace one;
  one.per_node = 4;
  CHECK(host_file(one) == "localhost slots=4\n");
}

TEST_CASE("nodes of one machine are told apart, and talk over loopback") {
  const MpiPlace place{{{"127.1.0.1", 4000, "gpu-0"}, {"127.1.0.2", 4001, "gpu-1"}}, 0, 1, 30};
  CHECK(host_file(place) == "localhost slots=1\n127.1.0.2 slots=1\n");
  MpiVariables variables = {{kMpiProgram, "/v/node-1"}, {kMpiScratch, "/s"}};
  add_open_mpi_variables({MpiKind::Family::open_mpi, 4, ""}, place, 2, variables);
  CHECK(variables.at("OMPI_MCA_btl") == "tcp,self");
  CHECK(variables.at("TMPDIR") == "/s");
  CHECK_FALSE(variables.contains("OMPI_MCA_orte_tmpdir_base"));
  CHECK(variables.at("OMPI_MCA_btl_tcp_if_include") == "lo");
}

TEST_CASE("mpirun numbers ranks node by node, binds nothing, and is root's only as root") {
  const auto words = join(open_mpi_command("mpirun", four_nodes(), "/x/hosts", false), " ");
  CHECK(words.starts_with("mpirun --hostfile /x/hosts -np 8 --map-by slot --bind-to none "));
  CHECK(words.find("root") == std::string::npos);
  CHECK(words.ends_with("mpi-rank"));
  CHECK(open_mpi_command("mpirun", four_nodes(), "/x/hosts", true)[1] == "--allow-run-as-root");
}

TEST_CASE("mpirun of several nodes uses our agent and no scheduler") {
  MpiVariables variables = {{kMpiProgram, "/v/node-1"}, {kMpiScratch, "/s"}};
  add_open_mpi_variables({MpiKind::Family::open_mpi, 4, ""}, four_nodes(), 2, variables);
  CHECK(variables.at("OMPI_MCA_plm") == "rsh");
  CHECK(variables.at("OMPI_MCA_plm_rsh_agent") == "/v/node-1 mpi-agent");
  CHECK(variables.at("OMPI_MCA_plm_rsh_no_tree_spawn") == "1");
  CHECK(variables.at("OMPI_MCA_orte_leave_session_attached") == "1");
  CHECK(variables.at("OMPI_MCA_odls_base_sigkill_timeout") == "30");
  CHECK(variables.at("OMPI_MCA_orte_tmpdir_base") == "/s");
  CHECK(variables.at("OMPI_MCA_ras").starts_with("^slurm"));
  CHECK_FALSE(variables.contains("OMPI_MCA_mpi_yield_when_idle"));

  MpiVariables newer = {{kMpiProgram, "/v/node-1"}};
  add_open_mpi_variables({MpiKind::Family::open_mpi, 5, ""}, four_nodes(), 2, newer);
  CHECK(newer.at("PRTE_MCA_plm_ssh_agent") == "/v/node-1 mpi-agent");
  CHECK(newer.at("PRTE_MCA_plm") == "ssh");
  CHECK_FALSE(newer.contains("OMPI_MCA_plm"));
}

TEST_CASE("one node needs no agent, and more ranks than CPUs give way to each other") {
  MpiPlace one;
  one.per_node = 4;
  MpiVariables variables = {{kMpiProgram, "/v/node-1"}};
  add_open_mpi_variables({MpiKind::Family::open_mpi, 4, ""}, one, 2, variables);
  CHECK_FALSE(variables.contains("OMPI_MCA_plm"));
  CHECK_FALSE(variables.contains("OMPI_MCA_plm_rsh_agent"));
  CHECK_FALSE(variables.contains("OMPI_MCA_odls_base_sigkill_timeout"));
  CHECK(variables.at("OMPI_MCA_mpi_yield_when_idle") == "1");
}

TEST_CASE("what the job says of MPI stays") {
  MpiVariables variables = {{"OMPI_MCA_mpi_yield_when_idle", "0"},
                            {"OMPI_MCA_orte_tmpdir_base", "/mine"},
                            {kMpiScratch, "/s"}};
  MpiPlace one;
  one.per_node = 4;
  add_open_mpi_variables({MpiKind::Family::open_mpi, 4, ""}, one, 2, variables);
  CHECK(variables.at("OMPI_MCA_mpi_yield_when_idle") == "0");
  CHECK(variables.at("OMPI_MCA_orte_tmpdir_base") == "/mine");
}

TEST_CASE("mpirun sees nothing of a scheduler's job") {
  MpiVariables variables = {{"SLURM_JOB_ID", "1"}, {"PMI_RANK", "0"},         {"PMIX_RANK", "0"},
                            {"PBS_JOBID", "1"},    {"SLURMD_NODENAME", "n1"}, {"PATH", "/bin"}};
  hide_scheduler(variables);
  CHECK(variables == MpiVariables{{"SLURMD_NODENAME", "n1"}, {"PATH", "/bin"}});
}

TEST_CASE("a command that is an mpirun already is known") {
  CHECK(is_mpirun({"mpirun", "-np", "4", "a"}));
  CHECK(is_mpirun({"/opt/openmpi/bin/mpiexec"}));
  CHECK(is_mpirun({"mpirun -np 4 ./a && echo done"}));  // A shell's text.
  CHECK_FALSE(is_mpirun({"python", "mpirun"}));
  CHECK_FALSE(is_mpirun({"./mpirunner"}));
  CHECK_FALSE(is_mpirun({}));
}

TEST_CASE("of a rank's variables MPI's own win, and nothing else of the launcher's is seen") {
  const MpiVariables planned = {{"RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "8"}, {"PATH", "/job"}};
  const MpiVariables own = {{"OMPI_COMM_WORLD_SIZE", "9"},
                            {"PMIX_RANK", "5"},
                            {"PATH", "/mpi"},
                            {kMpiSocket, "s"},
                            {"HOME", "/root"}};
  CHECK(rank_variables(planned, own) ==
        MpiVariables{
            {"RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "9"}, {"PMIX_RANK", "5"}, {"PATH", "/job"}});
}

}  // namespace
}  // namespace trainyard::runtime
