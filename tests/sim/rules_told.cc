#include <algorithm>

#include "rules.h"

// What runs tell of themselves.
namespace trainyard::sim {
namespace {

constexpr std::string_view kSystem = "system/";  // Of the supervisor, not of the script.

// In the order of `all`, each once.
bool is_part_of(const std::vector<double>& part, const std::vector<double>& all) {
  auto at = all.begin();
  for (const double value : part) {
    at = std::find(at, all.end(), value);
    if (at == all.end()) return false;
    ++at;
  }
  return true;
}

}  // namespace

void Rules::check_told(const Run& run, const Series& series, const Told& told, const Nodes& nodes) {
  const std::string who = "run " + run.id.value + ": ";
  const Told::About& about = told.about(run.id);
  for (const auto& [name, points] : series) {
    int64_t number = 0;
    for (const Point& point : points) expect(point.number == number++, who + "misnumbered points");
    if (name.starts_with(kSystem)) continue;
    std::vector<Told::Number> kept;
    for (const Point& point : points) kept.emplace_back(point.value.value_or(-1), point.step);
    const auto meant = about.series.find(name);
    expect(meant != about.series.end() && kept == meant->second,
           who + "its metric " + name + " is not what was told, once and in order");
  }
  for (const auto& [name, meant] : about.series) {
    expect(series.contains(name), who + "its metric " + name + " is missing");
  }
  expect(run.labels.tags == about.tags, who + "its tags are not what was told");
  expect(run.labels.properties == about.properties, who + "its properties are not what was told");
  expect(run.parameters == about.parameters, who + "its parameters are not what was told");
  expect(run.parent == about.parent, who + "its parent is another");
  check_told_by_gpus(run, series);
  for (const Attempt& attempt : run.attempts) {
    const auto node = nodes.find({run.id, attempt.number});
    if (node == nodes.end()) continue;
    // One whose end was told has told everything before.
    const bool whole = attempt.end.has_value() && attempt.end == node->second.end();
    for (const Scribe& scribe : node->second.scribes()) {
      const int64_t taken = told.taken(scribe.attempt(), scribe.rank());
      expect(!whole || taken == scribe.size(), who + "its end came before what it told");
    }
  }
}

// Each sample that was taken is one point of each GPU.
void Rules::check_told_by_gpus(const Run& run, const Series& series) {
  std::map<std::string, std::vector<double>> meant;
  for (const Attempt& attempt : run.attempts) {
    const auto taken = sampled_.find({run.id, attempt.number});
    if (taken == sampled_.end()) continue;
    for (const Report& report : taken->second.reports) {
      for (size_t i = 0; i < report.gpus.size(); ++i) {
        const std::string name = "system/gpu_" + std::to_string(i) + "_utilization_percentage";
        meant[name].push_back(report.gpus[i].utilization);
      }
    }
  }
  std::map<std::string, std::vector<double>> kept;
  for (const auto& [name, points] : series) {
    if (!name.starts_with(kSystem) || name.find("utilization") == std::string::npos) continue;
    for (const Point& point : points) kept[name].push_back(point.value.value_or(-1));
  }
  // They are thinned as the run grows old; the first stays, and none is there twice.
  const std::string who = "run " + run.id.value + ": ";
  for (const auto& [name, values] : meant) {
    expect(kept.contains(name) && kept[name].front() == values.front(),
           who + "a GPU's first sample is missing");
  }
  for (const auto& [name, values] : kept) {
    expect(is_part_of(values, meant[name]),
           who + "a GPU's samples are out of order or there twice");
  }
}

void Rules::check_children() {
  for (const auto& [id, seen] : seen_) {
    if (!seen.interactive || seen.parent.empty() || is_final(seen.status)) continue;
    expect(!over_.contains(RunId{seen.parent}),
           "run " + id.value + " outlives its parent " + seen.parent);
  }
}

}  // namespace trainyard::sim
