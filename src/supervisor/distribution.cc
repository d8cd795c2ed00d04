#include "supervisor/distribution.h"

#include "base/text.h"
#include "http/client.h"

namespace trainyard::supervisor {
namespace {

std::string host_and_port(const Host& host, int port) {
  http::Address address;
  address.host = host.address;
  address.port = static_cast<uint16_t>(port);
  return address.host_and_port();
}

std::string joined_addresses(const std::vector<Host>& hosts, std::string_view between) {
  std::vector<std::string> addresses;
  for (const Host& host : hosts) addresses.push_back(host.address);
  return join(addresses, between);
}

// Where TensorFlow's tasks listen, by their index.
struct Cluster {
  std::vector<std::string> workers;
  std::vector<std::string> servers;
};

Cluster cluster_of(const RunSpec& spec, const std::vector<Host>& hosts) {
  Cluster cluster;
  cluster.servers.resize(static_cast<size_t>(spec.parameter_servers));
  for (int node = 0; node < spec.nodes; ++node) {
    const Host& host = hosts[static_cast<size_t>(node)];
    for (int local = 0; local < ranks_on(spec, node); ++local) {
      const Task task = task_of(spec, node, local);
      const std::string place = host_and_port(host, host.port + 1 + local);
      if (task.server) {
        cluster.servers[static_cast<size_t>(task.index)] = place;
      } else {
        cluster.workers.push_back(place);
      }
    }
  }
  return cluster;
}

std::string json_list(const std::vector<std::string>& places) {
  return places.empty() ? "[]" : "[\"" + join(places, "\", \"") + "\"]";
}

std::string tensorflow_config(const Cluster& cluster, const Task& task) {
  std::string text = "{\"cluster\": {\"worker\": " + json_list(cluster.workers);
  if (!cluster.servers.empty()) text += ", \"ps\": " + json_list(cluster.servers);
  return text + "}, \"task\": {\"type\": \"" + (task.server ? "ps" : "worker") +
         "\", \"index\": " + std::to_string(task.index) + "}, \"environment\": \"cloud\"}";
}

void add_tensorflow(const RunSpec& spec, const RankPlace& place, Variables& variables) {
  const Cluster cluster = cluster_of(spec, place.hosts);
  const Task task = task_of(spec, place.node, place.local_rank);
  variables["TF_CONFIG"] = tensorflow_config(cluster, task);
  variables["AZ_BATCHAI_WORKER_HOSTS"] = join(cluster.workers, ",");
  variables["AZ_BATCHAI_PS_HOSTS"] = join(cluster.servers, ",");
  variables["AZ_BATCHAI_TASK_INDEX"] = std::to_string(task.index);
}

// Azure sets them only where there are several nodes, and Lightning decides by the first of them
// (its #14118).
void add_several_nodes(const RankPlace& place, Variables& variables) {
  const Host& master = place.hosts.front();
  variables["AZ_BATCH_MASTER_NODE"] = host_and_port(master, master.port);
  variables["AZ_BATCH_NODE_LIST"] = joined_addresses(place.hosts, ";");
  variables["AZ_BATCH_HOST_LIST"] = joined_addresses(place.hosts, ",");
  variables["AZ_BATCH_IS_CURRENT_NODE_MASTER"] = place.node == 0 ? "true" : "false";
}

// One supervisor is one task of Slurm's; what a rank reads of itself must be its own.
void add_slurm(const std::string& rank, const std::string& size, const RankPlace& place,
               Variables& variables) {
  if (!variables.contains("SLURM_PROCID")) return;
  variables["SLURM_PROCID"] = rank;
  variables["SLURM_LOCALID"] = std::to_string(place.local_rank);
  variables["SLURM_NODEID"] = std::to_string(place.node);
  variables["SLURM_NTASKS"] = size;
  variables["SLURM_NPROCS"] = size;
}

}  // namespace

void add_distribution(const RunSpec& spec, const RankPlace& place, const std::string& host_file,
                      Variables& variables) {
  const Host& master = place.hosts.front();
  const std::string rank = std::to_string(first_rank(spec, place.node) + place.local_rank);
  const std::string size = std::to_string(rank_count(spec));
  const std::string local_rank = std::to_string(place.local_rank);
  const std::string local_size = std::to_string(ranks_on(spec, place.node));
  const std::string node = std::to_string(place.node);
  const std::string port = std::to_string(master.port);
  variables["OMPI_COMM_WORLD_RANK"] = rank;
  variables["OMPI_COMM_WORLD_SIZE"] = size;
  variables["OMPI_COMM_WORLD_LOCAL_RANK"] = local_rank;
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = local_size;
  variables["OMPI_COMM_WORLD_NODE_RANK"] = local_rank;  // Open MPI's word for the rank on a node.
  variables["MASTER_ADDR"] = master.address;
  variables["MASTER_PORT"] = port;
  variables["WORLD_SIZE"] = size;
  variables["RANK"] = rank;
  variables["LOCAL_RANK"] = local_rank;
  variables["LOCAL_WORLD_SIZE"] = local_size;
  variables["NODE_RANK"] = node;
  variables["GROUP_RANK"] = node;
  variables["AZ_BATCHAI_NUM_GPUS"] = std::to_string(spec.resources.gpus);
  variables["AZ_BATCHAI_MPI_MASTER_NODE"] = master.address;
  variables["AZ_BATCHAI_MPI_HOST_FILE"] = host_file;
  variables["AZ_BATCHAI_PYTORCH_INIT_METHOD"] = "tcp://" + host_and_port(master, master.port);
  variables["AZ_BATCHAI_PYTORCH_BACKEND"] = spec.resources.gpus > 0 ? "nccl" : "gloo";
  add_tensorflow(spec, place, variables);
  if (spec.nodes > 1) add_several_nodes(place, variables);
  if (spec.distribution == "mpi") {
    // Scripts for Azure's MPI jobs read them, on one node too.
    variables.try_emplace("AZ_BATCH_MASTER_NODE", host_and_port(master, master.port));
    const bool alone = master.address.starts_with("127.");
    variables.try_emplace("NCCL_SOCKET_IFNAME", alone ? "lo" : "^docker0,lo");
  }
  add_slurm(rank, size, place, variables);
}

std::string host_file_text(const RunSpec& spec, const std::vector<Host>& hosts) {
  std::string text;
  for (int node = 0; node < spec.nodes; ++node) {
    text += hosts[static_cast<size_t>(node)].address +
            " slots=" + std::to_string(ranks_on(spec, node)) + "\n";
  }
  return text;
}

Task task_of(const RunSpec& spec, int node, int local_rank) {
  const int workers = spec.processes_per_node;
  if (local_rank < workers) return {false, node * workers + local_rank};
  return {true, (local_rank - workers) * spec.nodes + node};
}

}  // namespace trainyard::supervisor
