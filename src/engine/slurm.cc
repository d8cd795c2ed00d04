#include "engine/slurm.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "engine/slurm/exec.h"
#include "engine/slurm_engine.h"

namespace trainyard::engine {
namespace {

constexpr seconds kLookMax{3};  // For whoever wants to see the nodes as they are now.
constexpr seconds kLookKept{3};
constexpr seconds kSilent{3};  // A call that takes longer is told.
constexpr seconds kShelveAfter{60};
// Over ssh each costs a round trip or three; here one keeps the controller busy.
constexpr int kSubmittersHere = 1;
constexpr int kSubmittersSsh = 4;

}  // namespace

SlurmEngine::SlurmEngine(SlurmOptions options)
    : options_(std::move(options)),
      owner_(slurm::job_owner(options_.server_id, options_.compute_id)),
      book_(owner_, patience()) {
  if (!options_.compute.node_up.empty()) {
    scaler_ = std::make_unique<slurm::Scaler>(scaler_options());
    scaler_->pause(options_.paused);
  }
  shell_ = slurm::make_shell({.compute = options_.compute,
                              .server_id = options_.server_id,
                              .owner = owner_,
                              .clock = options_.clock,
                              .commands = options_.commands});
  if (!options_.compute.shared_folder.empty() && options_.take_over) {
    stop_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    shelf_ = std::make_unique<slurm::Shelf>(
        slurm::Shelf::Options{.shared = options_.compute.shared_folder,
                              .owner = owner_,
                              .collected = options_.collected,
                              .binary = options_.binary,
                              .log = options_.log,
                              .stop_fd = stop_.get()});
    threads_.emplace_back([this](std::stop_token stop) { collect_all(stop); });
  }
  book_.serve_at(options_.server_url);
  if (options_.tunnel) heed_tunnel();
  const int submitters = options_.compute.ssh.empty() ? kSubmittersHere : kSubmittersSsh;
  for (int i = 0; i < submitters; ++i) {
    threads_.emplace_back([this](std::stop_token stop) { submit_all(stop); });
  }
  threads_.emplace_back([this](std::stop_token stop) { watch(stop); });
  if (options_.tunnel) options_.tunnel->start([this] { heed_tunnel(); });
}

SlurmEngine::~SlurmEngine() {
  for (std::jthread& thread : threads_) thread.request_stop();
  if (scaler_) scaler_->stop();
  if (stop_) eventfd_write(stop_.get(), 1);
  if (options_.tunnel) options_.tunnel->stop();
  options_.commands->stop();
}

Outage SlurmEngine::outage() const {
  const ComputeSpec& compute = options_.compute;
  Outage outage{.limit = seconds(compute.outage_seconds),
                .unsent = seconds(compute.unsent_seconds)};
  // Where there is another way for it, nodes are not held for longer than a restart takes.
  if (!compute.shared_folder.empty()) outage.unsent = std::min(outage.unsent, kShelveAfter);
  return outage;
}

slurm::Patience SlurmEngine::patience() const {
  slurm::Patience patience = options_.patience;
  // A node that Slurm cannot reach has its job end for as long as Slurm waits for the node; it may
  // run on until its supervisor stops it.
  patience.ending = std::max(patience.ending, outage().limit + kOutageMargin);
  // Where nodes come and go, what a partition cannot have now it may have in a while.
  if (!options_.compute.node_up.empty()) {
    patience.never = std::chrono::minutes(10);
    patience.nodes_come = true;
  }
  patience.has_setup = !options_.compute.setup.empty();
  return patience;
}

slurm::ScalerOptions SlurmEngine::scaler_options() {
  return {.compute = options_.compute,
          .server_id = options_.server_id,
          .owner = options_.owner,
          .clock = options_.clock,
          .log = options_.log,
          .commands = *options_.commands,
          .claims = options_.claims,
          .patience = options_.scale_patience,
          .poke = [this] { note([](SteadyTime) {}); }};
}

std::string SlurmEngine::waits_for(const AttemptId& attempt) {
  std::lock_guard lock(mutex_);
  if (collecting_.contains(attempt)) return "what it left in the shared folder is being collected";
  const std::string silent = silence();
  std::string words = book_.waits_for(attempt, options_.clock.wall(), silent);
  if (!scaler_ || words.empty() || !book_.away().empty() || !silent.empty()) return words;
  // Which nodes are on their way says more than Slurm does.
  const std::string nodes = scaler_->words(attempt.str());
  return nodes.empty() ? words : nodes;
}

std::string SlurmEngine::silence() const {
  if (!count_trouble_.empty()) return count_trouble_;
  if (calls_.empty()) return {};
  const auto waited = options_.clock.steady() - *calls_.begin();
  if (waited < kSilent) return {};
  return "nothing was heard from it for " + format_duration(waited);
}

bool SlurmEngine::may_have_started(const AttemptId& attempt) {
  bool waits = false;
  note([&](SteadyTime now) {
    waits = book_.seen_waiting(attempt);
    if (waits) book_.look_soon(now);
  });
  return !waits;
}

NodesSeen SlurmEngine::nodes() {
  NodesSeen seen;
  std::unique_lock lock(mutex_);
  const SteadyTime now = options_.clock.steady();
  if ((!counted_ || now - counted_at_ > kLookKept) && silence().empty()) {
    count_wanted_ = true;
    ++changes_;
    changed_.notify_all();
    changed_.wait_for(lock, kLookMax, [&] { return counted_ && !count_wanted_; });
  }
  if (scaler_) {
    seen = scaler_->nodes();
  } else {
    seen = slurm::nodes_as_seen(book_.nodes(), options_.compute.partition);
  }
  if (seen_at_) seen.age = std::chrono::floor<seconds>(options_.clock.steady() - *seen_at_);
  if (const std::string why = book_.away().empty() ? silence() : book_.away(); !why.empty()) {
    seen.trouble = "Slurm does not answer: " + why;
    seen.away = true;
  }
  const auto runs = book_.runs_on_nodes();
  for (NodeState& node : seen.nodes) {
    if (const auto found = runs.find(node.name); found != runs.end()) node.runs = found->second;
    if (node.is == NodeState::Is::running && node.runs.empty() && node.reason.empty()) {
      node.reason = "jobs of others";
    }
  }
  return seen;
}

void SlurmEngine::heed_tunnel() {
  const std::string trouble = options_.tunnel->trouble();
  const std::string url = options_.tunnel->url();
  note([&](SteadyTime now) {
    book_.hold(trouble);
    if (!url.empty()) book_.serve_at(url);
    if (trouble.empty()) book_.look_soon(now);
  });
}

Capacity SlurmEngine::capacity() const {
  Capacity capacity;
  capacity.nodes = options_.compute.max_nodes;
  capacity.window = options_.window;
  capacity.tickets = true;
  int gpus = 0;
  std::lock_guard lock(mutex_);
  for (const slurm::Node& node : book_.nodes()) {
    if (options_.compute.partition.empty() && !node.default_partition) continue;
    capacity.cpus = std::max(capacity.cpus, node.cpus);
    capacity.memory_bytes = std::max(capacity.memory_bytes, node.memory_mb << 20);
    gpus = std::max(gpus, node.gpus);
  }
  capacity.gpus.resize(static_cast<size_t>(gpus));
  std::iota(capacity.gpus.begin(), capacity.gpus.end(), 0);
  return capacity;
}

std::unique_ptr<Engine> make_slurm(SlurmOptions options) {
  if (!options.commands) {
    options.commands = slurm::make_commands(slurm::command_options(options.compute, {}));
  }
  return std::make_unique<SlurmEngine>(std::move(options));
}

}  // namespace trainyard::engine
