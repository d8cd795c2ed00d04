#include "supervisor/distribution.h"

#include <doctest/doctest.h>

#include "wire/json.h"

using namespace trainyard;
using namespace trainyard::supervisor;

namespace {

const std::vector<Host> kHosts = {{.name = "n1", .address = "10.0.0.4", .port = 5000},
                                  {.name = "n2", .address = "10.0.0.5", .port = 6000},
                                  {.name = "n3", .address = "10.0.0.6", .port = 7000}};

Variables variables_of(const RunSpec& spec, int node, int local_rank, Variables before = {}) {
  add_distribution(spec, {.node = node, .local_rank = local_rank, .hosts = kHosts}, "/a/hosts",
                   before);
  return before;
}

wire::Json tf_config(const RunSpec& spec, int node, int local_rank) {
  return wire::parse(variables_of(spec, node, local_rank).at("TF_CONFIG")).value();
}

}  // namespace

TEST_CASE("a rank of several nodes reads its numbers in every family's words") {
  const Variables variables = variables_of({.nodes = 3, .processes_per_node = 2}, 1, 1);
  const Variables expected = {
      {"OMPI_COMM_WORLD_RANK", "3"},
      {"OMPI_COMM_WORLD_SIZE", "6"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
      {"OMPI_COMM_WORLD_NODE_RANK", "1"},
      {"MASTER_ADDR", "10.0.0.4"},
      {"MASTER_PORT", "5000"},
      {"WORLD_SIZE", "6"},
      {"RANK", "3"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"NODE_RANK", "1"},
      {"GROUP_RANK", "1"},
      {"TF_CONFIG",
       "{\"cluster\": {\"worker\": [\"10.0.0.4:5001\", \"10.0.0.4:5002\", \"10.0.0.5:6001\", "
       "\"10.0.0.5:6002\", \"10.0.0.6:7001\", \"10.0.0.6:7002\"]}, "
       "\"task\": {\"type\": \"worker\", \"index\": 3}, \"environment\": \"cloud\"}"},
      {"AZ_BATCHAI_TASK_INDEX", "3"},
      {"AZ_BATCHAI_NUM_GPUS", "0"},
      {"AZ_BATCHAI_WORKER_HOSTS",
       "10.0.0.4:5001,10.0.0.4:5002,10.0.0.5:6001,10.0.0.5:6002,10.0.0.6:7001,10.0.0.6:7002"},
      {"AZ_BATCHAI_PS_HOSTS", ""},
      {"AZ_BATCHAI_MPI_MASTER_NODE", "10.0.0.4"},
      {"AZ_BATCHAI_MPI_HOST_FILE", "/a/hosts"},
      {"AZ_BATCHAI_PYTORCH_INIT_METHOD", "tcp://10.0.0.4:5000"},
      {"AZ_BATCHAI_PYTORCH_BACKEND", "gloo"},
      {"AZ_BATCH_MASTER_NODE", "10.0.0.4:5000"},
      {"AZ_BATCH_NODE_LIST", "10.0.0.4;10.0.0.5;10.0.0.6"},
      {"AZ_BATCH_HOST_LIST", "10.0.0.4,10.0.0.5,10.0.0.6"},
      {"AZ_BATCH_IS_CURRENT_NODE_MASTER", "false"},
  };
  CHECK(variables == expected);
}

TEST_CASE("on one node nothing speaks of several") {
  const Variables variables = variables_of({.nodes = 1, .processes_per_node = 2}, 0, 1);
  for (const auto& [name, value] : variables) CHECK_FALSE(name.starts_with("AZ_BATCH_"));
  CHECK(variables.at("MASTER_ADDR") == "10.0.0.4");
}

TEST_CASE("an MPI job has Azure's variables on one node too") {
  Variables one;
  const Host here{.name = "n1", .address = "127.0.0.1", .port = 5000};
  const RunSpec spec{.nodes = 1, .distribution = "mpi"};
  add_distribution(spec, {.node = 0, .local_rank = 0, .hosts = {here}}, "/a/hosts", one);
  CHECK(one.at("AZ_BATCH_MASTER_NODE") == "127.0.0.1:5000");
  CHECK(one.at("AZ_BATCHAI_MPI_MASTER_NODE") == "127.0.0.1");
  CHECK(one.at("NCCL_SOCKET_IFNAME") == "lo");
  const RunSpec three{.nodes = 3, .distribution = "mpi"};
  CHECK(variables_of(three, 1, 0).at("NCCL_SOCKET_IFNAME") == "^docker0,lo");
  // A job's own choice stays.
  CHECK(variables_of(three, 1, 0, {{"NCCL_SOCKET_IFNAME", "ib0"}}).at("NCCL_SOCKET_IFNAME") ==
        "ib0");
}

TEST_CASE("each kind of TensorFlow's tasks counts from 0, wherever its tasks are") {
  const RunSpec spec{
      .nodes = 3, .processes_per_node = 1, .distribution = "tensorflow", .parameter_servers = 4};
  // Node 0 has a worker and the servers 0 and 3, nodes 1 and 2 a worker and a server each.
  const wire::Json cluster = tf_config(spec, 0, 0)["cluster"];
  CHECK(cluster["worker"] == wire::Json({"10.0.0.4:5001", "10.0.0.5:6001", "10.0.0.6:7001"}));
  CHECK(cluster["ps"] ==
        wire::Json({"10.0.0.4:5002", "10.0.0.5:6002", "10.0.0.6:7002", "10.0.0.4:5003"}));
  CHECK(tf_config(spec, 0, 2)["task"] == wire::Json({{"type", "ps"}, {"index", 3}}));
  CHECK(tf_config(spec, 2, 0)["task"] == wire::Json({{"type", "worker"}, {"index", 2}}));
  CHECK(tf_config(spec, 2, 1)["task"] == wire::Json({{"type", "ps"}, {"index", 2}}));
  CHECK(tf_config(spec, 2, 1)["cluster"] == cluster);
  const Variables last = variables_of(spec, 2, 1);
  CHECK(last.at("RANK") == "6");
  CHECK(last.at("WORLD_SIZE") == "7");
  CHECK(last.at("LOCAL_WORLD_SIZE") == "2");
  CHECK(last.at("AZ_BATCHAI_TASK_INDEX") == "2");
}

TEST_CASE("what Slurm says of a rank is the rank's own") {
  const RunSpec spec{.nodes = 3, .processes_per_node = 2};
  const Variables ours =
      variables_of(spec, 2, 1, {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "3"}, {"SLURM_X", "y"}});
  CHECK(ours.at("SLURM_PROCID") == "5");
  CHECK(ours.at("SLURM_LOCALID") == "1");
  CHECK(ours.at("SLURM_NODEID") == "2");
  CHECK(ours.at("SLURM_NTASKS") == "6");
  CHECK(ours.at("SLURM_X") == "y");
  for (const auto& [name, value] : variables_of(spec, 2, 1)) {
    CHECK_FALSE(name.starts_with("SLURM_"));
  }
}

TEST_CASE("a host's IPv6 address stands in brackets before a port") {
  const RunSpec spec{.nodes = 2, .processes_per_node = 1};
  Variables variables;
  add_distribution(spec, {.hosts = {{"a", "fd00::1", 80}, {"b", "fd00::2", 90}}}, "", variables);
  CHECK(variables.at("AZ_BATCH_MASTER_NODE") == "[fd00::1]:80");
  CHECK(variables.at("MASTER_ADDR") == "fd00::1");
  CHECK(variables.at("AZ_BATCHAI_WORKER_HOSTS") == "[fd00::1]:81,[fd00::2]:91");
}

TEST_CASE("the host file has a line a node") {
  const RunSpec spec{.nodes = 3, .processes_per_node = 2, .parameter_servers = 1};
  CHECK(host_file_text(spec, kHosts) == "10.0.0.4 slots=3\n10.0.0.5 slots=2\n10.0.0.6 slots=2\n");
}
