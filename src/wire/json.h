#pragma once

// The one door of nlohmann/json.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/text.h"
#include "model/assignment.h"
#include "model/compute.h"
#include "model/policy.h"
#include "model/report.h"
#include "model/run.h"
#include "model/run_spec.h"
#include "model/vm_size.h"

namespace trainyard::wire {

// Keeps the order of keys: what we print reads as it was written.
using Json = nlohmann::ordered_json;

// Bytes to JSON; an error names the place: "line 3, column 7: …". `invalid` on any fault.
Result<Json> parse(std::string_view text);
// Bytes that are not UTF-8 become U+FFFD, NaN and infinities the strings "NaN", "Infinity".
std::string dump(const Json& json);
std::string dump_pretty(const Json& json);

// Structs with fields(): unknown keys are ignored, missing ones keep their default, a wrong type is
// `invalid` and names the key.
Json encode(const RunSpec& spec);
Json encode(const Environment& environment);
Json encode(const Realised& realised);
Json encode(const RetryPolicy& retry);
Json encode(const Report& report);
Json encode(const AttemptEnd& end);
Json encode(const RankExit& exit);
Json encode(const Orders& orders);
Json encode(const Assignment& assignment);
Json encode(const ComputeSpec& spec);
Json encode(const VmSize& size);
Json encode(const RolePolicy& policy);
Result<RunSpec> decode_run_spec(const Json& json);
Result<Environment> decode_environment(const Json& json);
Result<Realised> decode_realised(const Json& json);
Result<RetryPolicy> decode_retry(const Json& json);
Result<Report> decode_report(const Json& json);
Result<AttemptEnd> decode_attempt_end(const Json& json);
Result<RankExit> decode_rank_exit(const Json& json);
Result<Orders> decode_orders(const Json& json);
Result<Assignment> decode_assignment(const Json& json);
Result<ComputeSpec> decode_compute_spec(const Json& json);
Result<VmSize> decode_vm_size(const Json& json);
Result<RolePolicy> decode_role_policy(const Json& json);

// The contract's shape of a run; `now` ends the open phase of its timeline, `log_files` is path ->
// link.
Json run_to_json(const Run& run, WallTime now, Json log_files);
// An entry of a list: all but `attempts, timeline, nodes, logFiles, warnings,
// environmentVariables`, and at most limits::kEntryFields metrics, parameters and tags each.
Json run_entry_to_json(const Run& run, WallTime now);
Json user_to_json(const User& user);
Json token_to_json(const Token& token);
Json workspace_to_json(const Workspace& workspace);
Json member_to_json(const Member& member);
Json experiment_to_json(const Experiment& experiment);
Json compute_to_json(const Compute& compute);

// {"error": {"kind", "message", "hint"}}, both ways.
Json error_to_json(const Error& error);
// `status` is the HTTP status, for a body that is not ours.
Error error_from_answer(int status, std::string_view body);
int http_status(ErrorKind kind);

// null where it is no object, or has no such member.
const Json& member(const Json& json, std::string_view key);
// A member's value, or what was given; a wrong type is `invalid` and names the key.
Result<std::string> string_member(const Json& json, std::string_view key,
                                  std::string otherwise = {});
Result<int64_t> int_member(const Json& json, std::string_view key, int64_t otherwise = 0);
Result<bool> bool_member(const Json& json, std::string_view key, bool otherwise = false);

}  // namespace trainyard::wire
