#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"

// Several attempts that Slurm is handed as one job array. Its comment names the attempt of every
// index, so that all who see the array in the queue, after any restart too, know what each is.
namespace trainyard::engine::slurm {

struct JobPlan;

// Whether two jobs differ in nothing but whose they are.
bool are_alike(const JobPlan& a, const JobPlan& b);

// `--job-name` and `--comment` of an array; those of a lone job where there is one attempt alone.
std::string name_of(const std::vector<AttemptId>& attempts);
std::string comment_of(std::string_view owner, const std::vector<AttemptId>& attempts);
// The attempt of every index, if the comment is one of this owner's; a lone job has one.
std::vector<AttemptId> attempts_of(std::string_view comment, std::string_view owner);

// How many attempts have a place in one array.
class ArrayRoom {
 public:
  explicit ArrayRoom(std::string_view owner);
  bool take(const AttemptId& attempt);  // false: there is none for it.

 private:
  size_t length_;
  size_t count_ = 0;
};

// "12", "12_3" and "12_[0-2,7%4]" as squeue has them.
struct ArrayPlaces {
  int64_t number = 0;
  // Empty: it is no array; or its places are not told, which are those that have no line of theirs.
  std::vector<int> indexes;
};
std::optional<ArrayPlaces> parse_places(std::string_view text);

}  // namespace trainyard::engine::slurm
