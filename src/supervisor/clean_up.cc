#include "supervisor/steps.h"

namespace trainyard::supervisor {
namespace {

// What a killed rank's container has changed of its image, or ranks of their environment, may be
// large.
std::vector<fs::path> layers_of(const fs::path& root) {
  std::vector<fs::path> found;
  std::error_code error;
  for (auto it = fs::directory_iterator(root, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const std::string name = it->path().filename();
    const bool of_container = name.starts_with("container-") && name.ends_with(".layer");
    if (of_container || name.starts_with("environment-")) found.push_back(it->path());
  }
  return found;
}

}  // namespace

// Assignment, journal and lock stay for whoever asks what became of the attempt; they are small,
// and the engine removes them.
void clean_up(Context& context) {
  std::vector<fs::path> paths = layers_of(context.layout.root());
  const Layout& layout = context.layout;
  paths.insert(paths.end(), {layout.work(), layout.spool(), layout.preparation(), layout.tmp()});
  for (const fs::path& path : paths) {
    if (const Status removed = remove_tree(path); !removed) {
      context.log.line("not removed: " + removed.error().message);
    }
  }
}

}  // namespace trainyard::supervisor
