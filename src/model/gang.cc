#include "model/gang.h"

#include <algorithm>
#include <array>

namespace trainyard {
namespace {

constexpr size_t kWarningsMax = 10;  // Of all nodes together, each once.

std::string name_of(const NodePart& part) {
  return "node " + (part.host.name.empty() ? std::to_string(part.node) : part.host.name);
}

bool is_ready(const NodePart& part) {
  return part.phase && *part.phase >= ReportKind::ready && !part.end;
}

// It ended by itself in a way that ends the others too.
bool has_failed(const NodePart& part) {
  if (part.failed) return true;
  if (!part.end || part.end->cause == EndCause::peer_failed) return false;
  return part.end->cause != EndCause::exited || part.end->exit_code != 0;
}

bool has_done(const NodePart& part) {
  if (has_failed(part)) return false;
  return part.end ? part.end->cause == EndCause::exited
                  : part.phase && *part.phase >= ReportKind::finalizing;
}

std::string failure_text(const NodePart& part) {
  if (part.failed) {
    const RankExit& exit = *part.failed;
    const std::string rank = "rank " + std::to_string(exit.rank) + " on " + name_of(part);
    return exit.signal != 0 ? rank + " was killed by signal " + std::to_string(exit.signal)
                            : rank + " exited with code " + std::to_string(exit.exit_code);
  }
  return name_of(part) + ": " + part.end->error;
}

// What decides among several: what somebody wanted, before what was done to a node, before what a
// program did. A rank often fails because another node was taken away.
constexpr std::array kDeciding = {
    EndCause::canceled,       EndCause::time_limit, EndCause::evicted, EndCause::no_space,
    EndCause::prepare_failed, EndCause::refused,    EndCause::lost,
};

const NodePart* decided_by_cause(std::span<const NodePart> parts) {
  for (const EndCause cause : kDeciding) {
    for (const NodePart& part : parts) {
      if (part.end && part.end->cause == cause) return &part;
    }
  }
  return nullptr;
}

const NodePart* first_to_fail(std::span<const NodePart> parts) {
  const NodePart* first = nullptr;
  for (const NodePart& part : parts) {
    if (!part.end || part.end->cause != EndCause::exited || part.end->exit_code == 0) continue;
    // One whose word of it was lost has no time, and comes last.
    const auto key = [](const NodePart& p) { return std::pair(!p.failed, p.failed_at); };
    if (first == nullptr || key(part) < key(*first)) first = &part;
  }
  return first;
}

}  // namespace

std::optional<ReportKind> phase_of(std::span<const NodePart> parts) {
  std::optional<ReportKind> least;
  bool all = true;
  for (const NodePart& part : parts) {
    if (part.end) continue;  // Beyond all of them; the others say how far the attempt is.
    all = all && part.phase;
    if (part.phase && (!least || *part.phase < *least)) least = part.phase;
  }
  if (!least) return std::nullopt;
  return all ? least : ReportKind::preparing;
}

bool any_started(std::span<const NodePart> parts) {
  return std::ranges::any_of(parts, [](const NodePart& part) {
    return part.end ? part.end->ranks_started : part.phase && *part.phase >= ReportKind::starting;
  });
}

Orders orders_of(std::span<const NodePart> parts, int node) {
  Orders orders;
  // Once they went, a node that was quick to end keeps none from starting that hears of it late.
  orders.go = std::ranges::all_of(parts, is_ready) || any_started(parts);
  orders.done = std::ranges::all_of(parts, has_done);
  for (const NodePart& part : parts) {
    if (orders.go) orders.hosts.push_back(part.host);
    if (part.node == node) {
      orders.seq_acknowledged = part.report_seq;
    } else if (orders.stop.empty() && has_failed(part)) {
      orders.stop = failure_text(part);
    }
  }
  return orders;
}

bool is_over(std::span<const NodePart> parts) {
  return std::ranges::all_of(parts, [](const NodePart& part) { return part.end || !part.phase; });
}

AttemptEnd combine(std::span<const NodePart> parts) {
  const NodePart* decides = decided_by_cause(parts);
  if (decides == nullptr) decides = first_to_fail(parts);
  AttemptEnd end;
  if (decides != nullptr) {
    end = *decides->end;
    end.ranks.clear();
  }
  end.outputs.clear();
  end.warnings.clear();
  end.ranks_started = any_started(parts);
  end.cpu_seconds = 0;
  end.memory_peak_bytes = 0;
  for (const NodePart& part : parts) {
    if (!part.end) continue;
    end.cpu_seconds += part.end->cpu_seconds;
    end.memory_peak_bytes += part.end->memory_peak_bytes;
    end.ranks.insert(end.ranks.end(), part.end->ranks.begin(), part.end->ranks.end());
    for (const std::string& warning : part.end->warnings) {
      const bool known = std::ranges::find(end.warnings, warning) != end.warnings.end();
      if (!known && end.warnings.size() < kWarningsMax) end.warnings.push_back(warning);
    }
  }
  std::ranges::sort(end.ranks, {}, &RankExit::rank);
  const bool stopped_for_nothing =
      decides == nullptr && std::ranges::any_of(parts, [](const NodePart& part) {
        return part.end && part.end->cause == EndCause::peer_failed;
      });
  if (stopped_for_nothing) {  // Whoever failed has said something else since.
    end.cause = EndCause::lost;
    end.exit_code = 1;
    end.error = "its nodes stopped each other";
  }
  return end;
}

std::string barrier_text(std::span<const NodePart> parts) {
  const auto ready = std::ranges::count_if(
      parts, [](const NodePart& part) { return part.phase && *part.phase >= ReportKind::ready; });
  if (static_cast<size_t>(ready) == parts.size()) return {};
  return std::to_string(ready) + " of " + std::to_string(parts.size()) + " nodes are ready";
}

}  // namespace trainyard
