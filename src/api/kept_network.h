#pragma once

#include "api/serve.h"

// How a server was told to be reached, kept in the home's server.json: listen, advertise, the TLS
// files, insecure and allow_server_target are one set. The next start that names none of them, an
// automatic one above all, uses what the last one had.
namespace trainyard::api {

// Puts what is kept into the options; nothing is kept: they stay.
Status use_kept_network(ServeOptions& options);

// The port that was kept; 0: none.
uint16_t kept_port(const Home& home);

// The server listens. `port`: its own choice, to be had again; 0: it was named.
Status keep_network(const ServeOptions& options, uint16_t port);

}  // namespace trainyard::api
