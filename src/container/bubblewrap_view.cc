#include "container/bubblewrap_view.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <deque>
#include <set>

#include "base/file.h"
#include "base/text.h"

namespace trainyard::container {
namespace {

constexpr int kLinksMax = 40;         // As the kernel has it.
constexpr size_t kEntriesMax = 1000;  // A mount each, a few words each; bwrap takes 9,000 words.

std::deque<std::string> components(std::string_view path) {
  std::deque<std::string> found;
  for (std::string& part : split(path, '/')) {
    if (!part.empty() && part != ".") found.push_back(std::move(part));
  }
  return found;
}

bool is_below(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) &&
         (folder.empty() || path[folder.size()] == '/');
}

bool is_folder(const std::string& path) {
  struct stat found{};
  return lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

// The folders that get new entries, "" the root.
std::set<std::string> opened_folders(const std::string& root,
                                     const std::vector<std::string>& targets) {
  std::set<std::string> opened{""};
  for (const std::string& target : targets) {
    const bool within_other =
        std::any_of(targets.begin(), targets.end(),
                    [&](const std::string& other) { return is_below(target, other); });
    struct stat found{};
    if (within_other || lstat((root + target).c_str(), &found) == 0) continue;
    std::string folder;
    for (const std::string& part : components(target)) {
      opened.insert(folder);
      folder += "/" + part;
      if (!is_folder(root + folder)) break;
    }
  }
  return opened;
}

Status add_entries(const std::string& root, const std::string& folder,
                   const std::set<std::string>& opened, std::string_view bind,
                   std::vector<std::string>& words) {
  std::error_code error;
  std::vector<std::string> names;
  for (auto it = fs::directory_iterator(root + folder + "/", error);
       !error && it != fs::directory_iterator(); it.increment(error)) {
    names.push_back(it->path().filename());
  }
  if (error) return fail_errno(error.value(), "read " + root + folder);
  if (names.size() > kEntriesMax) {
    return fail(
        ErrorKind::invalid,
        fmt::format("nothing new can be shown in {}: it has {} entries", folder, names.size()),
        "Ask for a path in a folder of its own, such as /data.");
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string inside = folder + "/" + name;
    struct stat found{};
    if (lstat((root + inside).c_str(), &found) != 0) continue;  // Gone meanwhile.
    if (S_ISLNK(found.st_mode)) {
      const fs::path target = fs::read_symlink(root + inside, error);
      if (!error) words.insert(words.end(), {"--symlink", target, inside});
    } else if (opened.contains(inside)) {
      words.insert(words.end(),
                   {"--perms", fmt::format("{:04o}", found.st_mode & 07777), "--dir", inside});
      TRY(add_entries(root, inside, opened, bind, words));
    } else {
      words.insert(words.end(), {std::string(bind), root + inside, inside});
    }
  }
  return {};
}

}  // namespace

View::View(std::string root, std::vector<Bind> binds)
    : root_(root == "/" ? "" : std::move(root)), binds_(std::move(binds)) {
  // The longest first: it is mounted over the others.
  std::stable_sort(binds_.begin(), binds_.end(), [](const Bind& one, const Bind& other) {
    return one.target.size() > other.target.size();
  });
}

std::string View::outside(const std::string& inside) const {
  for (const Bind& bind : binds_) {
    if (inside == bind.target) return bind.source;
    if (is_below(inside, bind.target)) return bind.source + inside.substr(bind.target.size());
  }
  return root_ + inside;
}

Result<Place> View::find(std::string_view path) const {
  std::deque<std::string> left = components(path);
  std::string inside;
  int links = 0;
  struct stat found{};
  bool exists = true;
  while (!left.empty()) {
    const std::string part = std::move(left.front());
    left.pop_front();
    if (part == "..") {
      inside.resize(inside.empty() ? 0 : inside.rfind('/'));
      continue;
    }
    const std::string next = inside + "/" + part;
    const std::string here = outside(next);
    exists = exists && lstat(here.c_str(), &found) == 0;
    const bool bound = std::any_of(binds_.begin(), binds_.end(),
                                   [&](const Bind& bind) { return bind.target == next; });
    if (!exists || bound || !S_ISLNK(found.st_mode)) {
      inside = next;
      continue;
    }
    if (++links > kLinksMax) {
      return fail(ErrorKind::invalid, std::string(path) + ": too many symbolic links");
    }
    std::error_code error;
    const std::string target = fs::read_symlink(here, error);
    if (error) return fail_errno(error.value(), "read the link " + here);
    if (target.starts_with('/')) inside.clear();
    std::deque<std::string> parts = components(target);
    left.insert(left.begin(), std::make_move_iterator(parts.begin()),
                std::make_move_iterator(parts.end()));
  }
  Place place{.inside = inside.empty() ? "/" : inside, .outside = outside(inside)};
  if (place.outside.empty()) place.outside = "/";
  place.exists = stat(place.outside.c_str(), &found) == 0;
  place.folder = place.exists && S_ISDIR(found.st_mode);
  return place;
}

Result<std::vector<std::string>> root_words(const std::string& root,
                                            const std::vector<std::string>& targets,
                                            std::string_view bind) {
  const std::string below = root == "/" ? "" : root;
  std::vector<std::string> words;
  TRY(add_entries(below, "", opened_folders(below, targets), bind, words));
  return words;
}

}  // namespace trainyard::container
