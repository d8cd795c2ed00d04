#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/guarded.h"
#include "base/id.h"
#include "base/result.h"

namespace trainyard::api {

// Commands that people run on nodes beside what runs there (`node exec`): ordered, taken by who is
// on the node, and what they print on its way back. In memory alone: who asked waits for it, and
// asks again after a restart. Thread-safe.
class Execs {
 public:
  struct Wanted {
    std::string place;  // place_of()
    std::vector<std::string> command;
    int64_t timeout_s = 60;
    std::string by;
  };
  // A node of an attempt, or a machine that has joined.
  static std::string place_of(const AttemptId& attempt, int node);
  static std::string place_of(std::string_view machine);
  static std::string place_of_compute(std::string_view workspace, std::string_view compute);
  // Whether all of `ids` are among `known`, "a,b".
  static bool all_known(const std::vector<std::string>& ids, std::string_view known);

  // Its id; `unavailable` when there are too many.
  Result<std::string> add(Wanted wanted, SteadyTime now);
  // Those nobody has taken yet.
  std::vector<std::string> pending(std::string_view place);
  // Once each; `not_found` where there is none for this place.
  Result<Wanted> take(std::string_view id, std::string_view place);
  // Bytes that begin at `from`; what is there already is skipped. How many there are.
  Result<uint64_t> append(std::string_view id, std::string_view place, uint64_t from,
                          std::string_view bytes, SteadyTime now);
  // `error`: why it did not run, or not to its own end.
  Status end(std::string_view id, std::string_view place, int code, SteadyTime now,
             std::optional<Error> error = {});
  // Ends all that this user began.
  void stop_all_by(std::string_view user);
  // Nobody waits for it any more: who runs it ends it, and who has not taken it never does.
  Status stop(std::string_view id);
  bool stopped(std::string_view id);  // Or not known.

  struct Part {
    std::string bytes;
    uint64_t next = 0;
    bool taken = false;
    bool over = false;
    int code = 0;
    std::optional<Error> error;
    std::string by;
  };
  Result<Part> read(std::string_view id, uint64_t from);

 private:
  struct Exec {
    Wanted wanted;
    SteadyTime touched{};
    bool taken = false;
    bool over = false;
    bool stopped = false;
    int code = 0;
    std::optional<Error> error;
    std::string output;
  };
  using All = std::map<std::string, Exec, std::less<>>;
  static Result<Exec*> find(All& all, std::string_view id, std::string_view place);

  Guarded<All> all_;
};

}  // namespace trainyard::api
