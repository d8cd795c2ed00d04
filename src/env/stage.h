#pragma once

#include <string>
#include <vector>

#include "env/build.h"

namespace trainyard::env {

// A folder with a new virtual environment, made on a thread of its own; removed at the end.
class Stage : public Watcher {
 public:
  Stage(fs::path folder, const Watcher& watcher) : folder_(std::move(folder)), watcher_(watcher) {}
  ~Stage() override { static_cast<void>(remove_tree(folder_)); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  const fs::path& folder() const { return folder_; }
  const std::vector<std::string>& lines() const { return lines_; }  // Of its log.

  void line(std::string_view text) override { lines_.emplace_back(text); }
  void progress(std::string_view) override {}
  bool stopped() const override { return watcher_.stopped(); }

 private:
  const fs::path folder_;
  const Watcher& watcher_;
  std::vector<std::string> lines_;
};

}  // namespace trainyard::env
