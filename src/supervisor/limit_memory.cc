#include <cstdlib>

#include "base/text.h"
#include "container/run_container.h"
#include "supervisor/steps.h"

namespace trainyard::supervisor {

std::string memory_group_name(const Assignment& assignment) {
  return "trainyard-" + assignment.id().str() + "-" + std::to_string(assignment.node);
}

// An engine limits its containers itself, and Slurm has groups of its own.
Status limit_memory(Context& context) {
  const int64_t limit = context.assignment.spec.resources.memory_bytes;
  const container::Runtime* runtime = context.environment.runtime.get();
  if (limit == 0 || (runtime != nullptr && !runtime->needs_root())) return {};
  context.memory_limit = limit;
  if (std::getenv("SLURM_JOB_ID") != nullptr) return {};
  std::vector<pid_t> processes{context.ranks->leftovers().init};
  if (context.preparation != nullptr) processes.push_back(context.preparation->leftovers().init);
  auto made = runtime::MemoryGroup::make(memory_group_name(context.assignment), limit, processes);
  if (made) context.memory_group.emplace(*std::move(made));
  context.log.line(made ? "memory is limited by a control group"
                        : "memory is watched: " + made.error().message);
  return {};
}

void note_out_of_memory(const Context& context, const std::string& process) {
  const auto limit = static_cast<uint64_t>(context.memory_limit);
  const std::string text =
      std::string(container::kOutOfMemory) + ": the run's limit is " + format_size(limit) + "\n";
  static_cast<void>(write_file(context.layout.note(process), text, 0600).has_value());
}

}  // namespace trainyard::supervisor
