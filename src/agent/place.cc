#include "agent/place.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/id.h"
#include "base/text.h"
#include "wire/json.h"

namespace trainyard::agent {
namespace {

constexpr size_t kFolderLength = 12;  // Short: sockets of a run's programs may lie below.
constexpr size_t kUidLength = 24;

fs::path machines(const Home& home) { return home.root() / "machines"; }

}  // namespace

fs::path place_folder(const Home& home, std::string_view server, std::string_view personal_key) {
  const std::string what = std::string(server) + "\n" + std::string(personal_key);
  return machines(home) / sha256(what).hex().substr(0, kFolderLength);
}

Result<Place> read_place(const fs::path& folder) {
  Place place{.folder = folder};
  TRY_SET(const std::string text, read_file(place.file()));
  TRY_SET(const wire::Json json, wire::parse(text));
  TRY_SET(place.server, wire::string_member(json, "server"));
  TRY_SET(place.key, wire::string_member(json, "key"));
  TRY_SET(place.name, wire::string_member(json, "name"));
  TRY_SET(place.workspace, wire::string_member(json, "workspace"));
  TRY_SET(place.personal, wire::bool_member(json, "personal"));
  TRY_SET(place.credential, wire::string_member(json, "credential"));
  return place;
}

Status write_place(const Place& place) {
  TRY(make_dirs(place.folder, 0700));
  TRY(make_dirs(place.log().parent_path(), 0700));
  const wire::Json json = {{"server", place.server},     {"key", place.key},
                           {"name", place.name},         {"workspace", place.workspace},
                           {"personal", place.personal}, {"credential", place.credential}};
  return write_file(place.file(), wire::dump(json) + "\n", 0600, Durable::yes);
}

std::vector<Place> joined_places(const Home& home) {
  std::vector<Place> places;
  std::error_code error;
  for (fs::directory_iterator at(machines(home), error), end; !error && at != end;
       at.increment(error)) {
    Result<Place> place = read_place(at->path());
    if (place && !place->personal) places.push_back(*std::move(place));
  }
  return places;
}

Result<std::string> machine_uid(const Home& home) {
  const fs::path file = home.root() / "machine-id";
  if (const Result<std::string> kept = read_file(file)) {
    if (!trim(*kept).empty()) return std::string(trim(*kept));
  }
  std::string uid = new_secret("").substr(0, kUidLength);
  TRY(make_dirs(home.root(), 0700));
  TRY(write_file(file, uid + "\n", 0600, Durable::yes));
  return uid;
}

Daemon daemon_of(const Place& place) {
  const Result<Fd> fd = open_file(place.lock(), O_RDONLY);
  if (!fd || ::flock(fd->get(), LOCK_SH | LOCK_NB) == 0) return {};  // Nobody holds it.
  const std::vector<std::string> lines = split(read_file(place.lock()).value_or(""), '\n');
  if (lines.size() < 2) return {};
  return {static_cast<pid_t>(parse_int(lines[0], "pid").value_or(0)), lines[1]};
}

std::string lock_text(pid_t pid, std::string_view token) {
  return std::to_string(pid) + "\n" + sha256(token).hex() + "\n";
}

}  // namespace trainyard::agent
