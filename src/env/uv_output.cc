#include "env/uv_output.h"

#include <algorithm>

#include "base/text.h"

namespace trainyard::env {
namespace {

// "Resolved 31 packages in 1.2s" -> 31
int count_in(std::string_view line, std::string_view verb) {
  if (!line.starts_with(verb)) return 0;
  const std::string_view rest = trim(line.substr(verb.size()));
  const auto count = parse_int(rest.substr(0, rest.find(' ')), "count");
  return count && rest.find("package") != std::string_view::npos ? static_cast<int>(*count) : 0;
}

}  // namespace

bool is_uv_log(std::string_view line) {
  return line.starts_with("DEBUG ") || line.starts_with("TRACE ");
}

UvProgress::UvProgress(fs::path cache, Watcher& watcher)
    : cache_(std::move(cache)), watcher_(watcher) {
  watcher_.progress("resolving");
}

void UvProgress::line(std::string_view text) {
  if (const int count = count_in(text, "Resolved "); count > 0) {
    total_ = count;
    kept_before_ = kept();
    say(0);
  }
  if (count_in(text, "Prepared ") > 0) prepared_ = true;
  if (const int count = count_in(text, "Installed "); count > 0) say(total_ = count);
  if (text.starts_with("DEBUG Identified uncached distribution:")) fetched_ += 1;
}

void UvProgress::tick() {
  if (total_ == 0 || prepared_) return;
  const int here = std::max(0, total_ - fetched_);
  say(std::min(total_, here + static_cast<int>(kept() - kept_before_)));
}

int64_t UvProgress::kept() const {
  int64_t count = 0;
  std::error_code error;
  for (fs::directory_iterator entry(cache_ / "archive-v0", error), end; !error && entry != end;
       entry.increment(error)) {
    count += 1;
  }
  return count;
}

void UvProgress::say(int count) {
  const std::string words = std::to_string(count) + " of " + std::to_string(total_) + " packages";
  if (words != said_) watcher_.progress(words);
  said_ = words;
}

void UvSelections::line(std::string_view text) {
  if (text.starts_with("DEBUG Searching for a compatible version of ")) {
    passed_over_ = passed_over_ || searching_;
    searching_ = text.find(" @ `") == std::string_view::npos;  // A URL leaves nothing to select.
    selected_ = selected_ || !searching_;
  } else if (text.starts_with("DEBUG Selecting: ")) {
    searching_ = false;
    selected_ = true;
  }
}

}  // namespace trainyard::env
