#include "api/route.h"
#include "base/text.h"

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

Result<http::Response> delete_user(const Call& call) {
  TRY(call.house.store.delete_user(call.request.param("name")));
  return no_content();
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
  TRY(ensure_user(call, user));
  std::optional<WallTime> expires;
  if (lifetime_s > 0) expires = call.house.clock.wall() + seconds(lifetime_s);
  TRY_SET(const auto made, call.house.store.create_token(user, label, expires));
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
     "Deletes a user and revokes their tokens."},
    {get, "/api/v1/tokens", Needs::reader, Attempts::refused, list_tokens,
     "Lists one's tokens, never their secrets; all of them for an admin.", "limit cursor"},
    {post, "/api/v1/tokens", Needs::reader, Attempts::refused, create_token,
     "Makes a token: {\"user\", \"label\", \"expiresInSeconds\"}; its secret is shown this once."},
    {del, "/api/v1/tokens/{id}", Needs::reader, Attempts::refused, revoke_token,
     "Revokes a token."},
};

}  // namespace

std::span<const RouteRow> user_routes() { return kUsersRoutes; }

}  // namespace trainyard::api
