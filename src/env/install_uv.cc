#include <algorithm>

#include "base/text.h"
#include "env/index_settings.h"
#include "env/install.h"

namespace trainyard::env {
namespace {

// "Resolved 31 packages in 1.2s" -> 31
int count_in(std::string_view line, std::string_view verb) {
  if (!line.starts_with(verb)) return 0;
  const std::string_view rest = trim(line.substr(verb.size()));
  const auto count = parse_int(rest.substr(0, rest.find(' ')), "count");
  return count && rest.find("package") != std::string_view::npos ? static_cast<int>(*count) : 0;
}

// uv draws bars for a terminal and says little to a file. How far it is shows in what it has put
// into its cache since it knew what to fetch.
class UvProgress {
 public:
  UvProgress(fs::path cache, Watcher& watcher) : cache_(std::move(cache)), watcher_(watcher) {
    watcher_.progress("resolving");
  }

  // Whether it belongs in the log.
  bool line(std::string_view text) {
    if (const int count = count_in(text, "Resolved "); count > 0) {
      total_ = count;
      kept_before_ = kept();
      say(0);
    }
    if (count_in(text, "Prepared ") > 0) prepared_ = true;
    if (const int count = count_in(text, "Installed "); count > 0) say(total_ = count);
    if (text.starts_with("DEBUG Identified uncached distribution:")) fetched_ += 1;
    return !text.starts_with("DEBUG ") && !text.starts_with("TRACE ");
  }

  void tick() {
    if (total_ == 0 || prepared_) return;
    const int here = std::max(0, total_ - fetched_);
    say(std::min(total_, here + static_cast<int>(kept() - kept_before_)));
  }

 private:
  int64_t kept() const {
    int64_t count = 0;
    std::error_code error;
    for (fs::directory_iterator entry(cache_ / "archive-v0", error), end; !error && entry != end;
         entry.increment(error)) {
      count += 1;
    }
    return count;
  }

  void say(int count) {
    const std::string words = std::to_string(count) + " of " + std::to_string(total_) + " packages";
    if (words != said_) watcher_.progress(words);
    said_ = words;
  }

  fs::path cache_;
  Watcher& watcher_;
  int total_ = 0;
  int fetched_ = 0;
  int64_t kept_before_ = 0;
  bool prepared_ = false;
  std::string said_;
};

// pip's options as uv takes them.
std::vector<std::string> arguments_of(const std::vector<PipOption>& options) {
  std::vector<std::string> arguments;
  bool several_indexes = false;
  for (const auto& [name, value] : options) {
    if (name == "--pre") {
      arguments.insert(arguments.end(), {"--prerelease", "allow"});
    } else if (name == "--trusted-host") {
      arguments.insert(arguments.end(), {"--allow-insecure-host", value});
    } else if (name == "--no-binary" || name == "--only-binary") {
      for (const std::string& package : split(value, ',')) {
        arguments.insert(arguments.end(), {name, package});
      }
    } else if (name != "--prefer-binary" && name != "--use-feature" && name != "--constraint") {
      arguments.push_back(name);
      if (!value.empty()) arguments.push_back(value);
    }
    several_indexes = several_indexes || name == "--extra-index-url";
  }
  // Files written for pip count on the best of all indexes; uv stops at the first that has a name.
  if (several_indexes) {
    arguments.insert(arguments.end(), {"--index-strategy", "unsafe-best-match"});
  }
  return arguments;
}

}  // namespace

Status install_by_uv(const fs::path& uv, const Install& install, const Settings& settings,
                     Watcher& watcher) {
  Variables variables = plain_variables(settings);
  add_index_settings(variables);
  variables.try_emplace("UV_CACHE_DIR", settings.cache / "uv");
  variables["UV_NO_PROGRESS"] = "1";
  variables["UV_PYTHON_DOWNLOADS"] = "never";  // The one it is for has been found.
  const auto step = [&](std::vector<std::string> words) {
    words.insert(words.begin(), uv);
    return Program{std::move(words), variables, install.folder};
  };
  const auto all = [](std::string_view line) {
    return !line.starts_with("Activate with") && !line.starts_with("Creating virtual environment");
  };
  if (!install.made) {
    TRY(run_step(
        step({"venv", "--relocatable", "--no-project", "--python", install.python.file, "root"}),
        "uv", install, watcher, all));
  }
  if (install.file.empty()) return {};
  // Which packages it has to fetch. All that --verbose says would cost a twentieth of a build.
  variables["RUST_LOG"] = "uv_installer=debug";
  std::vector<std::string> words = {
      "pip", "install", "--python", "root/bin/python", "-r", install.file.filename()};
  if (install.exact) words.emplace_back("--no-deps");
  if (!install.constraints.empty()) {
    words.insert(words.end(), {"-c", install.constraints.filename()});
  }
  for (std::string& word : arguments_of(install.options)) words.push_back(std::move(word));
  UvProgress progress(variables["UV_CACHE_DIR"], watcher);
  return run_step(
      step(std::move(words)), "uv", install, watcher,
      [&](std::string_view line) { return progress.line(line); }, [&] { progress.tick(); });
}

}  // namespace trainyard::env
