#pragma once

#include <map>
#include <string>
#include <utility>

#include "base/guarded.h"

namespace trainyard::engine::slurm {

// Which compute brings which node up and down: two that share nodes (partitions may overlap) would
// undo each other's work. The first to ask has a node until it goes. Thread-safe.
class ScaleClaims {
 public:
  struct Claim {
    std::string owner;  // A compute, the same after it was changed.
    const void* holder = nullptr;
  };

  // Who has the node of that cluster then: `mine.owner`, or another.
  std::string claim(const std::string& cluster, const std::string& node, const Claim& mine) {
    return claims_.with([&](auto& claims) {
      auto [found, made] = claims.try_emplace({cluster, node}, mine);
      // A compute that was changed is two for a moment, and the newer one stays.
      if (!made && found->second.owner == mine.owner) found->second.holder = mine.holder;
      return found->second.owner;
    });
  }
  void release(const void* holder) {
    claims_.with([&](auto& claims) {
      std::erase_if(claims, [&](const auto& item) { return item.second.holder == holder; });
    });
  }

 private:
  Guarded<std::map<std::pair<std::string, std::string>, Claim>> claims_;
};

}  // namespace trainyard::engine::slurm
