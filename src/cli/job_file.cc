#include "cli/job_file.h"

#include <algorithm>

#include "dialects/environment_file.h"
#include "dialects/scalar.h"

namespace trainyard::cli {
namespace {

using dialects::Node;

constexpr std::string_view kTextMaps[] = {"inputs", "tags", "properties", "environment_variables"};

// A plain scalar as what it means, so that a whole number is one again; `texts`: as it is written.
Json scalar_json(const Node& node, bool texts) {
  if (texts) return node.text;
  if (const auto whole = dialects::as_int(node)) return *whole;
  if (const auto number = dialects::as_number(node)) return *number;
  if (const auto yes = dialects::as_bool(node)) return *yes;
  return node.text;
}

Json node_json(const Node& node, bool texts) {
  if (node.is_scalar()) return scalar_json(node, texts);
  if (node.is_null()) return nullptr;
  Json all = node.is_map() ? Json::object() : Json::array();
  for (const Node& child : node.children) {
    const bool text_map = std::ranges::find(kTextMaps, node.key) != std::end(kTextMaps);
    Json value = node_json(child, text_map && child.is_scalar());
    if (node.is_map()) {
      all[child.key] = std::move(value);
    } else {
      all.push_back(std::move(value));
    }
  }
  return all;
}

// A path from the job file's folder becomes one from `to`.
void move_path(Json& value, const fs::path& from, const fs::path& to) {
  constexpr std::string_view kPrefix = "file:";
  if (!value.is_string()) return;
  std::string text = value.get<std::string>();
  const bool prefixed = text.starts_with(kPrefix);
  if (prefixed) text.erase(0, kPrefix.size());
  std::error_code ignored;
  const fs::path there = fs::absolute(from / text, ignored).lexically_normal();
  const fs::path moved = there.lexically_relative(fs::absolute(to, ignored).lexically_normal());
  value = (prefixed ? std::string(kPrefix) : "") + moved.string();
}

}  // namespace

Json job_file(const dialects::Document& document, const fs::path& folder) {
  Json job = node_json(document.root, false);
  const fs::path from = fs::path(document.file).parent_path();
  if (job.contains("code")) move_path(job["code"], from, folder);
  const auto environment = job.find("environment");
  if (environment == job.end()) return job;
  if (environment->is_string() && dialects::names_file(environment->get<std::string>())) {
    move_path(*environment, from, folder);
  }
  if (!environment->is_object()) return job;
  for (const char* key : {"conda_file", "requirements"}) {
    if (environment->contains(key)) move_path((*environment)[key], from, folder);
  }
  const auto build = environment->find("build");
  if (build != environment->end() && build->contains("path")) {
    move_path((*build)["path"], from, folder);
  }
  return job;
}

}  // namespace trainyard::cli
