#include "engine/slurm/batch.h"

#include <charconv>

#include "base/text.h"
#include "engine/slurm/job_script.h"
#include "engine/slurm/queue_text.h"

namespace trainyard::engine::slurm {
namespace {

constexpr size_t kCommentMax = 1000;  // Slurm refuses more than 1024.
constexpr size_t kAttemptsMax = 64;   // So few are not many lines of so long a comment.
constexpr int kIndexMax = 1000;       // More than ours ever have.

template <class Number>
std::optional<Number> whole(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// "3", "3-7" or "3-7:2".
bool add_range(std::string_view text, std::vector<int>& indexes) {
  int step = 1;
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    step = whole<int>(text.substr(colon + 1)).value_or(0);
    text = text.substr(0, colon);
  }
  const size_t dash = text.find('-');
  const std::optional<int> first = whole<int>(text.substr(0, dash));
  std::optional<int> last = first;
  if (dash != std::string_view::npos) last = whole<int>(text.substr(dash + 1));
  if (!first || !last || step < 1 || *last > kIndexMax) return false;
  for (int index = *first; index <= *last; index += step) indexes.push_back(index);
  return true;
}

}  // namespace

bool are_alike(const JobPlan& a, const JobPlan& b) {
  JobPlan other = b;
  other.attempt = a.attempt;
  other.ticket = a.ticket;
  return a == other;
}

std::string name_of(const std::vector<AttemptId>& attempts) {
  std::string name = name_of(attempts.front());
  if (attempts.size() > 1) name += "+" + std::to_string(attempts.size() - 1);
  return name;
}

std::string comment_of(std::string_view owner, const std::vector<AttemptId>& attempts) {
  std::string comment = comment_of(owner, attempts.front());
  for (size_t i = 1; i < attempts.size(); ++i) comment += "," + attempts[i].str();
  return comment;
}

std::vector<AttemptId> attempts_of(std::string_view comment, std::string_view owner) {
  std::vector<AttemptId> attempts;
  const size_t head = comment.rfind(':') + 1;
  for (const std::string& one : split(comment.substr(head), ',')) {
    const auto attempt = attempt_of(std::string(comment.substr(0, head)) + one, owner);
    if (!attempt) return {};
    attempts.push_back(*attempt);
  }
  return attempts;
}

ArrayRoom::ArrayRoom(std::string_view owner) : length_(comment_of(owner, AttemptId{}).size()) {}

bool ArrayRoom::take(const AttemptId& attempt) {
  const size_t more = attempt.str().size() + 1;
  if (count_ == kAttemptsMax || (count_ > 0 && length_ + more > kCommentMax)) return false;
  length_ += more;
  ++count_;
  return true;
}

std::optional<ArrayPlaces> parse_places(std::string_view text) {
  ArrayPlaces places;
  const size_t line = text.find('_');
  const std::optional<int64_t> number = whole<int64_t>(text.substr(0, line));
  if (!number) return std::nullopt;
  places.number = *number;
  if (line == std::string_view::npos) return places;
  text.remove_prefix(line + 1);
  if (text.starts_with('[')) {
    if (!text.ends_with(']')) return places;  // Cut off.
    text = text.substr(1, text.size() - 2);
    text = text.substr(0, text.find('%'));
  }
  for (const std::string& range : split(text, ',')) {
    if (!add_range(range, places.indexes)) return ArrayPlaces{.number = *number, .indexes = {}};
  }
  return places;
}

}  // namespace trainyard::engine::slurm
