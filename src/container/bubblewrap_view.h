#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "container/plan.h"

namespace trainyard::container {

// A path as a container sees it, and where that is on this machine.
struct Place {
  std::string inside;   // Without symbolic links, "/" or "/a/b".
  std::string outside;  // The same file here.
  bool exists = false;
  bool folder = false;
};

// An unpacked root with binds over it, as it is seen inside. Symbolic links are followed as they
// mean inside: an absolute one begins at the container's root and never leaves it.
class View {
 public:
  // `binds` have targets without symbolic links (find().inside).
  View(std::string root, std::vector<Bind> binds);
  // Where it ends does not have to exist.
  Result<Place> find(std::string_view path) const;

 private:
  std::string outside(const std::string& inside) const;

  std::string root_;
  std::vector<Bind> binds_;
};

// What bwrap is told to show the root so that all of `targets` can be mounted upon, though nothing
// can be made in the root itself: a folder that has to get a new entry becomes one in memory, with
// what the root has there bound in one by one. `bind` is bwrap's word for that: "--ro-bind".
// Targets are such as find().inside says.
Result<std::vector<std::string>> root_words(const std::string& root,
                                            const std::vector<std::string>& targets,
                                            std::string_view bind);

}  // namespace trainyard::container
