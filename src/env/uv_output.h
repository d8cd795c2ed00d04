#pragma once

#include <string>
#include <string_view>

#include "env/build.h"

namespace trainyard::env {

// RUST_LOG for the two readers below, and whether one of its lines is there for them alone.
inline constexpr const char* kUvLog = "uv_installer=debug,uv_resolver=debug";
bool is_uv_log(std::string_view line);

// How far an installation is. uv draws bars for a terminal and says little to a file: what it has
// put into its cache since it knew what to fetch is counted.
class UvProgress {
 public:
  UvProgress(fs::path cache, Watcher& watcher);

  void line(std::string_view text);
  void tick();

 private:
  int64_t kept() const;
  void say(int count);

  fs::path cache_;
  Watcher& watcher_;
  int total_ = 0;
  int fetched_ = 0;
  int64_t kept_before_ = 0;
  bool prepared_ = false;
  std::string said_;
};

// Whether a resolution with --no-build is the one without it. uv passes over versions that have no
// wheel, and then searches again without having selected one; versions for other Pythons look the
// same.
class UvSelections {
 public:
  void line(std::string_view text);
  bool passed_over() const { return passed_over_ || searching_ || !selected_; }

 private:
  bool searching_ = false;
  bool selected_ = false;
  bool passed_over_ = false;
};

}  // namespace trainyard::env
