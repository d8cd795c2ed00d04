#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "api/trees.h"
#include "base/clock.h"
#include "base/guarded.h"
#include "base/hash.h"
#include "base/result.h"

namespace trainyard::api {

// The digests that trees name, sorted; those of the last few trees stay in memory, for a client
// that fetches a tree's files one by one. Thread-safe.
class TreeDigests {
 public:
  explicit TreeDigests(Trees& trees) : trees_(trees) {}

  // Whether a tree is, or names, this blob. False where the tree is not here.
  bool names(std::string_view tree, const Digest& digest);

 private:
  using Digests = std::vector<Digest>;
  struct Kept {
    std::string tree;
    // Shared: searched by others while it makes room.
    std::shared_ptr<const Digests> digests;
  };
  std::shared_ptr<const Digests> digests_of(std::string_view tree);

  Trees& trees_;
  Guarded<std::list<Kept>> kept_;
};

// Blobs whose bytes somebody has shown to have, by sending them, or was found to be able to read:
// only such blobs may be named in what they submit. Otherwise the hash of another workspace's file
// would be enough to read it. In memory: after a restart a client sends its files again.
// Thread-safe.
class Claims {
 public:
  explicit Claims(Clock& clock) : clock_(clock) {}

  void add(const std::string& owner, const Digest& digest);
  bool has(const std::string& owner, const Digest& digest);

 private:
  struct Hash {
    size_t operator()(const Digest& digest) const;
  };
  struct Owned {
    std::unordered_set<Digest, Hash> digests;
    SteadyTime used{};
  };
  struct All {
    std::map<std::string, Owned> owners;
    size_t count = 0;
  };
  static void make_room(All& all, SteadyTime now);

  Clock& clock_;
  Guarded<All> all_;
};

}  // namespace trainyard::api
