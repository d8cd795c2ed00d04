#include "api/machines.h"
#include "api/route.h"
#include "base/text.h"
#include "store/machines.h"
#include "store/people.h"

namespace trainyard::api {
namespace {

bool is_admin(const Call& call) { return call.identity.role == Role::admin; }

Result<http::Response> list_users(const Call& call) {
  TRY_SET(const Window window, window_of(call.request));
  TRY_SET(const std::vector<User> users, call.house.store.users());
  return answer_page(window, users.size(), [&](size_t i) { return wire::user_to_json(users[i]); });
}

Result<http::Response> create_user(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(const std::string name, wire::string_member(body, "name"));
  TRY_SET(const std::string role_name, wire::string_member(body, "role", "submitter"));
  TRY(check_name(name, "user"));
  TRY_SET(const Role role, role_from(role_name));
  TRY_SET(const User user, call.house.store.create_user(name, role));
  return answer(wire::user_to_json(user), 201);
}

Result<std::vector<Machine>> machines_of(const Call& call, std::string_view owner) {
  std::vector<Machine> machines;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(machines, store::all_machines(db));
    return {};
  };
  TRY(call.house.store.read(look));
  std::erase_if(machines, [&](const Machine& m) { return !m.personal || m.owner != owner; });
  return machines;
}

// Their runs and commands end with them.
Result<http::Response> delete_user(const Call& call) {
  const std::string name(call.request.param("name"));
  TRY_SET(const std::vector<Machine> machines, machines_of(call, name));
  const std::string why = "user '" + name + "' was deleted";
  const WallTime now = call.house.clock.wall();
  TRY(call.house.control->withdraw(
      {.user = name, .by = call.identity.user, .why = why, .change = [&](db::Transaction& t) {
         return store::remove_user(t, name, now);
       }}));
  call.house.execs.stop_all_by(name);
  for (const Machine& machine : machines) {
    if (call.house.machines != nullptr) call.house.machines->close(machine, why);
  }
  call.house.log.info("user deleted", {{"user", name}, {"by", call.identity.user}});
  return no_content();
}

Result<http::Response> update_user(const Call& call) {
  const std::string name(call.request.param("name"));
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(const std::string role_name, wire::string_member(body, "role"));
  TRY_SET(const Role role, role_from(role_name));
  const WallTime now = call.house.clock.wall();
  TRY(call.house.control->withdraw(
      {.user = name,
       .by = call.identity.user,
       .why = "user '" + name + "' is " + role_name + " now",
       .change = [&](db::Transaction& t) { return store::set_role(t, name, role, now); }}));
  // Commands that they may not have begun now.
  if (role != Role::admin) call.house.execs.stop_all_by(name);
  call.house.log.info("role changed",
                      {{"user", name}, {"role", role_name}, {"by", call.identity.user}});
  TRY_SET(const std::vector<User> users, call.house.store.users());
  const auto user = std::ranges::find(users, name, &User::name);
  if (user == users.end()) return fail(ErrorKind::not_found, "user '" + name + "' does not exist");
  return answer(wire::user_to_json(*user));
}

// Everybody sees and makes their own tokens, an admin everybody's.
Result<http::Response> list_tokens(const Call& call) {
  TRY_SET(const Window window, window_of(call.request));
  TRY_SET(std::vector<Token> tokens, call.house.store.tokens());
  if (!is_admin(call)) {
    std::erase_if(tokens, [&](const Token& token) { return token.user != call.identity.user; });
  }
  return answer_page(window, tokens.size(),
                     [&](size_t i) { return wire::token_to_json(tokens[i]); });
}

// The system user of the socket is an admin without a row; the first token of theirs makes it.
Status ensure_user(const Call& call, std::string_view name) {
  if (!call.request.peer.unix_socket || !is_admin(call) || name != call.identity.user) return {};
  const Result<User> made = call.house.store.create_user(name, Role::admin);
  if (made || made.error().kind == ErrorKind::conflict) return {};
  return std::unexpected(made.error());
}

// What a token makes is good for no longer than it is itself.
Result<std::optional<WallTime>> expiry_of(const Call& call, int64_t lifetime_s) {
  const std::optional<WallTime> own = call.identity.expires;
  if (lifetime_s == 0) return own;
  const WallTime expires = call.house.clock.wall() + seconds(lifetime_s);
  if (!own || expires <= *own) return expires;
  return fail(ErrorKind::denied,
              "the token you use expires " + format_time(*own) +
                  "; one made with it cannot be "
                  "good for longer",
              "Ask for a shorter time, or make it with another token or over the Unix socket.");
}

// Nor has it a role that its maker has not. A limit is handed on.
Result<std::optional<Role>> role_limit(const Call& call, const std::string& asked) {
  if (asked.empty()) return call.identity.role_limit;
  TRY_SET(const Role role, role_from(asked));
  if (role <= call.identity.role) return role;
  return fail(ErrorKind::denied, "the token you use has the role " +
                                     std::string(to_string(call.identity.role)) +
                                     "; one made with it cannot have more");
}

Result<http::Response> create_token(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(const std::string user, wire::string_member(body, "user", call.identity.user));
  TRY_SET(const std::string label, wire::string_member(body, "label"));
  TRY_SET(const int64_t lifetime_s, wire::int_member(body, "expiresInSeconds"));
  constexpr int64_t kLifetimeMax = 100LL * 365 * 24 * 3600;
  if (lifetime_s < 0 || lifetime_s > kLifetimeMax) {
    return fail(ErrorKind::invalid, "expiresInSeconds must be between 0 and 100 years");
  }
  if (user != call.identity.user && !is_admin(call)) {
    return fail(ErrorKind::denied, "only an admin makes tokens for others");
  }
  TRY_SET(const std::string role_name, wire::string_member(body, "role"));
  TRY_SET(const auto expires, expiry_of(call, lifetime_s));
  TRY_SET(const auto role, role_limit(call, role_name));
  TRY(ensure_user(call, user));
  TRY_SET(const auto made,
          call.house.store.create_token(user, label, expires,
                                        {.parent = call.identity.token, .role = role}));
  Json json = wire::token_to_json(made.token);
  json["token"] = made.secret;
  return answer(json, 201);
}

Result<http::Response> revoke_token(const Call& call) {
  TRY_SET(const int64_t id, parse_int(call.request.param("id"), "token id"));
  if (!is_admin(call)) {
    TRY_SET(const std::vector<Token> tokens, call.house.store.tokens());
    const bool own = std::ranges::any_of(tokens, [&](const Token& token) {
      return token.id == id && token.user == call.identity.user;
    });
    // As for one that is not there: whose it is, is nobody's business.
    if (!own) return fail(ErrorKind::not_found, "there is no token " + std::to_string(id));
  }
  TRY(call.house.store.revoke_token(id));
  return no_content();
}

using enum http::Method;
constexpr RouteRow kUsersRoutes[] = {
    {get, "/api/v1/users", Needs::reader, Attempts::refused, list_users, "Lists the users.",
     "limit cursor"},
    {post, "/api/v1/users", Needs::admin, Attempts::refused, create_user,
     "Makes a user: {\"name\", \"role\"}."},
    {del, "/api/v1/users/{name}", Needs::admin, Attempts::refused, delete_user,
     "Deletes a user, revokes their tokens and cancels their runs."},
    {patch, "/api/v1/users/{name}", Needs::admin, Attempts::refused, update_user,
     "Changes {\"role\"}. Runs that the user may not submit any more are canceled."},
    {get, "/api/v1/tokens", Needs::reader, Attempts::refused, list_tokens,
     "Lists one's tokens, never their secrets; all of them for an admin.", "limit cursor"},
    {post, "/api/v1/tokens", Needs::reader, Attempts::refused, create_token,
     "Makes a token: {\"user\", \"label\", \"expiresInSeconds\", \"role\"}; its secret is shown "
     "this "
     "once. It ends with the token that makes it, and has no more rights."},
    {del, "/api/v1/tokens/{id}", Needs::reader, Attempts::refused, revoke_token,
     "Revokes a token and all that were made with it."},
};

}  // namespace

std::span<const RouteRow> user_routes() { return kUsersRoutes; }

}  // namespace trainyard::api
