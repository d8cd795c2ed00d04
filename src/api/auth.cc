#include "api/auth.h"

#include <pwd.h>
#include <strings.h>

#include <algorithm>
#include <vector>

#include "model/handover.h"

namespace trainyard::api {
namespace {

constexpr size_t kPasswordEntryMax = 64 * 1024;

// The host of "host:port" or "[::1]:port".
std::string_view host_part(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

bool same_host(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::string system_user(unsigned uid) {
  std::vector<char> buffer(kPasswordEntryMax);
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) {
    return "uid-" + std::to_string(uid);
  }
  return found->pw_name;
}

std::unexpected<Error> denied(std::string message, std::string hint = {}) {
  return fail(ErrorKind::denied, std::move(message), std::move(hint));
}

}  // namespace

Status check_host(const Facts& facts, const http::Request& request) {
  if (request.peer.unix_socket || !facts.check_host) return {};
  // A node that came by way of a login machine knows us by that machine's name. It shows the token
  // of its attempt, which no page of a stranger's has.
  const std::string_view bearer = bearer_token(request);
  if (bearer.starts_with(kAttemptTokenPrefix) || bearer.starts_with(kTicketPrefix)) return {};
  const std::string_view host = host_part(request.header("host"));
  const bool known = std::ranges::any_of(
      facts.hosts, [&](const std::string& ours) { return same_host(ours, host); });
  if (known) return {};
  return denied("the Host header does not name this server",
                "Use the address that 'trainyard server status' prints, or start the server with "
                "--advertise.");
}

std::string_view bearer_token(const http::Request& request) {
  constexpr std::string_view kBearer = "bearer ";
  const std::string_view given = request.header("authorization");
  if (given.size() <= kBearer.size() ||
      ::strncasecmp(given.data(), kBearer.data(), kBearer.size()) != 0) {
    return {};
  }
  return given.substr(kBearer.size());
}

Result<store::Identity> identify(House& house, const http::Request& request) {
  if (!request.header("authorization").empty()) {
    const std::string_view token = bearer_token(request);
    if (token.empty()) return denied("the Authorization header is not 'Bearer TOKEN'");
    // Never looked up: a ticket is the attempt's token until it is handed over, and yet may do
    // nothing else.
    if (token.starts_with(kTicketPrefix)) return store::Identity{.handover = true};
    return house.store.identify(token);
  }
  if (!request.peer.unix_socket) {
    return denied("a token is needed",
                  "Set TRAINYARD_TOKEN; make one with: trainyard token create, or "
                  "trainyard server status --show-token");
  }
  return store::Identity{.user = house.system_name(request.peer.uid, system_user),
                         .role = Role::admin};
}

Status check_may(const store::Identity& identity, Needs needs, Attempts attempts, bool unix_socket,
                 const std::optional<AttemptId>& attempt) {
  if (needs == Needs::nothing) return {};
  if (needs == Needs::attempt) {
    if (identity.attempt && identity.attempt == attempt) return {};
    return denied("this is for the supervisor of that attempt alone");
  }
  if (identity.handover || needs == Needs::handover) {
    if (identity.handover && needs == Needs::handover) return {};
    return identity.handover ? denied("a job's one-time token is for its hand-over alone")
                             : denied("this is for the job of that attempt alone");
  }
  if (identity.node_token || needs == Needs::node_token) {
    if (identity.node_token && needs == Needs::node_token) return {};
    return identity.node_token ? denied("a node token lets a machine join, and nothing else")
                               : denied("this needs a one-time node token",
                                        "An admin makes one with: trainyard node token");
  }
  if (identity.machine) {
    if (needs == Needs::machine) return {};
    return denied("a machine's credential may not do this");
  }
  if (identity.attempt) {
    if (attempts != Attempts::refused) return {};
    return denied("an attempt's token may not do this");
  }
  const std::optional<Role> needed = role_needed(needs);
  if (needed && identity.role < *needed) {
    return denied(identity.user + " is " + std::string(to_string(identity.role)) +
                      "; this needs the role " + std::string(to_string(*needed)),
                  "An admin gives it with: trainyard user update " + identity.user + " --role " +
                      std::string(to_string(*needed)));
  }
  if (needs == Needs::local_admin && !unix_socket) {
    return denied("this is only possible over the Unix socket of the home",
                  "Run the command on the server's machine, with its --home.");
  }
  return {};
}

std::optional<Role> role_needed(Needs needs) {
  switch (needs) {
    case Needs::nothing:
    case Needs::attempt:
    case Needs::node_token:
    case Needs::handover:
      return std::nullopt;
    case Needs::reader:
      return Role::reader;
    case Needs::submitter:
    case Needs::machine:
      return Role::submitter;
    case Needs::admin:
    case Needs::local_admin:
      return Role::admin;
  }
  return Role::admin;
}

std::optional<Role> role_in(const store::Identity& identity,
                            const store::WorkspaceAccess& workspace) {
  if (identity.workspace && *identity.workspace != workspace.id) return std::nullopt;
  // An attempt has its user's rights to submit; when these end, its token does.
  if (identity.attempt) return Role::submitter;
  if (identity.node_token || identity.machine) return std::nullopt;
  if (identity.role == Role::admin) return Role::admin;
  if (workspace.access == Access::everyone) return identity.role;
  if (!workspace.member || !identity.role_limit) return workspace.member;
  return std::min(*workspace.member, *identity.role_limit);
}

Status check_role_in(const store::Identity& identity, const store::WorkspaceAccess& workspace,
                     Role needed) {
  const std::optional<Role> role = role_in(identity, workspace);
  if (role && *role >= needed) return {};
  if (identity.attempt) return denied("an attempt's token enters its own workspace only");
  const std::string hint = "An admin changes that with: trainyard workspace share add -w " +
                           workspace.name + " --user " + identity.user + " --role ROLE";
  if (!role) {
    return denied(identity.user + " is not a member of workspace '" + workspace.name + "'", hint);
  }
  return denied(identity.user + " is " + std::string(to_string(*role)) + " in workspace '" +
                    workspace.name + "'; this needs the role " + std::string(to_string(needed)),
                hint);
}

Status check_role_in(House& house, const store::Identity& identity, std::string_view workspace,
                     Role needed) {
  store::WorkspaceAccess access;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(access, store::workspace_access(db, workspace, identity.user));
    return {};
  };
  TRY(house.store.read(look));
  return check_role_in(identity, access, needed);
}

Result<std::vector<store::WorkspaceAccess>> closed_workspaces(House& house,
                                                              const store::Identity& identity) {
  std::vector<store::WorkspaceAccess> all;
  if (identity.role == Role::admin && !identity.workspace) return all;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(all, store::all_workspace_access(db, identity.user));
    return {};
  };
  TRY(house.store.read(look));
  std::erase_if(all, [&](const auto& one) { return role_in(identity, one).has_value(); });
  return all;
}

}  // namespace trainyard::api
