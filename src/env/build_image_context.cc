#include "env/build_image_context.h"

#include <fcntl.h>

#include <algorithm>

#include "base/text.h"
#include "blob/blob_store.h"
#include "env/programs.h"
#include "snapshot/capture.h"
#include "snapshot/ignore.h"

namespace trainyard::env {
namespace {

constexpr std::string_view kOwnDockerfile = ".trainyard.Dockerfile";
constexpr size_t kIgnoreFileMax = 1 << 20;

// docker's lines are paths from the folder's top, git's without a slash are names at any depth.
std::string as_gitignore(std::string_view lines) {
  std::string text;
  for (const std::string& raw : split(lines, '\n')) {
    std::string_view line = trim(raw);
    if (line.empty() || line.starts_with('#')) continue;
    const bool negated = line.starts_with('!');
    if (negated) line = trim(line.substr(1));
    while (line.starts_with("./")) line.remove_prefix(2);
    while (line.starts_with('/')) line.remove_prefix(1);
    while (line.size() > 1 && line.ends_with('/')) line.remove_suffix(1);
    if (line.empty() || line == ".") continue;
    text += (negated ? "!/" : "/") + std::string(line) + "\n";
  }
  return text;
}

// The last line that fits the path or a folder it is in decides: unlike git, docker takes a file
// back though its folder is left out.
bool is_left_out(const snapshot::IgnoreFile& rules, const std::string& path, bool is_folder) {
  bool out = false;
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const snapshot::Verdict verdict = rules.judge(path.substr(0, slash), true);
    if (verdict != snapshot::Verdict::none) out = verdict == snapshot::Verdict::ignored;
  }
  const snapshot::Verdict verdict = rules.judge(path, is_folder);
  if (verdict != snapshot::Verdict::none) out = verdict == snapshot::Verdict::ignored;
  return out;
}

Status checkout_tree(const std::string& id, const fs::path& folder, const fs::path& scratch,
                     const Settings& settings) {
  TRY_SET(const std::unique_ptr<blob::Store> blobs,
          blob::open_folder(settings.blobs, scratch / "none"));
  const auto read = [&](const Digest& digest) -> Result<std::string> {
    TRY_SET(const Fd fd, blobs->open(digest));
    TRY_SET(const uint64_t size, file_size(fd.get(), id));
    return read_at(fd.get(), 0, size, id);
  };
  TRY_SET(const Digest digest, Digest::from_hex(id));
  TRY_SET(const std::string text, read(digest));
  TRY_SET(const snapshot::Tree tree, snapshot::decode(text));
  const auto open = [&](const snapshot::Entry& entry) { return blobs->open(entry.digest); };
  return snapshot::checkout(tree, folder, open);
}

// A text, not a path: those are one line, and no Dockerfile is but "FROM x".
bool is_text(const std::string& dockerfile) {
  return dockerfile.find('\n') != std::string::npos || dockerfile.starts_with("FROM ") ||
         dockerfile.starts_with("from ");
}

}  // namespace

Result<std::vector<std::string>> context_files(const fs::path& folder, std::string_view ignored) {
  const snapshot::IgnoreFile rules(as_gitignore(ignored));
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const std::string path = entry->path().lexically_relative(folder);
    const bool is_folder = entry->is_directory() && !entry->is_symlink();
    if (!is_left_out(rules, path, is_folder)) files.push_back(path);
  }
  if (error) return fail_errno(error.value(), "list " + folder.string());
  std::ranges::sort(files);
  return files;
}

Result<ImageContext> pack_context(const fs::path& folder, const fs::path& scratch,
                                  std::string dockerfile, const Settings& settings,
                                  const Watcher& watcher) {
  std::string ignored;
  std::error_code none;
  if (fs::exists(fs::symlink_status(folder / ".dockerignore", none))) {
    // The folder is a user's: a link in it must not have the server read a file of its own.
    TRY_SET(const Fd top, open_file(folder, O_RDONLY | O_DIRECTORY));
    TRY_SET(const Fd file, open_beneath(top.get(), ".dockerignore"));
    TRY_SET(ignored, read_at(file.get(), 0, kIgnoreFileMax, ".dockerignore"));
    // The engine needs these two, whatever is said.
    ignored += "\n!.dockerignore\n!" + dockerfile + "\n";
  }
  TRY_SET(const std::vector<std::string> files, context_files(folder, ignored));
  std::string list;
  for (const std::string& file : files) list += "./" + file + '\0';
  TRY(write_file(scratch / "files", list));
  const fs::path tar = find_program("tar", settings.variables);
  if (tar.empty()) return fail(ErrorKind::unavailable, "there is no program 'tar' in PATH");
  ImageContext context{.tar = scratch / "context.tar", .dockerfile = std::move(dockerfile)};
  std::string said;
  const auto line = [&](std::string_view text) { said = text; };
  const Program program{
      .command = {tar, "--create", "--file", context.tar, "--no-recursion", "--numeric-owner",
                  "--owner=0", "--group=0", "--null", "--files-from", scratch / "files"},
      .variables = settings.variables,
      .folder = folder};
  TRY_SET(const Ended ended, run_program(program, watcher, line));
  if (ended.exit_code != 0) return fail(ErrorKind::unavailable, "pack the build folder: " + said);
  return context;
}

Result<ImageContext> write_context(const Recipe& recipe, const fs::path& scratch,
                                   const Settings& settings, const Watcher& watcher) {
  const fs::path folder = scratch / "context";
  if (recipe.context.empty()) {
    TRY(make_dirs(folder));
  } else {
    TRY_WITHIN("fetch the build folder", checkout_tree(recipe.context, folder, scratch, settings));
  }
  std::string dockerfile = recipe.dockerfile.empty() ? "Dockerfile" : recipe.dockerfile;
  if (is_text(dockerfile)) {
    TRY(write_file(folder / kOwnDockerfile, dockerfile));
    dockerfile = kOwnDockerfile;
  } else {
    TRY_WITHIN("Dockerfile " + dockerfile, check_relative_path(dockerfile));
    TRY_SET(const Fd top, open_file(folder, O_RDONLY | O_DIRECTORY));
    if (!open_beneath(top.get(), dockerfile)) {
      return fail(ErrorKind::invalid, "there is no file '" + dockerfile + "' in the build folder",
                  "Name the Dockerfile by its path below the build folder.");
    }
  }
  return pack_context(folder, scratch, dockerfile, settings, watcher);
}

}  // namespace trainyard::env
