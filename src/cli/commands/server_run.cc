#include "api/serve.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"

namespace trainyard::cli {
namespace {

constexpr Option kOptions[] = {
    {"--listen", Takes::value, "HOST:PORT", "The TCP address; else 127.0.0.1 and the port it had."},
    {"--advertise", Takes::value, "URL", "How others reach it, where that is another address."},
    {"--tls-cert", Takes::value, "FILE", "Speak TLS on TCP with this certificate (PEM)."},
    {"--tls-key", Takes::value, "FILE", "The certificate's key (PEM)."},
    {"--insecure", Takes::nothing, "", "Listen beyond this machine without encryption."},
    {"--ready-fd", Takes::value, "FD", "Where to say that it listens, for what started it."},
};

// Kept whole: it is looked at again long after, and from wherever we are then.
Result<fs::path> absolute_file(const Args& args, std::string_view key) {
  if (!args.has(key)) return fs::path();
  if (args.value(key).empty()) {
    return fail(ErrorKind::invalid, "--" + std::string(key) + " needs the name of a file");
  }
  std::error_code error;
  fs::path file = fs::absolute(args.value(key), error);
  if (error) return fail_errno(error.value(), args.value(key));
  return file;
}

}  // namespace

constinit const std::span<const Option> kServerRunOptions = kOptions;

Result<int> server_run(Context& context) {
  const Args& args = context.args();
  TRY_SET(Home home, find_home(args.value("home")));
  TRY_SET(const std::optional<int> ready_fd, int_option(args, "ready-fd", 0));
  api::ServeOptions options{.home = std::move(home)};
  if (args.has("listen")) options.listen = args.value("listen");
  options.insecure = args.has("insecure");
  options.advertise = args.value("advertise");
  TRY_SET(options.tls.certificate, absolute_file(args, "tls-cert"));
  TRY_SET(options.tls.key, absolute_file(args, "tls-key"));
  options.warn = [&](const std::string& words) { context.warn(words); };
  options.ready_fd = ready_fd.value_or(-1);
  TRY(api::serve(options));
  return kExitOk;
}

}  // namespace trainyard::cli
