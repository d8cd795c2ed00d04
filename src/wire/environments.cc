#include "wire/environments.h"

namespace trainyard::wire {
namespace {

constexpr size_t kShortHash = 12;

}  // namespace

Json environment_record_to_json(const EnvironmentRecord& record) {
  Json json = encode(record.environment);
  json["kind"] = to_string(record.environment.recipe.kind);
  json["curated"] = record.curated();
  // Each has the same fields, so that a script need not ask which are there.
  json["version"] = record.environment.version;
  json["hash"] = record.environment.hash;
  json["description"] = record.description;
  json["note"] = record.note;
  json["createdBy"] = record.created_by;
  json["workspace"] = record.workspace;
  json["archived"] = record.archived;
  json["createdAt"] = record.curated() ? Json() : Json(format_time(record.created));
  return json;
}

Json environment_to_json(const Environment& environment) {
  const Recipe& recipe = environment.recipe;
  if (recipe.kind == EnvironmentKind::system && environment.name.empty()) return "system";
  Json json = {{"kind", to_string(recipe.kind)},
               {"name", environment.name},
               {"version", environment.version},
               {"hash", environment.hash},
               {"shortHash", environment.hash.substr(0, kShortHash)},
               {"label", label(environment)}};
  if (!recipe.image.empty()) json["image"] = recipe.image;
  if (!recipe.image_digest.empty()) json["imageDigest"] = recipe.image_digest;
  return json;
}

}  // namespace trainyard::wire
