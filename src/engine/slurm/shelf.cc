#include "engine/slurm/shelf.h"

#include "base/private_copy.h"
#include "base/text.h"
#include "engine/slurm/job_script.h"
#include "engine/slurm/program.h"
#include "wire/json.h"

namespace trainyard::engine::slurm {
namespace {

constexpr seconds kCollectMax{3600};  // To send what one node left: its outputs may be large.
constexpr int kNodesLookedAt = 1000;  // Of one attempt.

}  // namespace

std::vector<fs::path> Shelf::all_of(const AttemptId& attempt) const {
  std::vector<fs::path> found;
  std::error_code ignored;
  const fs::path first = options_.shared / shelf_of(options_.owner, attempt, 0);
  if (!fs::is_directory(fs::symlink_status(first.parent_path(), ignored))) return found;
  for (int node = 0; node < kNodesLookedAt; ++node) {
    fs::path path = options_.shared / shelf_of(options_.owner, attempt, node);
    if (fs::exists(path, ignored)) found.push_back(std::move(path));
  }
  return found;
}

bool Shelf::has(const AttemptId& attempt) const { return !all_of(attempt).empty(); }

void Shelf::discard(const AttemptId& attempt) const {
  for (const fs::path& path : all_of(attempt)) {
    if (const Status removed = remove_tree(path); !removed) {
      options_.log.warn("shared folder not cleared", {{"error", removed.error().message}});
    }
  }
}

Status Shelf::collect(const std::vector<Assignment>& nodes) const {
  TRY(make_dirs(options_.collected, 0700));
  for (const Assignment& node : nodes) {
    const fs::path from = options_.shared / shelf_of(options_.owner, node.id(), node.node);
    std::error_code ignored;
    if (!fs::exists(from, ignored)) continue;
    TRY_WITHIN("collect " + from.string(), collect_node(node, from));
  }
  return {};
}

Status Shelf::collect_node(const Assignment& node, const fs::path& from) const {
  // Who may write to the shared folder must not lead us elsewhere.
  if (!fs::is_directory(fs::symlink_status(from.parent_path()))) {
    return fail(ErrorKind::invalid, from.parent_path().string() + " is not a folder");
  }
  const fs::path to = options_.collected / from.filename();
  TRY(remove_tree(to));  // Of a server that was stopped meanwhile.
  TRY_SET(const PrivateCopy copied, copy_private(from, to));
  // What the node was told is not what is sent with: the server's own word is.
  TRY(remove_tree(to / "assignment.json"));
  TRY(write_file(to / "assignment.json", wire::dump(wire::encode(node)), 0600));
  TRY_SET(const ProgramEnd end,
          run_program({.command = {options_.binary, "supervise", "--folder", to, "--collect"},
                       .environment = {{"PATH", "/usr/bin:/bin"}, {"LANG", "C.UTF-8"}},
                       .timeout = kCollectMax,
                       .stop_fd = options_.stop_fd}));
  if (end.timed_out) return fail(ErrorKind::unavailable, "it took more than an hour");
  if (end.exit_code != 0) {
    return fail(ErrorKind::unavailable,
                "exit " + std::to_string(end.exit_code) + ": " + std::string(trim(end.errors)));
  }
  options_.log.info("collected from the shared folder", {{"attempt", node.id().str()},
                                                         {"node", node.node},
                                                         {"files", copied.files},
                                                         {"left_out", copied.left_out}});
  TRY(remove_tree(to));
  return remove_tree(from);
}

}  // namespace trainyard::engine::slurm
