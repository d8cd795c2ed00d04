#include "api/links.h"

#include <fmt/format.h>

#include "api/run_files.h"
#include "base/text.h"
#include "store/people.h"
#include "wire/urls.h"

namespace trainyard::api {
namespace {

int64_t unix_seconds(WallTime time) {
  return std::chrono::duration_cast<seconds>(time.time_since_epoch()).count();
}

std::string signed_text(std::string_view run, std::string_view path, std::string_view user,
                        int64_t expires) {
  return fmt::format("file link\n{}\n{}\n{}\n{}", run, user, expires, path);
}

}  // namespace

wire::Json log_links(House& house, const Run& run, std::string_view user, WallTime now) {
  wire::Json links = wire::Json::object();
  const auto key = house.signer();
  const int64_t expires = unix_seconds(now + kLinkLife);
  const auto add = [&](const std::string& path) {
    std::string link = house.facts.url + wire::file_url(run.id, path);
    // Without a key it still works with a token.
    if (key) {
      link += fmt::format("?user={}&expires={}&signature={}", http::encode_url(user), expires,
                          (*key)->sign(signed_text(run.id.value, path, user, expires)));
    }
    links.get_ref<wire::Json::object_t&>().emplace_back(path, std::move(link));
  };
  const int ranks = rank_count(run.spec);
  for (int rank = 0; rank < ranks; ++rank) {
    for (const ConsoleName& name : console_names(rank, ranks)) add(name.path);
  }
  add(std::string(kLifecycle));
  for (const std::string& path : classic_names(run)) add(path);
  return links;
}

bool has_link(const http::Request& request) { return request.query.contains("signature"); }

Result<store::Identity> identify_link(House& house, const http::Request& request) {
  const Result<int64_t> expires = parse_int(request.query_or("expires", ""), "expires");
  TRY_SET(const seal::Box* key, house.signer());
  const std::string user(request.query_or("user", ""));
  const auto run = request.params.find("id");
  const auto path = request.params.find("path");
  if (!expires || run == request.params.end() || path == request.params.end() ||
      !key->is_signed(signed_text(run->second, path->second, user, *expires),
                      request.query_or("signature", ""))) {
    return fail(ErrorKind::denied, "the link is not one of this server, or was changed");
  }
  if (unix_seconds(house.clock.wall()) >= *expires) {
    return fail(ErrorKind::denied, "the link has expired",
                "Get a new one from logFiles of: trainyard run show " + run->second + " -o json");
  }
  std::optional<Role> role;
  TRY(house.store.read([&](db::Db& db) -> Status {
    TRY_SET(role, store::account_role(db, user));
    return {};
  }));
  if (!role) return fail(ErrorKind::denied, "the user whose link this is was deleted");
  return store::Identity{.user = user, .role = *role};
}

}  // namespace trainyard::api
