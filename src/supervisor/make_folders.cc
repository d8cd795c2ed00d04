#include <fcntl.h>

#include "supervisor/steps.h"

namespace trainyard::supervisor {

Status make_folders(Context& context) {
  const Layout& layout = context.layout;
  TRY(make_dirs(layout.work()));
  TRY(make_dirs(layout.outputs()));
  TRY(make_dirs(layout.logs()));
  for (const auto& [name, path] : context.assignment.spec.outputs) {
    const fs::path place = layout.work() / path;
    // A folder's name ends with a slash; of a file only the folder is made.
    TRY(make_dirs(place.parent_path()));
  }
  for (int rank = 0; rank < context.facts.ranks; ++rank) {
    TRY(open_file(layout.records(context.global_rank(rank)), O_WRONLY | O_CREAT | O_APPEND, 0600));
  }
  return {};
}

}  // namespace trainyard::supervisor
