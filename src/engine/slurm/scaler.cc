#include "engine/slurm/scaler.h"

#include <pwd.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/text.h"
#include "engine/slurm/program.h"

namespace trainyard::engine::slurm {
namespace {

constexpr size_t kProgramsMax = 32;  // At a time.
constexpr seconds kStepOften{1};     // While nodes are up or on their way.
constexpr seconds kStepSeldom{30};
constexpr size_t kFailureWordsMax = 300;  // Of a program, in a message of ours.
constexpr const char* kShell = "/bin/sh";
// A program ends with the server, however that ends: a server that is killed closes the standard
// input, and the whole process group is killed.
constexpr const char* kGuard =
    "exec 3<&0 </dev/null; { read -r end <&3; kill -KILL 0; } & trap \"kill $!\" EXIT\n";
constexpr const char* kProgramPlaces = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

// The last line that a program said, which is mostly why it failed.
std::string last_line(std::string_view text) {
  text = trim(text);
  const size_t start = text.rfind('\n');
  if (start != std::string_view::npos) text = trim(text.substr(start + 1));
  return to_utf8(text.substr(0, kFailureWordsMax));
}

std::string cluster_of(const ComputeSpec& compute) {
  return compute.ssh + "|" + compute.slurm_conf;
}

// What does not depend on who started the server, and how.
std::map<std::string, std::string> program_environment(const ComputeSpec& compute) {
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nobody sets it.
  std::map<std::string, std::string> environment = {
      {"PATH", std::string(path != nullptr ? path : "") + ":" + kProgramPlaces},
      {"LANG", "C.UTF-8"},
      {"TRAINYARD_COMPUTE", compute.name}};
  if (!compute.slurm_conf.empty()) environment["SLURM_CONF"] = compute.slurm_conf;
  if (const passwd* user = getpwuid(getuid()); user != nullptr) {  // NOLINT(concurrency-mt-unsafe)
    environment["HOME"] = user->pw_dir;
    environment["USER"] = environment["LOGNAME"] = user->pw_name;
  }
  return environment;
}

bool is_cancelled(const Error& error) { return error.kind == ErrorKind::cancelled; }

}  // namespace

Scaler::Scaler(ScalerOptions options)
    : options_(std::move(options)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      nodes_(options_.server_id, options_.patience) {
  limits_.min_nodes = options_.compute.min_nodes;
  limits_.max_nodes = options_.compute.max_nodes;
  limits_.idle = seconds(options_.compute.idle_seconds);
}

Scaler::~Scaler() {
  stop();
  workers_.clear();
  if (options_.claims) options_.claims->release(this);
}

void Scaler::stop() {
  stopped_ = true;
  eventfd_write(stop_.get(), 1);
}

// ---- looking and deciding ----

void Scaler::saw(const std::vector<Node>& nodes, SteadyTime begun) {
  std::vector<Node> ours;
  std::map<std::string, std::string> others;
  for (const Node& node : nodes) {
    const std::string& partition = options_.compute.partition;
    if (partition.empty() ? !node.default_partition : node.partition != partition) continue;
    ours.push_back(node);
    if (!options_.claims) continue;
    const std::string owner = options_.claims->claim(cluster_of(options_.compute), node.name,
                                                     {.owner = options_.owner, .holder = this});
    if (owner != options_.owner) others[node.name] = owner;
  }
  std::lock_guard lock(mutex_);
  nodes_.saw(ours, others, begun, options_.clock.steady());
  seen_ = true;
}

SteadyTime Scaler::step(const std::vector<ScaleWant>& wants) {
  std::erase_if(workers_, [](const Worker& worker) { return worker.done->load(); });
  const SteadyTime now = options_.clock.steady();
  std::vector<std::string> resumes;
  std::vector<std::string> told;
  std::vector<std::pair<std::string, bool>> starts;
  SteadyTime again = now + kStepSeldom;
  {
    std::lock_guard lock(mutex_);
    if (!seen_ || stopped_) return again;
    ScaleDecision decision = policy_.decide(limits_, nodes_.view(now), wants, now);
    words_ = std::move(decision.words);
    wanted_ = decision.wanted;
    for (const std::string& name : decision.up) starts.emplace_back(name, true);
    for (const std::string& name : decision.down) starts.emplace_back(name, false);
    for (const std::string& name : nodes_.take_lost()) starts.emplace_back(name, false);
    const size_t room = kProgramsMax - std::min(kProgramsMax, workers_.size());
    if (starts.size() > room) starts.resize(room);  // The rest is decided again.
    for (const auto& [name, up] : starts) {
      up ? nodes_.begin_up(name, now) : nodes_.begin_down(name, now);
    }
    resumes = nodes_.take_resumes(now);
    told = nodes_.take_told();
    told.insert(told.end(), decision.told.begin(), decision.told.end());
    if (nodes_.anything_on() || nodes_.anything_due()) again = now + kStepOften;
    if (decision.again) again = std::clamp(*decision.again, now + milliseconds(50), again);
  }
  tell(told);
  for (const auto& [name, up] : starts) start(name, up);
  for (const std::string& name : resumes) (void)update(name, "RESUME", "");
  return again;
}

void Scaler::pause(bool paused) {
  {
    std::lock_guard lock(mutex_);
    limits_.paused = paused;
  }
  options_.poke();
}

bool Scaler::looks_often() const {
  std::lock_guard lock(mutex_);
  return nodes_.anything_on() || nodes_.anything_due();
}

std::string Scaler::words(const std::string& want) const {
  std::lock_guard lock(mutex_);
  const auto found = words_.find(want);
  return found == words_.end() ? "" : found->second;
}

NodesSeen Scaler::nodes() const {
  std::lock_guard lock(mutex_);
  return {.nodes = nodes_.states(options_.clock.steady()), .wanted = wanted_, .trouble = trouble_};
}

void Scaler::tell(const std::vector<std::string>& told) {
  for (const std::string& words : told) {
    options_.log.warn("nodes of a target", {{"target", options_.compute.name}, {"what", words}});
  }
}

// ---- programs ----

void Scaler::start(const std::string& name, bool up) {
  options_.log.info(up ? "node is brought up" : "node is taken down",
                    {{"target", options_.compute.name}, {"node", name}});
  auto done = std::make_shared<std::atomic<bool>>(false);
  workers_.push_back({std::jthread([this, name, up, done] {
                        up ? bring_up(name) : take_down(name);
                        if (!stopped_) options_.poke();
                        *done = true;
                      }),
                      done});
}

void Scaler::bring_up(const std::string& name) {
  // First, for Slurm to take the node the moment it is there: told later, it takes up to 2 s to
  // look at it. Once more at the end, since a Slurm that waits in vain sets it down again. Neither
  // is final: the node may come by itself, or Slurm is told again.
  (void)update(name, "RESUME", "");
  const Status ended = run_program(options_.compute.node_up, name);
  if (!ended && is_cancelled(ended.error())) return;
  if (ended) (void)update(name, "RESUME", "");
  std::lock_guard lock(mutex_);
  nodes_.ended_up(name, ended, options_.clock.steady());
}

void Scaler::take_down(const std::string& name) {
  const Result<Left> left = leave(name);
  if (!left && is_cancelled(left.error())) return;
  if (left && *left == Left::in_use) {
    options_.log.info("node stays: a job was quicker",
                      {{"target", options_.compute.name}, {"node", name}});
  }
  std::lock_guard lock(mutex_);
  nodes_.ended_down(name, left, options_.clock.steady());
}

Result<Scaler::Left> Scaler::leave(const std::string& name) {
  TRY(update(name, "DRAIN", mark_of(options_.server_id, Mark::leaves)));
  TRY_SET(const std::vector<Node> nodes, options_.commands.nodes());
  const auto node = std::ranges::find(nodes, name, &Node::name);
  if (node == nodes.end()) return fail(ErrorKind::not_found, "Slurm has it no longer");
  const SortedNode sorted = sort_node(*node, options_.server_id);
  if (sorted.kind == SortedNode::Kind::unusable) {
    return fail(ErrorKind::conflict, "somebody else has taken it out of use: " + sorted.why);
  }
  if (sorted.kind != SortedNode::Kind::leaving) {
    TRY(update(name, "RESUME", ""));
    return Left::in_use;
  }
  TRY(run_program(options_.compute.node_down, name));
  TRY(update(name, "DOWN", mark_of(options_.server_id, Mark::off)));
  return Left::yes;
}

Status Scaler::run_program(const std::string& program, const std::string& name) {
  ProgramOptions options;
  // A shell's words, so that a program may have options; the node's name is its last argument.
  options.command = {kShell, "-c", kGuard + program + " \"$1\" 3<&-", kShell, name};
  options.keeps_input = true;
  options.timeout = options_.patience.program;
  options.stop_fd = stop_.get();
  options.environment = program_environment(options_.compute);
  TRY_SET(const ProgramEnd end, slurm::run_program(options));
  const std::string words = last_line(end.errors);
  const std::string tail = words.empty() ? "" : ": " + words;
  if (end.timed_out) {
    return fail(ErrorKind::unavailable, "its program did not end within " +
                                            format_duration(options_.patience.program) + tail);
  }
  if (end.exit_code == 0) return {};
  return fail(ErrorKind::unavailable, "exit " + std::to_string(end.exit_code) + tail);
}

Status Scaler::update(const std::string& name, const std::string& state,
                      const std::string& reason) {
  std::vector<std::string> command{"scontrol", "update", "NodeName=" + name, "State=" + state};
  if (!reason.empty()) command.push_back("Reason=" + reason);
  const Result<std::string> done = options_.commands.ask(std::move(command));
  std::lock_guard lock(mutex_);
  // It is so already.
  if (done || done.error().message.find("Invalid node state") != std::string::npos) {
    trouble_.clear();
    return {};
  }
  if (is_cancelled(done.error())) return std::unexpected(done.error());
  trouble_ = "Slurm does not let us change its nodes: " + done.error().message;
  for (const char* rights : {"Invalid user id", "Access/permission denied", "not permitted"}) {
    if (done.error().message.find(rights) == std::string::npos) continue;
    trouble_ +=
        "; the server's user must be an operator there: "
        "sacctmgr modify user NAME set adminlevel=operator";
  }
  return fail(ErrorKind::unavailable, trouble_);
}

}  // namespace trainyard::engine::slurm
