#include "engine/slurm/queue_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "engine/slurm/batch.h"

namespace trainyard::engine::slurm {
namespace {

constexpr std::string_view kOurs = "trainyard:";
constexpr size_t kWordsMax = 600;  // Of Slurm's own, in a message of ours.

// The first `count` fields and the rest, which may hold the separator; none if there are fewer.
std::optional<std::vector<std::string_view>> fields(std::string_view line, size_t count) {
  std::vector<std::string_view> found;
  for (size_t i = 0; i < count; ++i) {
    const size_t bar = line.find('|');
    if (bar == std::string_view::npos) return std::nullopt;
    found.push_back(trim(line.substr(0, bar)));
    line.remove_prefix(bar + 1);
  }
  found.push_back(trim(line));
  return found;
}

template <class F>
void each_line(std::string_view text, F&& f) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    f(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// Slurm's "nothing here", which it writes in several ways.
std::string known(std::string_view text) {
  for (const std::string_view none : {"(null)", "N/A", "n/a", "none", "Unknown"}) {
    if (text == none) return {};
  }
  return std::string(text);
}

std::optional<WallTime> time_of(std::string_view text) {
  const std::optional<int64_t> value = whole_number(text);
  if (!value || *value <= 0) return std::nullopt;
  return WallTime(seconds(*value));
}

// As wait() has it: the code above 8 bits of the signal.
int exit_code_of(std::string_view text) {
  const auto status = static_cast<int>(whole_number(text).value_or(0));
  const int signal = status & 0x7f;
  return signal != 0 ? 128 + signal : (status >> 8) & 0xff;
}

// "gpu:a100:4(S:0-1),gpu:2,shard:8": the devices of all kinds.
int gpus_of(std::string_view gres) {
  int64_t sum = 0;
  for (const std::string& item : split(gres, ',')) {
    std::string_view one = trim(item);
    if (!one.starts_with("gpu:") && one != "gpu") continue;
    one = one.substr(0, one.find('('));
    const size_t colon = one.rfind(':');
    sum += colon == std::string_view::npos ? 1 : whole_number(one.substr(colon + 1)).value_or(1);
  }
  return static_cast<int>(sum);
}

// "1/3/0/4": in use, free, of no use just now, all; or all alone.
std::pair<int, int> cpus_of(std::string_view text) {
  const std::vector<std::string> parts = split(text, '/');
  const auto nth = [&](size_t n) { return static_cast<int>(whole_number(parts[n]).value_or(0)); };
  if (parts.size() == 4) return {nth(3), nth(1)};
  return {nth(0), nth(0)};
}

bool holds(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

}  // namespace

const char* const kQueueFormat =
    "JobArrayID:=,JobID:|,State:|,Reason:|,NumNodes:|,StartTime:|,EndTime:|,TimeLimit:|,BatchHost:|"
    ","
    "NodeList:|,"
    "exit_code:|,Partition:|,Name:|,Comment:";
const char* const kNodesFormat = "%N|%P|%T|%C|%m|%G|%l|%o|%E";

Phase phase_of(std::string_view state) {
  struct Row {
    std::string_view state;
    Phase phase;
  };
  static constexpr std::array kRows = {
      Row{"PENDING", Phase::waiting},       Row{"REQUEUED", Phase::waiting},
      Row{"REQUEUE_HOLD", Phase::waiting},  Row{"REQUEUE_FED", Phase::waiting},
      Row{"RESV_DEL_HOLD", Phase::waiting}, Row{"SPECIAL_EXIT", Phase::waiting},
      Row{"CONFIGURING", Phase::running},   Row{"POWER_UP_NODE", Phase::running},
      Row{"RUNNING", Phase::running},       Row{"SUSPENDED", Phase::running},
      Row{"STOPPED", Phase::running},       Row{"SIGNALING", Phase::running},
      Row{"RESIZING", Phase::running},      Row{"STAGE_OUT", Phase::ending},
      Row{"COMPLETING", Phase::ending},     Row{"COMPLETED", Phase::ended},
      Row{"CANCELLED", Phase::ended},       Row{"FAILED", Phase::ended},
      Row{"TIMEOUT", Phase::ended},         Row{"NODE_FAIL", Phase::ended},
      Row{"PREEMPTED", Phase::ended},       Row{"BOOT_FAIL", Phase::ended},
      Row{"DEADLINE", Phase::ended},        Row{"OUT_OF_MEMORY", Phase::ended},
      Row{"REVOKED", Phase::ended},         Row{"LAUNCH_FAILED", Phase::ended},
      Row{"RECONFIG_FAIL", Phase::ended},
  };
  for (const Row& row : kRows) {
    if (row.state == state) return row.phase;
  }
  return Phase::running;
}

std::vector<Job> parse_queue(std::string_view text) {
  std::vector<Job> jobs;
  each_line(text, [&](std::string_view line) {
    const auto field = fields(line, 12);
    if (!field) return;
    const std::string_view place = (*field)[0].substr(0, (*field)[0].find('='));
    const std::optional<ArrayPlaces> places = parse_places(place);
    if (!places) return;
    Job job;
    job.number = places->number;
    job.state = (*field)[1];
    job.reason = (*field)[2];
    job.nodes = static_cast<int>(whole_number((*field)[3]).value_or(0));
    job.start = time_of((*field)[4]);
    job.end = time_of((*field)[5]);
    job.limit = parse_limit((*field)[6]);
    job.batch_host = known((*field)[7]);
    job.node_list = known((*field)[8]);
    job.exit_code = exit_code_of((*field)[9]);
    job.partition = (*field)[10];
    job.name = (*field)[11];
    job.comment = known((*field)[12]);
    if (places->indexes.empty() || !job.comment.starts_with(kOurs)) jobs.push_back(job);
    if (!job.comment.starts_with(kOurs)) return;
    if (places->indexes.size() == 1 && place.size() < (*field)[0].size()) {
      job.own = whole_number((*field)[0].substr(place.size() + 1)).value_or(0);
    }
    for (const int index : places->indexes) {
      job.index = index;
      jobs.push_back(job);
    }
  });
  return jobs;
}

std::string Job::id() const {
  return std::to_string(number) + (index < 0 ? "" : "_" + std::to_string(index));
}

std::string name_of(const AttemptId& attempt) { return "ty-" + attempt.str(); }

std::string job_owner(std::string_view server_id, int64_t compute) {
  return std::string(server_id) + "/" + std::to_string(compute);
}

std::string_view home_of(std::string_view owner) { return owner.substr(0, owner.find('/')); }

std::string comment_of(std::string_view owner, const AttemptId& attempt) {
  return std::string(kOurs) + std::string(owner) + ":" + attempt.str();
}

std::optional<AttemptId> attempt_of(std::string_view comment, std::string_view owner) {
  if (!comment.starts_with(kOurs)) return std::nullopt;
  comment.remove_prefix(kOurs.size());
  if (!comment.starts_with(owner)) return std::nullopt;
  comment.remove_prefix(owner.size());
  if (!comment.starts_with(':')) return std::nullopt;
  comment.remove_prefix(1);
  const size_t dot = comment.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return std::nullopt;
  const std::optional<int64_t> count = whole_number(comment.substr(dot + 1));
  if (!count || *count < 1 || *count > 1'000'000) return std::nullopt;
  return AttemptId{RunId{std::string(comment.substr(0, dot))}, static_cast<int>(*count)};
}

bool Node::in_use() const {
  return answers && (state == "mixed" || state == "allocated" || state == "completing");
}

std::vector<Node> parse_nodes(std::string_view text) {
  std::vector<Node> nodes;
  each_line(text, [&](std::string_view line) {
    const auto field = fields(line, 8);
    if (!field || field->front().empty()) return;
    Node node;
    node.name = (*field)[0];
    std::string_view partition = (*field)[1];
    node.default_partition = partition.ends_with('*');
    if (node.default_partition) partition.remove_suffix(1);
    node.partition = partition;
    std::string_view state = (*field)[2];
    while (!state.empty() && !std::isalpha(static_cast<unsigned char>(state.back()))) {
      if (state.back() == '*') node.answers = false;
      if (state.back() == '~') node.powered_off = true;
      state.remove_suffix(1);
    }
    node.state = state;
    std::tie(node.cpus, node.cpus_free) = cpus_of((*field)[3]);
    node.memory_mb = whole_number((*field)[4]).value_or(0);
    node.gpus = gpus_of((*field)[5]);
    node.limit = parse_limit((*field)[6]);
    node.address = known((*field)[7]);
    node.reason = known((*field)[8]);
    nodes.push_back(std::move(node));
  });
  return nodes;
}

std::optional<int64_t> parse_submitted(std::string_view text) {
  std::optional<int64_t> found;
  // A site's own wrapper may talk before; the number is a line of its own.
  each_line(text, [&](std::string_view line) {
    line = trim(line);
    if (const auto value = whole_number(line.substr(0, line.find(';'))); value && *value > 0) {
      found = value;
    }
  });
  return found;
}

std::optional<seconds> parse_limit(std::string_view text) {
  int64_t days = 0;
  if (const size_t dash = text.find('-'); dash != std::string_view::npos) {
    const std::optional<int64_t> value = whole_number(text.substr(0, dash));
    if (!value) return std::nullopt;
    days = *value;
    text.remove_prefix(dash + 1);
  }
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() > 3) return std::nullopt;
  int64_t sum = 0;
  for (const std::string& part : parts) {
    const std::optional<int64_t> value = whole_number(part);
    if (!value || *value < 0) return std::nullopt;
    sum = sum * 60 + *value;
  }
  if (parts.size() == 1) sum *= 60;  // Minutes alone.
  return seconds(days * 86400 + sum);
}

std::string slurm_words(std::string_view stderr_text) {
  std::string words;
  each_line(stderr_text, [&](std::string_view line) {
    line = trim(line);
    // "sbatch: error: Batch job submission failed: Invalid partition name specified"
    for (const std::string_view head :
         {"sbatch: ", "squeue: ", "scancel: ", "sinfo: ", "scontrol: ", "error: ", "fatal: ",
          "Batch job submission failed: "}) {
      if (line.starts_with(head)) line.remove_prefix(head.size());
    }
    if (line.empty() || holds(words, line)) return;
    if (!words.empty()) words += "; ";
    words += line;
  });
  if (words.size() > kWordsMax) words = words.substr(0, kWordsMax) + "…";
  return to_utf8(words);
}

Refusal refusal_of(std::string_view stderr_text) {
  for (const std::string_view full : {"MaxSubmitJob", "MaxSubmitLimit", "GrpSubmitJobs",
                                      "Slurm temporarily unable to accept job"}) {
    if (holds(stderr_text, full)) return Refusal::full;
  }
  for (const std::string_view nobody :
       {"(connect failure)", "Unable to process configuration file", "cannot stat file",
        "Could not establish a configuration source", "Unable to resolve"}) {
    if (holds(stderr_text, nobody)) return Refusal::nobody;
  }
  for (const std::string_view away : {"Unable to contact slurm controller",
                                      "Socket timed out",
                                      "controller not responding",
                                      "Zero Bytes were transmitted",
                                      "in standby mode",
                                      "Connection refused",
                                      "Connection timed out",
                                      "Connection reset",
                                      "Transport endpoint",
                                      "Unable to connect",
                                      "No route to host",
                                      "Resource temporarily unavailable",
                                      "Protocol authentication error",
                                      "Invalid authentication credential",
                                      "Munge",
                                      "munge",
                                      "Communication connection failure",
                                      "Unexpected message received",
                                      "Incompatible versions",
                                      "Error reading",
                                      "I/O error writing"}) {
    if (holds(stderr_text, away)) return Refusal::away;
  }
  return Refusal::final;
}

}  // namespace trainyard::engine::slurm
