#pragma once

#include <span>
#include <string>

#include "base/clock.h"
#include "base/home.h"
#include "http/client.h"

namespace trainyard::cli {

// Which server a command talks to.
struct Place {
  Home home;
  std::string url;  // Of a remote server; empty: the home's own, over its Unix socket.
  std::string token;

  bool remote() const { return !url.empty(); }
};

// --server, else --home, else $TRAINYARD_SERVER, else $TRAINYARD_HOME, else the saved server
// (settings.h), else the default home's. The token of a remote one: $TRAINYARD_TOKEN, else the one
// saved for its URL.
enum class Saved { use, ignore };
Result<Place> find_place(std::string_view server_flag, std::string_view home_flag,
                         Saved saved = Saved::use);

// A connection to a server that is there; `unavailable` when none is.
Result<http::Client> connect(const Place& place);

// The same, and starts the home's server when nobody listens. Any number of commands at once start
// one server. What the server says against starting is our error, as it is.
// `words` are options of `server run` for it.
Result<http::Client> connect_or_start(const Place& place, Clock& clock,
                                      std::span<const std::string> words = {});

// What the server that was last started in the background said to the terminal it did not have: its
// warnings, or the end of what it died of. Empty as a rule.
std::string last_words(const Home& home);

// What a starting server wrote to its --ready-fd: that it listens, or an Error as a line of JSON.
Status decode_ready(std::string_view text);

}  // namespace trainyard::cli
