#include <algorithm>

#include "api/kept_network.h"
#include "api/serve.h"
#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"

namespace trainyard::cli {
namespace {

constexpr Option kServerRunRows[] = {
    {"--listen", Takes::value, "HOST:PORT",
     "The TCP address; else as the last time, at first 127.0.0.1."},
    {"--advertise", Takes::value, "URL", "How others reach it, where that is another address."},
    {"--tls-cert", Takes::value, "FILE", "Speak TLS on TCP with this certificate (PEM)."},
    {"--tls-key", Takes::value, "FILE", "The certificate's key (PEM)."},
    {"--insecure", Takes::nothing, "", "Listen beyond this machine without encryption."},
    {"--allow-server-target", Takes::nothing, "",
     "Let runs use this machine (--target server) though it listens beyond it."},
    {"--environments-max", Takes::value, "SIZE",
     "Keep at most so much of built environments (50G; 0: all)."},
    {"--interpreters", Takes::value, "PATH[:PATH…]",
     "Pythons that anybody may name by path in an environment."},
    {"--gc-every", Takes::value, "TIME",
     "Remove what nothing refers to this often (default: 6h; 0: only by server gc)."},
    {"--connections-per-address", Takes::value, "N",
     "Accept at most N connections from one address (default: half of all)."},
    {"--ready-fd", Takes::value, "FD", "Where to say that it listens, for what started it."},
};

}  // namespace

constinit const std::span<const Option> kServerRunOptions = kServerRunRows;

Result<fs::path> file_option(const Args& args, std::string_view key) {
  if (!args.has(key)) return fs::path();
  const std::string given = args.value(key);
  if (given.empty()) {
    return fail(ErrorKind::invalid, "--" + std::string(key) + " needs the name of a file");
  }
  std::error_code error;
  fs::path file = fs::absolute(given, error);
  if (error) return fail_errno(error.value(), given);
  return file;
}

Result<int> server_run(Context& context) {
  const Args& args = context.args();
  TRY_SET(Home home, find_home(args.value("home")));
  TRY_SET(const std::optional<int> ready_fd, int_option(args, "ready-fd", 0));
  api::ServeOptions options{.home = std::move(home)};
  if (args.has("listen")) options.listen = args.value("listen");
  options.insecure = args.has("insecure");
  options.allow_server_target = args.has("allow-server-target");
  options.advertise = args.value("advertise");
  TRY_SET(options.tls.certificate, file_option(args, "tls-cert"));
  TRY_SET(options.tls.key, file_option(args, "tls-key"));
  constexpr std::string_view kNetwork[] = {"listen", "advertise", "tls-cert", "tls-key",
                                           "insecure"};
  const bool told = std::ranges::any_of(kNetwork, [&](auto key) { return args.has(key); });
  if (!told) TRY(api::use_kept_network(options));
  options.warn = [&](const std::string& words) { context.warn(words); };
  if (args.has("environments-max")) {
    TRY_SET(const int64_t most, parse_size(args.value("environments-max"), "--environments-max"));
    options.environments_bytes_max = static_cast<uint64_t>(most);
  }
  for (const std::string& path : split(args.value("interpreters"), ':')) {
    if (path.empty()) continue;
    if (!path.starts_with('/')) {
      return fail(ErrorKind::invalid, "--interpreters: '" + path + "' is no absolute path");
    }
    options.interpreters.push_back(path);
  }
  if (args.has("gc-every")) {
    TRY_SET(options.collection.every, parse_duration(args.value("gc-every"), "--gc-every"));
  }
  TRY_SET(const std::optional<int> per_address, int_option(args, "connections-per-address", 1));
  options.connections_per_address_max = static_cast<size_t>(per_address.value_or(0));
  options.ready_fd = ready_fd.value_or(-1);
  TRY(api::serve(options));
  return kExitOk;
}

}  // namespace trainyard::cli
