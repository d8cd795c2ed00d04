#pragma once

#include <map>
#include <optional>
#include <string>

#include "api/house.h"
#include "http/message.h"
#include "store/members.h"
#include "store/store.h"

namespace trainyard::api {

// Who may use a route.
enum class Needs {
  nothing,  // Anybody, without a token.
  reader,
  submitter,
  admin,
  local_admin,  // And only over the Unix socket: it acts on the server's own machine.
  attempt,      // Only the token of the very attempt in the URL.
  handover,     // Only a ticket (model/handover.h); the handler looks at whose.
  node_token,   // Only a one-time token of a machine that is to join.
  machine,      // A machine's credential, or a submitter; the handler looks at whose machine it is.
};

// What an attempt's token may do on a route that asks for a role.
enum class Attempts {
  refused,
  allowed,
  own_workspace,  // The handler looks at whose workspace it is.
};

// Does the Host header name us?
Status check_host(const Facts& facts, const http::Request& request);

// What stands behind "Bearer" in the Authorization header; empty: there is none.
std::string_view bearer_token(const http::Request& request);

// Who asks: the bearer token's owner; without one, over the Unix socket, an admin named after the
// system user at the other end. `denied` is to be answered 401.
Result<store::Identity> identify(House& house, const http::Request& request);

// May they? `attempt` is the one in the URL, for Needs::attempt.
Status check_may(const store::Identity& identity, Needs needs, Attempts attempts, bool unix_socket,
                 const std::optional<AttemptId>& attempt);

// The role that a route asks for; none where it asks for something else.
std::optional<Role> role_needed(Needs needs);

// ---- workspaces ----

// What somebody may do in a workspace; nothing: not even look. The one place that decides it: the
// role on the server bounds what a route lets them do at all, this what they may do there.
std::optional<Role> role_in(const store::Identity& identity,
                            const store::WorkspaceAccess& workspace);
// `denied` below `needed`, with who could change that.
Status check_role_in(const store::Identity& identity, const store::WorkspaceAccess& workspace,
                     Role needed);
// The same of a workspace by its name; not_found.
Status check_role_in(House& house, const store::Identity& identity, std::string_view workspace,
                     Role needed);
// Those in which they may not even look.
Result<std::vector<store::WorkspaceAccess>> closed_workspaces(House& house,
                                                              const store::Identity& identity);

}  // namespace trainyard::api
