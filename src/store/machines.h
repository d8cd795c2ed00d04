#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "db/db.h"
#include "model/machine.h"
#include "model/run.h"

// Machines that pull their work, and the one-time tokens they join with.
namespace trainyard::store {

Result<std::vector<Machine>> all_machines(db::Db& db);
Result<Machine> load_machine(db::Db& db, std::string_view key);

// A one-time token for a machine to join the workspace with; `name`, if not empty, is to be the
// machine's. Of `secret` only the SHA-256 is kept.
struct NewNodeToken {
  std::string workspace;
  std::string name;
  std::string by;
  std::string secret;
  std::string label;
  WallTime expires{};
  std::optional<int64_t> parent = {};  // The token that makes it.
};
Result<Token> insert_node_token(db::Transaction& transaction, const NewNodeToken& token,
                                WallTime now);

// What a machine says when it joins.
struct Joining {
  int64_t token = 0;  // The one-time token's id.
  std::string uid;
  std::string name;  // Empty: made of its host's.
  MachineFacts facts;
  std::string credential;  // A new secret for it.
};
struct JoinedMachine {
  Machine machine;
  bool made = false;  // false: it was there, and has a new credential now.
};
// `denied` for a token that another machine has used; `conflict` for a name that is taken. The same
// token and machine again is the same join: an answer may have been lost.
Result<JoinedMachine> join_machine(db::Transaction& transaction, const Joining& joining,
                                   WallTime now);

// The machine of a person that the uid names; made when it is new.
Result<Machine> personal_machine(db::Transaction& transaction, std::string_view owner,
                                 std::string_view uid, const MachineFacts& facts, WallTime now);

Status note_machine(db::Transaction& transaction, int64_t id, const MachineFacts& facts,
                    WallTime heard);
// `conflict` while a run waits or is live there, unless `force`.
enum class Force { no, yes };
Status delete_machine(db::Transaction& transaction, const Machine& machine, Force force);

inline constexpr std::string_view kMachinePrefix = "tym_";  // Of a machine's credential.
// Whose credential this is; none: nobody's.
Result<std::optional<Machine>> machine_of_credential(db::Db& db, std::string_view secret);

}  // namespace trainyard::store
