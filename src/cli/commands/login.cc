#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/quiet.h"
#include "cli/settings.h"

namespace trainyard::cli {
namespace {

constexpr Option kLoginRows[] = {
    {"--list", Takes::nothing, "", "List the saved servers."},
};

constexpr std::string_view kServerKeys[] = {"url", "user", "current"};
constexpr size_t kTokenMax = 4096;

Result<std::string> token_from_stdin() {
  std::string text;
  char buffer[1024];
  for (;;) {
    const ssize_t got = read(STDIN_FILENO, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "read the token");
    if (got == 0) return std::string(trim(text));
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kTokenMax) return fail(ErrorKind::invalid, "that is no token: too long");
  }
}

// Asks the server which user the token belongs to.
Result<std::string> ask_user(const std::string& url, const std::string& token) {
  TRY_SET(http::Address address, http::Address::parse_url(url));
  client::Api api{http::Client(std::move(address), token)};
  TRY_SET(const Json server, api.server(false));
  return cell_of(server, "user");
}

// $TRAINYARD_TOKEN, else the standard input or a prompt; a saved one where neither has one.
Result<std::string> token_for(const std::string& url, const Settings& settings) {
  const char* given = std::getenv("TRAINYARD_TOKEN");
  if (given != nullptr && *given != '\0') return std::string(given);
  const auto saved = settings.servers.find(url);
  const bool is_saved = saved != settings.servers.end();
  std::string token;
  if (isatty(STDIN_FILENO) == 1) {
    TRY_SET(token,
            ask_quietly("token for " + url + (is_saved ? " (empty: the saved one)" : "") + ": "));
    token = trim(token);
  } else {
    TRY_SET(token, token_from_stdin());
  }
  if (!token.empty()) return token;
  if (is_saved) return saved->second.token;
  return fail(ErrorKind::invalid, "a token is needed",
              "An admin of the server makes one with: trainyard token create. Give it by "
              "TRAINYARD_TOKEN, by the standard input, or when you are asked.");
}

Status print_servers(Context& context, const Settings& settings) {
  Json list = Json::array();
  for (const auto& [url, server] : settings.servers) {
    list.push_back({{"url", url}, {"user", server.user}, {"current", url == settings.server}});
  }
  if (list.empty()) context.say("no server is saved; save one with: trainyard login URL");
  return context.print(
      list, {.table = [](const Json& servers) { return plain_table(servers, kServerKeys); }});
}

}  // namespace

constinit const std::span<const Option> kLoginOptions = kLoginRows;

Result<int> login(Context& context) {
  TRY_SET(Settings settings, load_settings());
  const Args& args = context.args();
  if (args.has("list")) {
    TRY(print_servers(context, settings));
    return kExitOk;
  }
  std::string url = args.words().empty() ? args.value("server") : args.words().front();
  while (url.ends_with('/')) url.pop_back();
  if (url.empty()) {
    return fail(ErrorKind::invalid, "which server?",
                "As in: trainyard login https://yard.example:8470. "
                "Saved ones are listed by: trainyard login --list");
  }
  TRY(http::Address::parse_url(url));
  TRY_SET(const std::string token, token_for(url, settings));
  TRY_SET(const std::string user, ask_user(url, token));
  settings.servers[url] = {user, token};
  settings.server = url;
  TRY(save_settings(settings));
  context.say("logged in to " + url + " as " + user + "; commands use it from now on");
  for (const char* name : {"TRAINYARD_SERVER", "TRAINYARD_HOME"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') {
      context.warn(std::string(name) + " is set and wins over it");
    }
  }
  return kExitOk;
}

Result<int> logout(Context& context) {
  TRY_SET(Settings settings, load_settings());
  std::string url = context.args().words().empty() ? context.args().value("server")
                                                   : context.args().words().front();
  while (url.ends_with('/')) url.pop_back();
  if (url.empty()) url = settings.server;
  if (settings.servers.erase(url) == 0) {
    return fail(ErrorKind::not_found, url.empty() ? "no server is in use" : url + " is not saved",
                "Saved ones are listed by: trainyard login --list");
  }
  if (settings.server == url) settings.server.clear();
  TRY(save_settings(settings));
  context.say("logged out of " + url + "; its token is still good until it is revoked");
  return kExitOk;
}

}  // namespace trainyard::cli
