#include "api/serve.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "api/errors.h"
#include "api/kept_network.h"
#include "api/policy.h"
#include "api/route.h"
#include "api/secrets.h"
#include "base/file_limit.h"
#include "base/process.h"
#include "base/signals.h"
#include "base/variables.h"
#include "base/version.h"
#include "engine/local.h"
#include "env/install.h"
#include "node/program.h"
#include "wire/json.h"

namespace trainyard::api {
namespace {

Status check_listen(const Listen& listen, const ServeOptions& options);
Status check_tls(const Listen& listen, const ServeOptions& options);
void empty_folder(const fs::path& folder);
Facts facts_of(const ServeOptions& options, const Listen& listen, uint16_t port, WallTime now);
void keep_memory_small();

// What local runs are supervised by.
Result<fs::path> supervisor_program(const ServeOptions& options) {
  if (!options.binary.empty()) return options.binary;
  bool any = false;  // Runs of before.
  std::error_code none;
  for (fs::directory_iterator at(options.home.node(), none), end; !none && at != end;
       at.increment(none)) {
    any = any || !at->path().filename().string().starts_with('.');
  }
  auto program = node::install_program(options.home.node() / ".program",
                                       any ? node::Others::kept : node::Others::removed);
  return program ? program : self_path();  // None in this build, or no room for it.
}

}  // namespace

Serving::Serving(const ServeOptions& options) : options_(options) {}

Serving::~Serving() { stop(); }

Result<std::unique_ptr<Serving>> Serving::start(const ServeOptions& options) {
  TRY_SET(const Listen listen, parse_listen(options.listen));
  TRY(check_listen(listen, options));
  TRY(check_tls(listen, options));
  std::unique_ptr<Serving> serving(new Serving(options));
  TRY(serving->prepare());
  TRY(serving->open_parts());
  TRY(serving->start_http(listen));
  TRY(serving->start_control());
  return serving;
}

Status Serving::prepare() {
  keep_memory_small();
  stop_fd_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_fd_) return fail_errno(errno, "make an eventfd");
  TRY(prepare_home(options_.home));
  TRY_SET(HomeLock lock, HomeLock::take(options_.home));
  lock_ = std::make_unique<HomeLock>(std::move(lock));
  // The clock is needed to open the database, and the database's newest time for the clock.
  TRY_SET(const WallTime newest, store::Store::newest_time_of(options_.home.database()));
  clock_ = std::make_unique<MonotoneClock>(newest);
  TRY(lock_->describe(0, "", clock_->wall()));
  log_ = open_file_log(*clock_, {.path = options_.home.log()});
  for (const Tightened& one : tighten_home(options_.home)) {
    const std::string mode = fmt::format("{:o}", one.mode);
    if (one.error.empty()) {
      log_->warn("was open to others; closed", {{"path", one.path.string()}, {"mode", mode}});
    } else {
      log_->warn("is open to others", {{"path", one.path.string()}, {"error", one.error}});
    }
  }
  return {};
}

Status Serving::open_parts() {
  const Home& home = options_.home;
  empty_folder(home.tmp());
  TRY_SET(store_, store::Store::open(home.database(), *clock_, {.reserve = home.reserve()}));
  TRY_SET(blobs_, blob::open_folder(home.blobs(), home.tmp()));
  logs_ = std::make_unique<logs::LogStore>(home);
  house_ = std::make_unique<House>(House::Parts{.clock = *clock_,
                                                .log = *log_,
                                                .home = home,
                                                .store = *store_,
                                                .blobs = *blobs_,
                                                .logs = *logs_});
  add_routes(router_, *house_);
  return {};
}

// Listens before it is open: supervisors and commands that come meanwhile are answered 503 and try
// again.
Status Serving::start_http(const Listen& listen) {
  http::ServerOptions http{.unix_socket = options_.home.socket(),
                           .host = listen.host,
                           .port = listen.port,
                           .tls = options_.tls,
                           .connections_max = connections_for(raise_file_limit().now.rlim_cur),
                           .connections_per_address_max = options_.connections_per_address_max};
  const bool any = listen.port == 0;
  if (any) http.port = kept_port(options_.home);
  const auto on_error = [](int status, const Error& error) {
    return error_response(status, error);
  };
  Result<std::unique_ptr<http::Server>> server =
      http::Server::start(http, router_, *clock_, *log_, on_error);
  if (!server && any && http.port != 0) {
    log_->warn("port taken", {{"port", http.port}, {"error", server.error().message}});
    http.port = 0;
    server = http::Server::start(http, router_, *clock_, *log_, on_error);
  }
  if (!server) return std::unexpected(std::move(server).error());
  server_ = *std::move(server);
  return keep_network(options_, any ? server_->port() : uint16_t{0});
}

Status Serving::start_control() {
  const WallTime now = clock_->wall();
  TRY_SET(const Listen listen, parse_listen(options_.listen));
  const Facts facts = facts_of(options_, listen, server_->port(), now);
  TRY(lock_->describe(server_->port(), facts.url, now));
  if (options_.make_engine) {
    TRY_SET(engine_, options_.make_engine(*clock_, *log_));
  } else {
    TRY_SET(const fs::path binary, supervisor_program(options_));
    TRY_SET(engine_,
            engine::make_local(
                {.home = options_.home, .clock = *clock_, .log = *log_, .binary = binary}));
  }
  open_environments();
  image_digests_ = std::make_unique<container::ImageDigests>(
      [this](const std::string& image) { server_->notify(House::image_key(image)); });
  image_tags_ = std::make_unique<container::ImageTags>(container::ImageTags::Parts{
      .clock = *clock_,
      .variables = own_variables("TRAINYARD_"),
      .engine_socket = {},
      .folder = options_.home.cache() / "images",
      .done = [this](const std::string& image) { server_->notify(House::image_key(image)); }});
  control_ = control::Control::create({
      .clock = *clock_,
      .store = *store_,
      .engine = *engine_,
      .log = *log_,
      .addresses = {.socket = facts.socket,
                    .url = facts.url,
                    .blobs = options_.home.blobs(),
                    .environments = options_.home.environments()},
      .snapshot_check = [this](std::string_view tree) { return house_->trees.check_whole(tree); },
      .merge_outputs = [this](const auto& outputs) { return house_->trees.merge(outputs); },
      .environment_words =
          [this](const Environment& environment) { return environments_->words(environment); },
      .environment_ready =
          [this](const Environment& environment) { return environments_->is_packed(environment); },
      .environment_rules = {.check = [this](Environment& environment,
                                            const control::EnvironmentUse& use) -> Status {
                              TRY(check_interpreter(options_.interpreters, use.role,
                                                    environment.recipe));
                              return check_environment(*store_, use, environment);
                            },
                            .settle =
                                [this](std::string_view workspace, Environment& environment,
                                       const control::EnvironmentUse& use) {
                                  return settle_environment(workspace, environment, use.asked);
                                },
                            .rebuild =
                                [this](std::string_view workspace, const std::string& hash) {
                                  return environments_->rebuild_of(workspace, hash);
                                }},
      .note = [this](const RunId& run, const std::string& line) { house_->add_note(run, line); },
      .seal = [this](const RunId& run) { house_->seal(run); },
      .changed = [this](const RunId& run) { house_->run_changed(run); },
  });
  targets_ = std::make_unique<Targets>(Targets::Parts{.clock = *clock_,
                                                      .log = *log_,
                                                      .home = options_.home,
                                                      .store = *store_,
                                                      .control = *control_,
                                                      .url = facts.url,
                                                      .loopback = facts.loopback});
  house_->targets = targets_.get();
  machines_ = std::make_unique<Machines>(Machines::Parts{
      .clock = *clock_,
      .log = *log_,
      .store = *store_,
      .control = *control_,
      .wake = [this](const std::string& key) { server_->notify(House::machine_key(key)); }});
  house_->machines = machines_.get();
  build_runs_ = std::make_unique<BuildRuns>(
      BuildRuns::Parts{.clock = *clock_,
                       .log = *log_,
                       .store = *store_,
                       .control = *control_,
                       .blobs = *blobs_,
                       .logs = *logs_,
                       .trees = house_->trees,
                       .stopping = [this] { return house_->stopping(); }});
  gate_ = std::make_unique<Gate>(
      Gate::Parts{.log = *log_,
                  .store = *store_,
                  .control = *control_,
                  .logs = *logs_,
                  .environments = *environments_,
                  .printed = [this](const RunId& run) { house_->run_printed(run); }});
  house_->gate = gate_.get();
  collector_ = std::make_unique<Collector>(*house_, options_.collection);
  house_->collector = collector_.get();
  // Before what is under way there is taken up.
  TRY(targets_->open_all());
  TRY(machines_->open_all());
  TRY(control_->recover());
  house_->open(*control_, *server_, facts, [this] {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(stop_fd_.get(), &one, sizeof one);
  });
  control_thread_ = std::jthread([this](std::stop_token stop) { control_->run(stop); });
  gate_->start();
  collector_->start();
  log_->info("server started", {{"version", kVersion}, {"url", facts.url}, {"pid", facts.pid}});
  return {};
}

// By what the user is now: who was an admin when the run was submitted may be none any more.
bool Serving::is_admin(store::Store& store, const std::string& user) {
  const Result<std::vector<User>> users = store.users();
  return users && std::ranges::any_of(*users, [&](const User& each) {
           return each.name == user && each.role == Role::admin;
         });
}

// Programs that build find what ours finds: proxies, an index of one's own, certificates.
void Serving::open_environments() {
  env::Settings settings{.variables = own_variables("TRAINYARD_"),
                         .cache = options_.home.cache() / "packages",
                         .blobs = options_.home.blobs()};
  // Removes what builds of a killed server left behind.
  static_cast<void>(remove_tree(settings.cache / env::kWheels / env::kBuilds).has_value());
  environments_ = std::make_unique<Environments>(Environments::Parts{
      .clock = *clock_,
      .log = *log_,
      .folder = options_.home.environments(),
      .blobs = *blobs_,
      .settings = std::move(settings),
      .bytes_max = options_.environments_bytes_max,
      .secret = [this](std::string_view workspace,
                       std::string_view name) { return secret_value(*house_, workspace, name); },
      .build = env::build,
      .sandbox = [this] { return env::open_sandbox({options_.home.root()}); },
      .trusts = [this](const std::string& user) { return is_admin(*store_, user); },
      .build_elsewhere = [this](const auto& wanted,
                                auto& watcher) { return build_runs_->build(wanted, watcher); },
      .changed =
          [this](const std::string& hash) {
            server_->notify(House::environment_key(hash));
            if (gate_) gate_->changed();
          }});
  house_->environments = environments_.get();
}

Status Serving::settle_environment(std::string_view workspace, Environment& environment,
                                   SteadyTime asked) {
  Recipe& recipe = environment.recipe;
  TRY_SET(recipe.platform, environments_->platform(recipe));
  const std::string pending(container::kDigestPending);
  if (recipe.image.empty() ||
      container::image_source(recipe.image).form != container::ImageSource::Form::named) {
    recipe.image_digest =
        image_digests_->find(recipe.image, environment.image_folders).value_or(pending);
    return {};
  }
  const ImageRegistry& registry = environment.registry;
  container::Credentials credentials{
      .server = registry.address, .username = registry.username, .password = {}};
  if (!registry.secret.empty()) {
    TRY_SET(credentials.password, secret_value(*house_, workspace, registry.secret));
  }
  const auto found = image_tags_->find(recipe.image, credentials, asked);
  recipe.image_digest = found ? found->digest : pending;
  if (found && !found->warning.empty()) environment.warnings.push_back(found->warning);
  return {};
}

void Serving::stop() {
  if (house_) house_->stop_waiting();
  if (server_) server_->stop();
  if (control_thread_.joinable()) {
    control_thread_.request_stop();
    control_thread_.join();
    log_->info("server stopped");
  }
  if (collector_) collector_->stop();
  // Its end first: what is given up then is no answer to those who are held.
  if (gate_) gate_->stop();
  collector_.reset();
  environments_.reset();
  image_digests_.reset();
  image_tags_.reset();
  gate_.reset();
  build_runs_.reset();
  control_.reset();
  targets_.reset();
  machines_.reset();
  engine_.reset();
  server_.reset();
  if (lock_) lock_->clear();
  store_.reset();
  lock_.reset();
}

Status serve(const ServeOptions& options) {
  Fd ready(options.ready_fd);
  TRY_SET(const Fd arrived, watch_for_end());

  Result<std::unique_ptr<Serving>> serving = Serving::start(options);
  if (ready) {
    const std::string word =
        serving ? "ok\n" : wire::dump(wire::error_to_json(serving.error())) + "\n";
    // Nobody need be there to read it.
    [[maybe_unused]] const Status told = write_all(ready.get(), word, "ready");
    ready.reset();
  }
  if (!serving) return std::unexpected(std::move(serving).error());

  pollfd waits[] = {{arrived.get(), POLLIN, 0}, {(*serving)->stop_fd(), POLLIN, 0}};
  while (::poll(waits, std::size(waits), -1) < 0 && errno == EINTR) {
  }
  (*serving)->stop();
  return {};
}

namespace {

Status check_listen(const Listen& listen, const ServeOptions& options) {
  if (listen.loopback() || options.tls.given() || options.insecure) return {};
  return fail(ErrorKind::denied,
              "listening on " + listen.host + " would send tokens over the network unencrypted",
              "Give --tls-cert FILE and --tls-key FILE (see docs/tls.md), or say --insecure.");
}

// Half-written blobs of a server that was killed.
void empty_folder(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    [[maybe_unused]] const Status removed = remove_tree(at->path());
  }
}

std::string url_of(const ServeOptions& options, const Listen& listen, uint16_t port) {
  if (!options.advertise.empty()) return options.advertise;
  const bool everywhere = listen.host == "0.0.0.0" || listen.host == "::";
  return (options.tls.given() ? "https://" : "http://") +
         (everywhere ? host_name() : listen.url_host()) + ":" + std::to_string(port);
}

// The host in "http://host:port/…".
std::string host_of_url(std::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme != std::string_view::npos) url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find('/'));
  if (url.starts_with('[')) return std::string(url.substr(0, url.find(']') + 1));
  return std::string(url.substr(0, url.find(':')));
}

// Before anything is opened: so that nothing is left behind when it fails.
Status check_tls(const Listen& listen, const ServeOptions& options) {
  if (!options.tls.given()) return {};
  std::string host = host_of_url(url_of(options, listen, 0));
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  TRY_SET(const std::vector<std::string> warnings, http::check_tls_files(options.tls, host));
  for (const std::string& warning : warnings) {
    if (options.warn) options.warn(warning);
  }
  return {};
}

Facts facts_of(const ServeOptions& options, const Listen& listen, uint16_t port, WallTime now) {
  Facts facts;
  facts.url = url_of(options, listen, port);
  facts.socket = options.home.socket();
  facts.host = host_name();
  facts.pid = ::getpid();
  facts.started = now;
  // With TLS a stranger's page cannot pass for one of ours: its name is in no certificate here.
  facts.check_host = listen.loopback() && !options.tls.given();
  facts.loopback = listen.loopback() && options.advertise.empty();
  facts.server_target = facts.loopback || options.allow_server_target;
  facts.hosts.push_back(listen.url_host());
  if (!options.advertise.empty()) facts.hosts.push_back(host_of_url(options.advertise));
  return facts;
}

// An idle server is to be small. Each thread would get an arena of its own, and large buffers would
// stay with us after they were freed.
void keep_memory_small() {
  ::mallopt(M_ARENA_MAX, 2);
  ::mallopt(M_MMAP_THRESHOLD, 256 * 1024);
  ::mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
}

}  // namespace
}  // namespace trainyard::api
