#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/result.h"
#include "model/environment.h"

namespace trainyard::env {

// The realised environments of one machine.
//
//   HASH/environment.json   what it is (Realised); there once it is whole
//   HASH/root/              the virtual environment, or the unpacked image
//   HASH/log.txt            what building it printed
//   HASH/boot               the boot it was made in, until trim() has seen it onto the disk: after
//                           another boot (the power) it is not whole
//   locks/HASH              the exact versions it had, kept though it is taken away (api)
//   rebuilds/…              the rebuild that a workspace uses in place of an environment (api)
//   HASH.lock               held by who makes it, or by everybody who uses it
//   HASH.new-…/             half-made; nobody's once its lock is free
//
// Any number of processes and threads may use one folder.
class Shelf {
 public:
  explicit Shelf(fs::path folder) : folder_(std::move(folder)) {}

  // Where one is, or will be.
  fs::path place(std::string_view hash) const { return folder_ / hash; }

  // Whole, and not taken away while this lives.
  struct Held {
    Realised realised;
    fs::path folder;
    Fd lock;
  };
  // Nothing where it is not there. Counts as a use.
  Result<std::optional<Held>> find(std::string_view hash) const;

  // Fills the new folder it is given; what fails half-way leaves nothing.
  using Make = std::function<Result<Realised>(const fs::path& folder)>;
  // Makes it, unless it is there; who comes while another makes it waits for that.
  Result<Held> make(std::string_view hash, const Make& make) const;

  // Says something new of it: its tree.
  Status update(const Held& held, const Realised& realised) const;

  // Takes away those that were used longest ago until no more than `bytes_max` are left, never one
  // in use; and what was left half-made.
  struct Trimmed {
    int environments = 0;
    uint64_t bytes = 0;
  };
  // `leaves` is told of each that goes, before it does, while nobody can use or make it.
  using Leaves = std::function<void(const Realised& realised)>;
  Result<Trimmed> trim(uint64_t bytes_max, const Leaves& leaves = {}) const;

  // Takes one away that is of no use any more; not one that is in use, or has become another since.
  // True: it is gone.
  Result<bool> discard(const Realised& useless, const Leaves& leaves = {}) const;

  // All that are whole, and when each was last used. Does not count as use.
  struct Kept {
    Realised realised;
    WallTime used{};
  };
  Result<std::vector<Kept>> all() const;

 private:
  fs::path folder_;
};

}  // namespace trainyard::env
