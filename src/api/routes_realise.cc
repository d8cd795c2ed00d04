// An attempt's environment, as its supervisors wait for it.
#include "api/environments.h"
#include "api/gate.h"
#include "api/realise.h"
#include "container/image_digest.h"
#include "store/run_rows.h"

namespace trainyard::api {
namespace {

constexpr std::chrono::hours kFetchMax{24};  // What a node may take to fetch an environment.

constexpr seconds kImageLook{10};  // Until a parked request looks again by itself.

std::string_view state_of(Environments::Stand::Is is) {
  switch (is) {
    case Environments::Stand::Is::building:
      return "building";
    case Environments::Stand::Is::ready:
      return "ready";
    case Environments::Stand::Is::failed:
      return "failed";
  }
  return "failed";
}

Json to_json(const Environments::Stand& stand) {
  Json json = {{"state", state_of(stand.is)},
               {"progress", stand.progress},
               {"log", stand.log},
               {"logNext", stand.log_next}};
  if (stand.is == Environments::Stand::Is::failed) {
    json["error"] = wire::error_to_json(stand.error)["error"];
  }
  if (stand.is == Environments::Stand::Is::ready) json["realised"] = wire::encode(stand.realised);
  return json;
}

Result<http::Response> attempt_environment(const Call& call) {
  TRY_SET(const Run run, call.house.store.run(call.identity.attempt->run));
  return show_stand(call, run.spec.environment, run.spec.workspace);
}

using enum http::Method;
constexpr RouteRow kRealiseRoutes[] = {
    {get, "/api/v1/runs/{id}/attempts/{n}/environment", Needs::attempt, Attempts::allowed,
     attempt_environment,
     "How far the run's environment is; asking has it made. `need` is made, root or tree.",
     "need begin log wait"},
};

}  // namespace

Result<http::Response> show_stand(const Call& call, const Environment& environment,
                                  const std::string& workspace, const std::string& replaces) {
  if (call.house.environments == nullptr || environment.hash.empty()) {
    return fail(ErrorKind::not_found, "there is no environment to be made");
  }
  TRY_SET(const Environments::Need need, need_from(call.request.query_or("need", "made")));
  TRY_SET(const int64_t begin, query_number(call.request, "begin", 0, {0, 1}));
  TRY_SET(const int64_t log_from, query_number(call.request, "log", 0));
  TRY_SET(const Environments::Stand stand,
          call.house.environments->stand({.environment = environment,
                                          .workspace = workspace,
                                          .user = call.identity.user,
                                          .need = need,
                                          .begins = begin == 1,
                                          .ahead = !replaces.empty(),
                                          .for_run = call.identity.attempt.has_value(),
                                          .replaces = replaces,
                                          .log_from = static_cast<uint64_t>(log_from)}));
  TRY_SET(const auto until, may_wait_until(call));
  const bool news = stand.is != Environments::Stand::Is::building || !stand.log.empty();
  if (!news && until) {
    return http::Response::parked(House::environment_key(environment.hash), *until);
  }
  if (!stand.realised.tree.empty()) {
    call.house.pins.pin(stand.realised.tree, call.house.clock.steady() + kFetchMax);
  }
  return answer(to_json(stand));
}

std::optional<http::Response> wait_for_image(const Call& call, std::string_view workspace,
                                             const Environment& asked,
                                             const control::EnvironmentUse& use) {
  const bool image = !asked.name.empty() || !asked.recipe.image.empty();
  if (!image || call.house.stopping()) return std::nullopt;
  // What is wrong with it, the handler says.
  const auto resolved = call.house.control->resolve_environment(workspace, asked, use);
  if (!resolved || resolved->recipe.image_digest != container::kDigestPending) return std::nullopt;
  return http::Response::parked(House::image_key(resolved->recipe.image),
                                call.house.clock.steady() + kImageLook);
}

void make_ahead(House& house, const Run& run) {
  if (house.environments == nullptr || run.spec.environment.hash.empty()) return;
  const std::string queue = queue_of(run.spec);
  const bool here = queue == kLocalQueue || house.control->load(queue).capacity.slots > 0;
  if (!here && run.held.empty()) return;  // It was there when the run came.
  const Result<Environments::Stand> begun =
      house.environments->stand({.environment = run.spec.environment,
                                 .workspace = run.spec.workspace,
                                 .user = run.user,
                                 .need = here ? Environments::Need::made : Environments::Need::tree,
                                 .begins = true,
                                 .ahead = here,
                                 .for_run = true});
  // Who waits for it is told.
  if (!begun) house.log.warn("environment not begun", {{"error", begun.error().message}});
  if (!here && house.gate != nullptr) house.gate->add();
}

void stop_making(House& house, const Run& run) {
  const std::string& hash = run.spec.environment.hash;
  if (house.environments == nullptr || hash.empty()) return;
  if (house.environments->words(run.spec.environment).empty()) return;  // It is not being made.
  bool wanted = true;
  const Status looked = house.store.read([&](db::Db& db) -> Status {
    TRY_SET(wanted, store::environment_is_awaited(db, hash));
    return {};
  });
  if (looked && !wanted) house.environments->give_up(hash);
}

std::span<const RouteRow> realise_routes() { return kRealiseRoutes; }

}  // namespace trainyard::api
