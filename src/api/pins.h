#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/guarded.h"

namespace trainyard::api {

// Trees that somebody was told to fetch, kept from garbage collection though nothing refers to them
// any more: a node fetches an environment that the shelf takes away meanwhile. In memory: the first
// collection comes minutes after a start. Thread-safe.
class Pins {
 public:
  void pin(const std::string& tree, SteadyTime until) {
    pins_.with([&](auto& pins) { pins[tree] = until; });
  }
  std::vector<std::string> live(SteadyTime now) {
    return pins_.with([&](auto& pins) {
      std::erase_if(pins, [&](const auto& pin) { return pin.second < now; });
      std::vector<std::string> trees;
      for (const auto& [tree, until] : pins) trees.push_back(tree);
      return trees;
    });
  }

 private:
  Guarded<std::map<std::string, SteadyTime>> pins_;
};

}  // namespace trainyard::api
