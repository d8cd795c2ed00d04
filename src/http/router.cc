#include "http/router.h"

#include <algorithm>

#include "base/check.h"

namespace trainyard::http {

namespace {

// A pattern's part: fixed text, {name}, or {name...}. In the order in which they win.
enum class PartKind { fixed, one, rest };

PartKind kind_of(std::string_view part) {
  if (!part.starts_with('{') || !part.ends_with('}')) return PartKind::fixed;
  return part.ends_with("...}") ? PartKind::rest : PartKind::one;
}

std::string_view name_of(std::string_view part) {
  const size_t tail = kind_of(part) == PartKind::rest ? 4 : 1;
  return part.substr(1, part.size() - 1 - tail);
}

// "/a/b" -> "a", "b"; "/a/" -> "a", "".
std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    path.remove_prefix(1);
    const size_t end = std::min(path.find('/'), path.size());
    parts.emplace_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return parts;
}

// Where two patterns first differ in kind, the more special one goes first.
bool more_special(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::ranges::lexicographical_compare(a, b, {}, kind_of, kind_of);
}

std::string join_rest(const std::vector<std::string>& parts, size_t from) {
  std::string rest = parts[from];
  for (size_t i = from + 1; i < parts.size(); ++i) rest += '/' + parts[i];
  return rest;
}

// Both are split on '/'; `path` is decoded after that, so that a %2F stays within its part.
std::optional<Query> match(const std::vector<std::string>& pattern,
                           const std::vector<std::string>& path) {
  const bool open_end = !pattern.empty() && kind_of(pattern.back()) == PartKind::rest;
  if (open_end ? path.size() < pattern.size() : path.size() != pattern.size()) return std::nullopt;
  Query params;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string& part = pattern[i];
    switch (kind_of(part)) {
      case PartKind::fixed:
        if (part != path[i]) return std::nullopt;
        break;
      case PartKind::one:
        if (path[i].empty()) return std::nullopt;
        params.emplace(name_of(part), path[i]);
        break;
      case PartKind::rest:
        params.emplace(name_of(part), join_rest(path, i));
        return params;
    }
  }
  return params;
}

}  // namespace

void Router::add(Route route) {
  ENSURE(route.pattern.starts_with('/'));
  ENSURE(static_cast<bool>(route.handler) != static_cast<bool>(route.upload));
  Entry entry{split_path(route.pattern), std::move(route)};
  for (size_t i = 0; i + 1 < entry.parts.size(); ++i) {
    ENSURE(kind_of(entry.parts[i]) != PartKind::rest);
  }
  const auto place = std::ranges::upper_bound(entries_, entry.parts, more_special, &Entry::parts);
  entries_.insert(place, std::move(entry));
}

Router::Match Router::find(Method method, std::string_view encoded_path) const {
  Match found;
  if (!encoded_path.starts_with('/')) return found;
  std::vector<std::string> path = split_path(encoded_path);
  for (std::string& part : path) {
    if (part.find('%') == std::string::npos) continue;
    Result<std::string> decoded = decode_url(part);
    if (!decoded) return found;
    part = *std::move(decoded);
  }
  for (const Entry& entry : entries_) {
    const bool wanted = entry.route.method == method;
    // A GET's handler answers HEAD too; the server leaves out the body.
    const bool stands_in = method == Method::head && entry.route.method == Method::get;
    if (found.path_known && !wanted && (!stands_in || found.route != nullptr)) continue;
    std::optional<Query> params = match(entry.parts, path);
    if (!params) continue;
    found.path_known = true;
    if (!wanted && (!stands_in || found.route != nullptr)) continue;
    found.route = &entry.route;
    found.params = *std::move(params);
    if (wanted) return found;
  }
  return found;
}

}  // namespace trainyard::http
