#include "api/targets.h"

#include "base/id.h"
#include "engine/slurm.h"
#include "node/program.h"
#include "store/computes.h"
#include "wire/json.h"

namespace trainyard::api {
namespace {

constexpr size_t kIdLength = 12;  // Of 32 letters: no two homes have the same.

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
  const std::string id = new_secret("").substr(0, kIdLength);
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

Status Targets::open(const Compute& compute) {
  if (server_id_.empty()) {
    TRY_SET(server_id_, server_id(parts_.home));
  }
  TRY_SET(const node::Program program, node::program());
  engine::SlurmOptions options{
      .compute = compute.spec,
      .server_id = server_id_,
      .clock = parts_.clock,
      .log = parts_.log,
      .program_sha256 = program.digest.hex(),
      .commands = engine::slurm::make_commands(
          engine::slurm::command_options(compute.spec, parts_.home.root() / "ssh"))};
  const std::string queue = queue_of_compute(compute);
  options.claims = claims_;
  options.owner = compute.spec.name + " of workspace " + compute.workspace;
  options.paused = compute.paused;
  std::shared_ptr<engine::Engine> engine = engine::make_slurm(std::move(options));
  engines_.with([&](auto& engines) { engines[queue] = engine; });
  parts_.control.add_target(queue, std::move(engine));
  parts_.control.pause_target(queue, compute.paused);
  return {};
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

void Targets::close(const Compute& compute) {
  parts_.control.remove_target(queue_of_compute(compute));
}

}  // namespace trainyard::api
