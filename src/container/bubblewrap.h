#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "container/bubblewrap_plan.h"
#include "container/plan.h"

namespace trainyard::container {

// Containers without a daemon: bubblewrap over an unpacked image. The image is shared by all runs
// and never changed; each rank has a layer of its own for what it writes, gone when it ends. They
// are processes of the rank and end with it, so that nothing is ever left over.
class Bubblewrap final : public Runtime {
 public:
  // `program` is a binary that knows bubblewrap_program(). `unavailable` when there is no bwrap
  // here or the kernel refuses it, with what to do.
  static Result<std::unique_ptr<Runtime>> open(std::string program);

  std::string_view name() const override { return "bubblewrap"; }
  // Beside `file` it needs file.layer, file.passwd and file.group.
  Result<std::vector<std::string>> command(const Plan& plan, const fs::path& file) override;
  Status remove_leftovers(const std::string&) override { return {}; }
  // Their layers lie beside their files, and go with them.
  Status remove_kept(const std::string&) override { return {}; }
  bool needs_root() const override { return true; }
  Result<std::optional<std::string>> find_image(const std::vector<std::string>&) override {
    return std::nullopt;
  }
  Result<std::string> load_root(const fs::path&, const std::string&) override {
    return std::string();
  }

 private:
  Bubblewrap(std::string program, Submitter submitter)
      : program_(std::move(program)), submitter_(std::move(submitter)) {}
  std::string program_;
  Submitter submitter_;
};

// Who we are, and bwrap. `unavailable` with what to do.
Result<Submitter> find_bubblewrap();
// Whether it works here; `unavailable` with what to do. It costs as much as a container: for when
// one has failed.
Status try_bubblewrap(const std::string& bwrap);

}  // namespace trainyard::container
