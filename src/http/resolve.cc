#include "http/resolve.h"

#include <strings.h>
#include <sys/socket.h>

#include <algorithm>
#include <ranges>
#include <tuple>

#include "base/command.h"
#include "base/file.h"
#include "base/text.h"

namespace trainyard::http {
namespace {

constexpr const char* kHostsFile = "/etc/hosts";

// -> EAI_NONAME and nothing where `flags` hold AI_NUMERICHOST and it is a name.
std::pair<int, AddressList> ask(const std::string& host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  return {error, AddressList(error == 0 ? list : nullptr, &::freeaddrinfo)};
}

// Words between blanks and tabs.
std::vector<std::string> words_of(std::string_view line) {
  std::string spaced(line);
  std::ranges::replace(spaced, '\t', ' ');
  std::vector<std::string> words = split(spaced, ' ');
  std::erase(words, "");
  return words;
}

}  // namespace

Result<AddressList> resolve(const std::string& host, uint16_t port, milliseconds timeout) {
  auto [error, list] = ask(host, port, AI_NUMERICHOST);
  if (error == EAI_NONAME && !statically_linked()) {
    std::tie(error, list) = ask(host, port, 0);
  } else if (error == EAI_NONAME) {
    TRY_SET(const std::vector<std::string> found, look_up_without_libraries(host, timeout));
    AddressList all(nullptr, &::freeaddrinfo);
    for (const std::string& address : std::views::reverse(found)) {
      auto [failed, one] = ask(address, port, AI_NUMERICHOST);
      if (failed != 0) continue;
      // One chain, made from its end; freeaddrinfo() frees them one by one.
      addrinfo* last = one.get();
      while (last->ai_next != nullptr) last = last->ai_next;
      last->ai_next = all.release();
      all = std::move(one);
    }
    if (!all) return fail(ErrorKind::unavailable, "the name has no address");
    return all;
  }
  if (error != 0) return fail(ErrorKind::unavailable, ::gai_strerror(error));
  return std::move(list);
}

Result<std::vector<std::string>> look_up_without_libraries(const std::string& host,
                                                           milliseconds timeout) {
  if (const Result<std::string> text = read_file(kHostsFile); text) {
    std::vector<std::string> found = addresses_in_hosts(*text, host);
    if (!found.empty()) return found;
  }
  constexpr const char* kHint =
      "Give the server an address that needs no look-up: trainyard server --advertise "
      "http://NUMBER:PORT.";
  const Result<std::string> said = output_of({"getent", "ahosts", host}, timeout);
  if (!said && said.error().kind == ErrorKind::not_found) {
    return fail(ErrorKind::unavailable,
                "the name is not in /etc/hosts, and there is no getent here to look it up", kHint);
  }
  if (!said) {
    return fail(ErrorKind::unavailable, "the name is not known here (" + said.error().message + ")",
                kHint);
  }
  std::vector<std::string> found;
  for (const std::string& line : split(*said, '\n')) {
    const std::vector<std::string> words = words_of(line);
    // Each address stands there once for each kind of socket.
    if (words.empty() || std::ranges::find(found, words[0]) != found.end()) continue;
    found.push_back(words[0]);
  }
  return found;
}

std::vector<std::string> addresses_in_hosts(std::string_view text, std::string_view host) {
  std::vector<std::string> found;
  for (const std::string& line : split(text, '\n')) {
    const std::vector<std::string> words = words_of(line.substr(0, line.find('#')));
    const bool named = std::any_of(
        words.begin() + (words.empty() ? 0 : 1), words.end(), [&](const std::string& word) {
          return word.size() == host.size() &&
                 ::strncasecmp(word.data(), host.data(), host.size()) == 0;
        });
    if (named) found.push_back(words[0]);
  }
  return found;
}

}  // namespace trainyard::http
