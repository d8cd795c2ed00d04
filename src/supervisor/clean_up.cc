#include "supervisor/steps.h"

namespace trainyard::supervisor {

// Assignment, journal and lock stay for whoever asks what became of the attempt; they are small,
// and the engine removes them.
void clean_up(Context& context) {
  for (const fs::path& path :
       {context.layout.work(), context.layout.spool(), context.layout.tmp()}) {
    if (const Status removed = remove_tree(path); !removed) {
      context.log.line("not removed: " + removed.error().message);
    }
  }
}

}  // namespace trainyard::supervisor
