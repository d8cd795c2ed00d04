#pragma once

#include "base/file.h"
#include "base/result.h"
#include "container/account.h"
#include "container/engine_api.h"
#include "container/plan.h"

namespace trainyard::container {

// A plan and who is to carry it, as `trainyard container FILE` reads them.
struct PlanFile {
  Plan plan;
  EngineAddress engine;
  Account account;
};

Status write_plan(const PlanFile& file, const fs::path& path);
Result<PlanFile> read_plan(const fs::path& path);

}  // namespace trainyard::container
