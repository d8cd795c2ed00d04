#pragma once

#include <memory>
#include <string>

#include "container/engine_api.h"
#include "container/plan.h"

namespace trainyard::container {

// Containers by docker or podman. A rank is our program `container FILE` (run_container.h), which
// asks the engine for the container and stands for it among the attempt's processes.
class DockerRuntime final : public Runtime {
 public:
  // `program` is a binary of ours that knows `container FILE`: self_path().
  DockerRuntime(std::string program, EngineAddress engine)
      : program_(std::move(program)), engine_(std::move(engine)) {}

  const EngineAddress& engine() const { return engine_; }
  std::string_view name() const override { return engine_.name(); }
  Result<std::vector<std::string>> command(const Plan& plan, const fs::path& file) override;
  Status remove_leftovers(const std::string& mark) override;
  Status remove_kept(const std::string& mark) override;
  bool needs_root() const override { return false; }
  Result<std::optional<std::string>> find_image(const std::vector<std::string>& names) override;
  Result<std::string> load_root(const fs::path& root, const std::string& name) override;

 private:
  std::string program_;
  EngineAddress engine_;
};

}  // namespace trainyard::container
