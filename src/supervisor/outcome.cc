#include "supervisor/outcome.h"

#include <algorithm>
#include <cstring>

namespace trainyard::supervisor {
namespace {

void conclude_exits(const Facts& facts, AttemptEnd& end) {
  const RankExit* failed = first_failure(facts);
  if (failed == nullptr) return;
  end.exit_code = failed->exit_code;
  end.signal = failed->signal;
  end.rank = failed->rank;
  end.error = describe(*failed) + (facts.node.empty() ? "" : " on node " + facts.node);
  const std::string& why = facts.note.empty() ? facts.exception : facts.note;
  if (!why.empty()) end.error += ": " + why;
}

void add_sentence(std::string& text, const std::string& sentence) {
  if (sentence.empty()) return;
  text += (text.empty() ? "" : "; ") + sentence;
}

}  // namespace

AttemptEnd conclude(const Facts& facts) {
  AttemptEnd end;
  end.ranks_started = facts.ranks_started;
  end.ranks = facts.exits;
  std::sort(end.ranks.begin(), end.ranks.end(),
            [](const RankExit& a, const RankExit& b) { return a.rank < b.rank; });
  end.outputs = facts.outputs;
  end.cpu_seconds = facts.cpu_seconds;
  end.memory_peak_bytes = facts.memory_peak_bytes;
  if (!facts.lost.empty()) {
    end.cause = EndCause::lost;
    end.exit_code = 1;
    end.error = facts.lost;
  } else if (facts.prepare_failure) {
    end.cause = facts.prepare_failure->cause;
    end.exit_code = facts.prepare_failure->exit_code;
    end.error = facts.prepare_failure->text;
  } else if (facts.stop) {
    end.cause = facts.stop->cause;
    end.exit_code = 1;
    end.error = facts.stop->text;
  } else {
    conclude_exits(facts, end);
  }
  add_sentence(end.error, facts.outputs_error);
  add_sentence(end.error, facts.logs_error);
  if (end.rank >= 0 && !facts.last_lines.empty()) {
    end.error += std::string(kLastLinesHead) + facts.last_lines;
  }
  return end;
}

const RankExit* first_failure(const Facts& facts) {
  if (!facts.lost.empty() || facts.prepare_failure || facts.stop) return nullptr;
  const auto failed = std::find_if(facts.exits.begin(), facts.exits.end(),
                                   [](const RankExit& exit) { return exit.exit_code != 0; });
  return failed == facts.exits.end() ? nullptr : &*failed;
}

std::string describe(const RankExit& exit) {
  const std::string rank = "rank " + std::to_string(exit.rank);
  if (exit.signal == 0) return rank + " exited with code " + std::to_string(exit.exit_code);
  const char* name = sigabbrev_np(exit.signal);
  return rank + " was killed by signal " + std::to_string(exit.signal) +
         (name != nullptr ? " (SIG" + std::string(name) + ")" : "");
}

}  // namespace trainyard::supervisor
