#include "control/reasons.h"

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace trainyard::control {
namespace {

std::string counted(int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string size(int64_t bytes) {
  return format_size(static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
}

// What is not there now, each with its numbers.
std::vector<std::string> lacks(const Resources& wants, const QueueView& view, int nodes) {
  std::vector<std::string> lacks;
  if (view.capacity.window > 0) return lacks;  // It will say itself, once it has the run.
  const bool slots = view.capacity.slots > 0;
  if (slots && nodes > view.slots_free) {
    lacks.push_back(counted(nodes, "node") + ": " + std::to_string(view.slots_free) + " free of " +
                    std::to_string(view.capacity.slots));
  }
  const int cpus_free = std::max(0, view.capacity.cpus - view.cpus_used);
  if (!slots && wants.cpus > cpus_free) {
    lacks.push_back(counted(wants.cpus, "CPU") + ": " + std::to_string(cpus_free) + " free of " +
                    std::to_string(view.capacity.cpus));
  }
  const int64_t memory_free =
      std::max<int64_t>(0, view.capacity.memory_bytes - view.memory_used_bytes);
  if (!slots && wants.memory_bytes > memory_free) {
    lacks.push_back(size(wants.memory_bytes) + " of memory: " + size(memory_free) + " free of " +
                    size(view.capacity.memory_bytes));
  }
  const int gpus = wants.gpus * (slots ? nodes : 1);
  if (!view.capacity.gpus.empty() && static_cast<size_t>(gpus) > view.gpus_free) {
    lacks.push_back(counted(gpus, "GPU") + ": " + std::to_string(view.gpus_free) + " free of " +
                    std::to_string(view.capacity.gpus.size()));
  }
  return lacks;
}

}  // namespace

std::string queued_reason(const Resources& wants, const QueueView& view, int nodes) {
  const std::string position = "position " + std::to_string(view.position);
  if (view.disk_full) return "waits for space: the disk of the home is full; " + position;
  if (view.paused) return "waits for its target, which is paused; " + position;
  const std::vector<std::string> missing = lacks(wants, view, nodes);
  if (!missing.empty()) return "waits for " + join(missing, " and ") + "; " + position;
  if (view.position > 1) {
    return "waits for its turn behind " + counted(view.position - 1, "run") + "; " + position;
  }
  return "is about to start; " + position;
}

std::string reason_of(const Run& run) {
  switch (run.life.status) {
    case RunStatus::not_started:
      return "has not entered the queue yet";
    case RunStatus::queued:
      return "waits in the queue";
    case RunStatus::provisioning:
      return "its supervisor is being started";
    case RunStatus::preparing:
      if (run.spec.preparation.empty()) return "its code is being brought into place";
      return "its code is being brought into place, and its job preparation runs";
    case RunStatus::starting:
      if (rank_count(run.spec) == 1) return "its process is being started";
      return "its " + std::to_string(rank_count(run.spec)) + " processes are being started";
    case RunStatus::running:
      return "";
    case RunStatus::finalizing:
      return "its outputs and logs are being kept";
    case RunStatus::cancel_requested:
      if (!run.life.error.empty()) return run.life.error;
      return "was asked to stop; what still runs " + format_duration(seconds(run.spec.grace_s)) +
             " later is killed";
    case RunStatus::completed:
    case RunStatus::failed:
    case RunStatus::canceled:
      return run.life.error;
  }
  return "";
}

}  // namespace trainyard::control
