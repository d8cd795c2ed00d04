#include "supervisor/steps.h"

namespace trainyard::supervisor {

Status make_folders(Context& context) {
  TRY(make_dirs(context.layout.work()));
  TRY(make_dirs(context.layout.outputs()));
  return make_dirs(context.layout.logs());
}

}  // namespace trainyard::supervisor
