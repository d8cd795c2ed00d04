#include "supervisor/mpi_place.h"

#include "base/process.h"
#include "runtime/mpi_ranks.h"

namespace trainyard::supervisor {
namespace {

bool is_mpi(const Assignment& assignment) { return assignment.spec.distribution == "mpi"; }

fs::path scratch_of(const Assignment& assignment) {
  const bool shares = !assignment.node_address.empty();
  return runtime::mpi_scratch(assignment.token, shares ? assignment.node : 0);
}

}  // namespace

Result<std::unique_ptr<runtime::RankSet>> prepare_ranks(const Assignment& assignment,
                                                        const runtime::RanksOptions& options) {
  if (!is_mpi(assignment)) {
    TRY_SET(std::unique_ptr<runtime::RankSet> ranks, runtime::Ranks::prepare(options));
    return ranks;
  }
  TRY_SET(const fs::path program, self_path());
  TRY_SET(std::unique_ptr<runtime::RankSet> ranks,
          runtime::MpiRanks::prepare(options, program, scratch_of(assignment)));
  return ranks;
}

void place_ranks(Context& context) {
  auto* const ranks = dynamic_cast<runtime::MpiRanks*>(context.ranks);
  if (ranks == nullptr) return;
  const Assignment& assignment = context.assignment;
  runtime::MpiPlace place{.hosts = {},
                          .node = assignment.node,
                          .per_node = context.facts.ranks,
                          .grace_s = static_cast<int>(assignment.spec.grace_s)};
  if (assignment.spec.nodes > 1) {
    for (const Host& host : context.hosts) {
      place.hosts.push_back({host.address, static_cast<uint16_t>(host.port), host.name});
    }
  }
  ranks->set_place(std::move(place));
}

void remove_mpi_leftovers(const Assignment& assignment) {
  if (!is_mpi(assignment)) return;
  static_cast<void>(remove_tree(scratch_of(assignment)).has_value());
}

}  // namespace trainyard::supervisor
