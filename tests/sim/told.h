#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "model/run_spec.h"
#include "wire/records.h"

namespace trainyard::sim {

// What the server must hold of what it was told: the bytes of every stream once and in their
// order, whatever was repeated, cut or came too early. Kept beside the server, by its answers.
class Told {
 public:
  using Number = std::pair<double, std::optional<int64_t>>;  // Value and step.
  struct About {
    std::string parent;  // Empty: none.
    bool interactive = false;
    bool over = false;
    std::map<std::string, std::vector<Number>> series;
    std::map<std::string, std::string> tags;
    std::map<std::string, std::string> properties;
    std::map<std::string, std::string> parameters;
  };

  void submitted(const RunId& id, const RunSpec& spec);
  // With the children that nobody else carries.
  void over(const RunId& id);

  // The bytes from `from` on of a stream came to the server: how many of it are then taken.
  int64_t take(const AttemptId& attempt, int rank, int64_t from, std::string_view bytes);
  // Lines came without a stream: how many are records.
  int64_t take(const RunId& run, std::string_view lines);

  int64_t taken(const AttemptId& attempt, int rank) const;
  const About& about(const RunId& id) const { return runs_.at(id.value); }
  bool knows(const RunId& id) const { return runs_.contains(id.value); }
  const std::map<std::string, About>& runs() const { return runs_; }

 private:
  bool take_line(const std::string& run, std::string_view line);
  bool add_child(const std::string& run, const wire::Record& record);
  bool end_child(const std::string& run, const wire::Record& record);
  // The run a record is about, when it may be: the run itself, or what descends from it and lives.
  About* find(const std::string& run, const std::string& child);
  bool descends(const std::string& child, const std::string& run) const;

  std::map<std::string, About> runs_;
  std::map<std::pair<AttemptId, int>, int64_t> taken_;
};

}  // namespace trainyard::sim
