#include "env/settle_conda.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/text.h"
#include "env/relocate.h"
#include "env/sandbox.h"
#include "wire/json.h"

namespace trainyard::env {
namespace {

constexpr std::string_view kPlaceFile = "conda-meta/trainyard-place";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// A text in a binary file ends with a zero, and conda has left more of them: as many as its
// placeholder was longer. No byte moves.
Status replace_in_binary(std::string& bytes, const std::string& from, const std::string& to) {
  for (size_t at = bytes.find(from); at != std::string::npos; at = bytes.find(from, at)) {
    const size_t end = std::min(bytes.find('\0', at), bytes.size());
    const std::string text = replaced(bytes.substr(at, end - at), from, to);
    const size_t free = std::min(bytes.find_first_not_of('\0', end), bytes.size()) - end;
    if (text.size() > end - at && text.size() - (end - at) >= free) {
      return fail(ErrorKind::invalid, "'" + to + "' does not fit into its place",
                  "Use a home with a shorter path.");
    }
    const size_t size = std::max(text.size(), end - at);
    bytes.replace(at, size, text + std::string(size - text.size(), '\0'));
    at += size;
  }
  return {};
}

Status settle_file(const fs::path& file, bool binary, const std::string& from,
                   const std::string& to, const fs::path& root) {
  struct stat about{};
  if (!is_plain_file_inside(root, file) || ::lstat(file.c_str(), &about) != 0) return {};
  TRY_SET(std::string bytes, read_file(file));
  if (bytes.find(from) == std::string::npos) return {};
  if (binary) {
    TRY_WITHIN(file.string(), replace_in_binary(bytes, from, to));
  } else {
    bytes = replaced(std::move(bytes), from, to);
  }
  return write_file(file, bytes, about.st_mode & 07777);
}

// What the package's own list says to have a path inside.
Status settle_package(const fs::path& root, const fs::path& list, const std::string& from,
                      const std::string& to) {
  TRY_SET(const std::string text, read_file(list));
  TRY_SET(const wire::Json json, wire::parse(text));
  const wire::Json none = wire::Json::array();
  const auto data = json.find("paths_data");
  const wire::Json& paths =
      data != json.end() && data->is_object() && data->contains("paths") ? data->at("paths") : none;
  for (const wire::Json& path : paths) {
    if (!path.is_object() || !path.contains("prefix_placeholder")) continue;
    TRY_SET(const std::string name, wire::string_member(path, "_path"));
    TRY_SET(const std::string mode, wire::string_member(path, "file_mode", "text"));
    TRY(check_relative_path(name));
    TRY(settle_file(root / name, mode == "binary", from, to, root));
  }
  return {};
}

}  // namespace

Status settle_conda(const fs::path& root, const fs::path& place) {
  std::error_code error;
  if (!is_folder_inside(root, root / "conda-meta")) return {};
  const bool settled = is_plain_file_inside(root, root / kPlaceFile);
  const auto written = settled ? read_file(root / kPlaceFile) : fail(ErrorKind::not_found, "");
  const std::string from = written ? *written : root.string();
  const std::string to = place.string();
  TRY(make_relocatable(root));
  for (fs::directory_iterator list(root / "conda-meta", error), end; !error && list != end;
       list.increment(error)) {
    if (list->path().extension() != ".json" || !is_plain_file_inside(root, list->path())) continue;
    TRY_WITHIN("settle " + list->path().filename().string(),
               settle_package(root, list->path(), from, to));
  }
  if (error) return fail_errno(error.value(), "list " + (root / "conda-meta").string());
  return write_file(root / kPlaceFile, to);
}

}  // namespace trainyard::env
