#include "api/targets.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <set>

#include "base/command.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/slots.h"
#include "engine/slurm.h"
#include "node/program.h"
#include "store/computes.h"
#include "store/vm_sizes.h"
#include "wire/json.h"

namespace trainyard::api {
namespace {

constexpr seconds kCheckTime{4};  // Somebody waits for `compute create`.

// Slurm takes several, with commas. A controller that does not answer refuses nothing: it may be
// back before the first run.
Result<std::string> check_partition(engine::slurm::Commands& commands, const std::string& asked) {
  const auto text = commands.ask({"sinfo", "--all", "--noheader", "--format=%R"});
  if (!text) return "Slurm does not answer: " + text.error().message;
  std::vector<std::string> known;
  for (const std::string& line : split(*text, '\n')) {
    if (const std::string_view name = trim(line); !name.empty()) known.emplace_back(name);
  }
  if (known.empty() || asked.empty()) return std::string();
  for (const std::string& name : split(asked, ',')) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return fail(ErrorKind::invalid, "the cluster has no partition '" + name + "'",
                "It has: " + join(known, ", ") + ".");
  }
  return std::string();
}

// A laptop sleeps now and then; a job that has its nodes waits for it for so long.
constexpr seconds kReachBehindTunnel{1800};
constexpr size_t kTargetIdLength = 12;  // Of 32 letters: no two homes have the same.

uint16_t port_of(std::string_view url) {
  const Result<int64_t> port = parse_int(url.substr(url.rfind(':') + 1), "port");
  return port ? static_cast<uint16_t>(*port) : uint16_t{0};
}

// An address is this machine's when a socket can have it.
bool is_this_machine(const std::string& host) {
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, nullptr, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const Fd fd(socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (fd && bind(fd.get(), each->ai_addr, each->ai_addrlen) == 0) return true;
  }
  return false;
}

std::string queue_of_compute(const Compute& compute) {
  RunSpec spec;
  spec.workspace = compute.workspace;
  spec.target = compute.spec.name;
  return queue_of(spec);
}

}  // namespace

Result<std::string> server_id(const Home& home) {
  const fs::path file = home.root() / "server-id";
  if (const Result<std::string> kept = read_file(file)) return std::string(trim(*kept));
  std::string id = new_secret("").substr(0, kTargetIdLength);
  TRY(write_file(file, id + "\n", 0600, Durable::yes));
  return id;
}

Status Targets::open_all() {
  std::vector<Compute> computes;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(computes, store::all_computes(db));
    return {};
  };
  TRY(parts_.store.read(look));
  for (const Compute& compute : computes) {
    if (const Status opened = open(compute); !opened) {
      parts_.log.error("target not opened",
                       {{"compute", compute.spec.name}, {"error", opened.error().message}});
    }
  }
  return {};
}

Status Targets::choose_engine(ComputeSpec& spec) {
  if (!spec.engine.empty()) return {};
  const bool has_slurm = !find_program("sbatch").empty();
  const std::string setting = slurm_setting(spec);
  if (has_slurm || !spec.ssh.empty()) {
    spec.engine = "slurm";
    return {};
  }
  if (!setting.empty()) {
    return fail(ErrorKind::invalid,
                setting + ": is Slurm's, and there is no sbatch in the PATH of the server",
                "If the cluster has a login machine: --ssh USER@LOGIN\n"
                "If sbatch will be there: --engine slurm\n"
                "For nodes that are slots of the server's machine, leave it out.");
  }
  spec.engine = "local";
  spec.slurm_conf.clear();
  return {};
}

Result<std::string> Targets::check(const ComputeSpec& spec) const {
  if (spec.engine != "slurm") return std::string();
  engine::slurm::CommandOptions options = engine::slurm::command_options(spec, {});
  options.timeout = kCheckTime;
  const auto commands = engine::slurm::make_commands(std::move(options));
  if (spec.ssh.empty()) return check_partition(*commands, spec.partition);
  const Status there = commands->check();
  if (there) return check_partition(*commands, spec.partition);
  // What is wrong is in the request: it is refused, and not tried again.
  return fail(ErrorKind::invalid, there.error().message, there.error().hint);
}

bool Targets::nodes_are_here(const ComputeSpec& spec) {
  const auto commands = engine::slurm::make_commands(engine::slurm::command_options(spec, {}));
  std::vector<std::string> command = {"sinfo", "--noheader", "--Node", "--format=%o"};
  if (!spec.partition.empty()) command.push_back("--partition=" + spec.partition);
  const Result<std::string> answer = commands->ask(std::move(command));
  if (!answer) return false;
  const std::vector<std::string> lines = split(trim(*answer), '\n');
  const std::set<std::string> addresses(lines.begin(), lines.end());
  return std::ranges::all_of(addresses, is_this_machine);
}

Status Targets::open(const Compute& compute) {
  TRY_SET(std::shared_ptr<engine::Engine> engine,
          compute.spec.engine == "local" ? open_slots(compute) : open_slurm(compute));
  const std::string queue = queue_of_compute(compute);
  engines_.with([&](auto& engines) { engines[queue] = engine; });
  parts_.control.add_target(queue, std::move(engine));
  parts_.control.pause_target(queue, compute.paused);
  return {};
}

// One that is open stays, with what it watches.
Result<std::shared_ptr<engine::Engine>> Targets::open_slots(const Compute& compute) {
  engine::Slots::Settings settings{.compute = compute.spec,
                                   .size = {},
                                   .paused = compute.paused,
                                   .submitters_here = parts_.loopback};
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(settings.size, store::load_vm_size(db, compute.spec.vm_size));
    return {};
  };
  if (!compute.spec.vm_size.empty()) TRY(parts_.store.read(look));
  const std::string queue = queue_of_compute(compute);
  const auto open = engines_.with([&](auto& engines) { return engines[queue].lock(); });
  if (const auto slots = std::dynamic_pointer_cast<engine::Slots>(open)) {
    slots->change(std::move(settings));
    return open;
  }
  TRY_SET(const fs::path self, self_path());
  TRY_SET(const std::shared_ptr<engine::Slots> made,
          engine::Slots::make(
              {.home = parts_.home, .clock = parts_.clock, .log = parts_.log, .binary = self},
              std::move(settings)));
  return made;
}

Result<std::shared_ptr<engine::Engine>> Targets::open_slurm(const Compute& compute) {
  if (server_id_.empty()) {
    TRY_SET(server_id_, server_id(parts_.home));
  }
  TRY_SET(const node::Program program, node::program());
  engine::slurm::CommandOptions commands =
      engine::slurm::command_options(compute.spec, parts_.home.root() / "ssh");
  engine::SlurmOptions options{.compute = compute.spec,
                               .server_id = server_id_,
                               .compute_id = compute.id,
                               .clock = parts_.clock,
                               .log = parts_.log,
                               .program_sha256 = program.digest.hex(),
                               .server_url = parts_.url};
  if (!compute.spec.ssh.empty() && parts_.loopback) {
    options.tunnel = make_tunnel(compute, program);
    options.reach_patience = kReachBehindTunnel;
    commands.ssh_control = options.tunnel->control();
  }
  options.commands = engine::slurm::make_commands(std::move(commands));
  options.claims = claims_;
  options.owner = compute.spec.name + " of workspace " + compute.workspace;
  options.paused = compute.paused;
  TRY_SET(options.binary, self_path());
  options.collected = parts_.home.root() / "collected";
  options.take_over = [this](const AttemptId& attempt) {
    return parts_.control.take_over(attempt);
  };
  return engine::make_slurm(std::move(options));
}

void Targets::pause(const Compute& compute) {
  const std::string queue = queue_of_compute(compute);
  parts_.control.pause_target(queue, compute.paused);
  if (const auto engine = engines_.with([&](auto& engines) { return engines[queue].lock(); })) {
    engine->pause(compute.paused);
  }
}

engine::NodesSeen Targets::nodes(const Compute& compute) {
  const std::string queue = queue_of_compute(compute);
  const auto engine = engines_.with([&](auto& engines) { return engines[queue].lock(); });
  return engine ? engine->nodes() : engine::NodesSeen{};
}

std::shared_ptr<engine::NodeShell> Targets::shell(const Compute& compute) {
  const std::string queue = queue_of_compute(compute);
  const auto engine = engines_.with([&](auto& engines) { return engines[queue].lock(); });
  return engine ? engine->shell() : nullptr;
}

std::unique_ptr<engine::slurm::Tunnel> Targets::make_tunnel(const Compute& compute,
                                                            const node::Program& program) {
  engine::slurm::TunnelOptions options{.ssh = compute.spec.ssh,
                                       .slurm_conf = compute.spec.slurm_conf,
                                       .partition = compute.spec.partition,
                                       .folder = parts_.home.root() / "ssh",
                                       .name = std::to_string(compute.id),
                                       .server_port = port_of(parts_.url),
                                       .program = program.bytes,
                                       .program_sha256 = program.digest.hex(),
                                       .clock = parts_.clock,
                                       .log = parts_.log};
  return std::make_unique<engine::slurm::Tunnel>(std::move(options));
}

void Targets::close(const Compute& compute) {
  parts_.control.remove_target(queue_of_compute(compute));
}

}  // namespace trainyard::api
