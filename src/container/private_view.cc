#include "container/private_view.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "container/bubblewrap.h"
#include "container/bubblewrap_rank.h"
#include "container/bubblewrap_view.h"

namespace trainyard::container {
namespace {

constexpr const char* kRoot = "/";

Status check_target(const std::string& asked, const std::string& inside, const fs::path& folder) {
  if (!asked.starts_with('/')) {
    return fail(ErrorKind::invalid, "'" + asked + "' is no absolute path");
  }
  const std::string own = folder.string() + "/";
  if (inside == kRoot || own.starts_with(inside + "/")) {
    return fail(ErrorKind::invalid, "'" + asked + "' would hide the run's own folder",
                "Ask for another path, such as /data.");
  }
  for (const std::string kernel : {"/proc", "/sys", "/dev"}) {
    if (inside == kernel || inside.starts_with(kernel + "/")) {
      return fail(ErrorKind::invalid, "'" + asked + "' is the kernel's",
                  "Ask for another path, such as /data.");
    }
  }
  return {};
}

}  // namespace

Result<Carried> plan_private_view(const std::vector<Bind>& binds,
                                  const std::vector<std::string>& command, const fs::path& folder,
                                  const Submitter& submitter) {
  Carried carried{.bwrap = submitter.bwrap, .command = command, .root = kRoot};
  carried.all_variables = true;
  std::vector<Bind> sorted = binds;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Bind& one, const Bind& other) {
    return one.target.size() < other.target.size();
  });
  std::vector<std::string> targets;
  for (const Bind& bind : sorted) {
    if (access(bind.source.c_str(), F_OK) != 0) {
      return fail_errno(errno, "show " + bind.source + " as " + bind.target);
    }
    TRY_SET(const Place place, View(kRoot, carried.binds).find(bind.target));
    TRY(check_target(bind.target, place.inside, folder));
    const char* word = bind.read_only ? "--ro-bind" : "--bind";
    carried.words.insert(carried.words.end(), {word, bind.source, place.inside});
    carried.binds.push_back({bind.source, place.inside, bind.read_only});
    targets.push_back(place.inside);
  }
  carried.words.insert(carried.words.end(), {"--chdir", folder.string()});
  TRY_SET(carried.plain, root_words(kRoot, targets, "--dev-bind"));
  return carried;
}

Result<std::vector<std::string>> private_view_command(const std::string& program,
                                                      const std::vector<Bind>& binds,
                                                      const std::vector<std::string>& command,
                                                      const fs::path& folder, const fs::path& file,
                                                      const fs::path& note) {
  Result<Submitter> submitter = find_bubblewrap();
  if (!submitter) {
    return std::unexpected(
        std::move(submitter).error().within("a view of its own for the paths it asks for"));
  }
  TRY_SET(Carried carried, plan_private_view(binds, command, folder, *submitter));
  carried.note = note;
  TRY(write_carried(carried, file));
  return std::vector<std::string>{program, std::string(kBubblewrapProgram), file.string()};
}

}  // namespace trainyard::container
