#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"

namespace trainyard::cli {
namespace {

constexpr Option kUserOptions[] = {
    {"--role", Takes::value, "ROLE", "reader, submitter or admin (default: submitter)."},
};
constexpr Option kUserChanges[] = {
    {"--role", Takes::value, "ROLE", "reader, submitter or admin."},
};
constexpr Option kUserNames[] = {
    {"--name -n", Takes::value, "NAME", "The user."},
};
constexpr Option kUserTokenOptions[] = {
    {"--user", Takes::value, "NAME", "Whose; else yours."},
    {"--label --name -n", Takes::value, "TEXT", "What it is for, to know it again in the list."},
    {"--kind", Takes::value, "KIND", "user, or node: lets one machine join, once; else user."},
    {"--expires", Takes::value, "TIME",
     "How long it is good for: 12h, 30d (default: as long as the token you use, else for ever)."},
    {"--role", Takes::value, "ROLE",
     "reader, submitter or admin: at most this role (default: the user's)."},
};
constexpr Option kTokenIds[] = {
    {"--id -i", Takes::value, "ID", "The token's number, from: trainyard token list"},
};

View user_view() {
  return {.table = [](const Json& value) {
    static constexpr std::string_view kKeys[] = {"name", "role", "createdAt"};
    return plain_table(value, kKeys);
  }};
}

View token_view() {
  return {.table = [](const Json& value) {
    static constexpr std::string_view kKeys[] = {"id",        "user",      "role",     "label",
                                                 "createdAt", "expiresAt", "revokedAt"};
    return plain_table(value, kKeys);
  }};
}

// The one word, or the value of `key`.
Result<std::string> one_name(const Context& context, std::string_view key, std::string_view what) {
  std::vector<std::string> names = context.args().words();
  if (context.args().has(key)) names.push_back(context.args().value(key));
  if (names.size() == 1 && !names.front().empty()) return names.front();
  return fail(ErrorKind::invalid,
              (names.empty() ? "which " : "one ") + std::string(what) +
                  (names.empty() ? "?" : " at a time"),
              "As in: trainyard " + std::string(context.command().name) + " " +
                  std::string(context.command().usage));
}

}  // namespace

constinit const std::span<const Option> kUserCreateOptions = kUserOptions;
constinit const std::span<const Option> kUserUpdateOptions = kUserChanges;
constinit const std::span<const Option> kUserChoice = kUserNames;
constinit const std::span<const Option> kTokenCreateOptions = kUserTokenOptions;
constinit const std::span<const Option> kTokenChoice = kTokenIds;

Result<int> user_create(Context& context) {
  TRY_SET(const std::string name, one_name(context, "name", "user"));
  TRY(check_name(name, "user"));
  const std::string role = context.args().value("role", "submitter");
  TRY(role_from(role));
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json user, api->create_user(name, role));
  TRY(context.print(user, user_view()));
  return kExitOk;
}

Result<int> user_update(Context& context) {
  TRY_SET(const std::string name, one_name(context, "name", "user"));
  TRY(check_name(name, "user"));
  if (!context.args().has("role")) {
    return fail(ErrorKind::invalid, "what is to be changed?", "The role: --role ROLE");
  }
  TRY_SET(const Role role, role_from(context.args().value("role")));
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json user, api->update_user(name, to_string(role)));
  TRY(context.print(user, user_view()));
  return kExitOk;
}

Result<int> user_list(Context& context) {
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json users, api->users());
  TRY(print_list(context, users, user_view()));
  return kExitOk;
}

Result<int> user_delete(Context& context) {
  TRY_SET(const std::string name, one_name(context, "name", "user"));
  TRY(check_name(name, "user"));
  TRY(context.confirm("Delete the user " + name + ", revoke their tokens and cancel their runs?"));
  TRY_SET(client::Api * api, context.api());
  TRY(api->delete_user(name));
  context.say("user " + name + " is deleted");
  return kExitOk;
}

Result<int> token_create(Context& context) {
  const Args& args = context.args();
  const std::string kind = args.value("kind", "user");
  if (kind == "node") {
    if (args.has("user")) return fail(ErrorKind::invalid, "a node token is nobody's: no --user");
    TRY(print_node_token(context, args.value("label"), ""));
    return kExitOk;
  }
  if (kind != "user") {
    return fail(ErrorKind::invalid, "--kind " + kind + ": not known", "Kinds: user, node.");
  }
  seconds lifetime{0};
  if (args.has("expires")) {
    TRY_SET(lifetime, parse_duration(args.value("expires"), "--expires"));
    if (lifetime <= seconds(0)) return fail(ErrorKind::invalid, "--expires must be in the future");
  }
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json token, api->create_token({.user = args.value("user"),
                                               .label = args.value("label"),
                                               .role = args.value("role"),
                                               .lifetime_s = lifetime.count()}));
  TRY(context.print(token, {.table = [](const Json& value) {
                      static constexpr std::string_view kKeys[] = {"id", "user", "token"};
                      return plain_table(value, kKeys);
                    }}));
  context.say("Keep it now: it is not shown again.");
  return kExitOk;
}

Result<int> token_list(Context& context) {
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json tokens, api->tokens());
  TRY(print_list(context, tokens, token_view()));
  return kExitOk;
}

Result<int> token_revoke(Context& context) {
  TRY_SET(const std::string id, one_name(context, "id", "token"));
  TRY(parse_int(id, "token"));
  TRY_SET(client::Api * api, context.api());
  TRY(api->revoke_token(id));
  context.say("token " + id + " is revoked");
  return kExitOk;
}

}  // namespace trainyard::cli
