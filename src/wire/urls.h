#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/id.h"

// clang-format off
// Every URL of the API, once: patterns for the server's routes, functions for its clients.
//
//   GET    /health /version /metrics                      no token for the first two
//   GET    /api/v1/openapi.json
//   GET    /api/v1/server          pid, url, socket, version, home; ?token=1 over the socket
//   POST   /api/v1/server/stop                 admin, Unix socket only
//   POST   /api/v1/server/backup   {"folder"}             admin, Unix socket only
//   POST   /api/v1/server/check    {"content": bool}      admin, Unix socket only
//   DELETE /api/v1/runs/ID         ?now=1: for good; POST …/restore brings it back
//   POST   /api/v1/server/gc       {"dryRun": bool}       admin; GET: how far it is
//   GET    /api/v1/targets                                [{"name":"local","cpus",…,"free"}]
//   GET|POST        /api/v1/users            {"name","role"}
//   DELETE          /api/v1/users/{name}
//   GET|POST        /api/v1/tokens           {"user","label","expiresInSeconds"} -> {"id","token"}
//   DELETE          /api/v1/tokens/{id}
//   GET|POST        /api/v1/workspaces       {"name","subscriptionId","resourceGroup"}
//   GET|DELETE      /api/v1/workspaces/{name}
//   GET    /api/v1/workspaces/{name}/experiments
//   GET|POST        /api/v1/workspaces/{name}/computes    ComputeSpec -> 201, 200 same again, 409
//   GET|PATCH|DELETE /api/v1/workspaces/{name}/computes/{name}   PATCH: fields of a ComputeSpec
//   POST   /api/v1/workspaces/{name}/computes/{name}/pause|resume
//   GET    /api/v1/workspaces/{name}/computes/{name}/nodes   [{"name","state","runs","reason",…}]
//   POST   /api/v1/node-tokens     {"workspace","name","label","expiresInSeconds"} -> {"token"}
//   POST   /api/v1/machines        {"uid","name","facts"}, with a node token -> {"credential",…}
//   POST   /api/v1/machines/own    {"uid","facts"}: one's own machine, the `local` of one's runs
//   GET    /api/v1/machines        ?workspace
//   GET|DELETE      /api/v1/machines/{key}   ?force=1
//   POST   /api/v1/machines/{key}/poll       ?wait=S MachineReport -> MachineOrders, 204 none new
//   POST   /api/v1/machines/{key}/exec | /api/v1/runs/{id}/exec   {"command","node"|"all",…}
//                                  -> [{"exec","node"}]
//   POST   /api/v1/workspaces/{name}/computes/{name}/exec   {"command","nodes",…}
//                                  -> [{"exec","node","name"}]
//   GET    /api/v1/execs/{exec}    ?from=N&wait=S: bytes; headers x-next, x-taken, x-exit-code,
//                                  x-error (its JSON, percent-encoded)
//   DELETE /api/v1/execs/{exec}    ends it
//   POST   …/execs/{exec}/take     of an attempt or a machine: {"command","timeoutSeconds"}
//   POST   …/execs/{exec}/output   ?from=N[&exit=CODE]: bytes -> {"size","stop"}
//   GET    /api/v1/sizes
//   PUT|DELETE      /api/v1/sizes/{name}     fields of a VmSize
//   GET    /api/v1/policies        fields of a RolePolicy, and "role"
//   PUT    /api/v1/policies/{role} those of its lists that change
//   POST   /api/v1/runs            {"id", "spec": RunSpec} -> 201 run, 200 same again,
//                                  409 another spec, 404 "snapshot …" when its tree is not here
//   GET    /api/v1/runs            ?workspace&experiment&status&target&parent&limit&cursor
//   GET    /api/v1/runs/{id}       a unique beginning of the id will do, here and below
//   POST   /api/v1/runs/{id}/cancel
//   GET    /api/v1/runs/{id}/wait  ?version=V&wait=S: the run once its version is above V, or at S
//   GET    /api/v1/runs/{id}/follow ?from=0,0&version=V&wait=S&rank=R: frames, see below
//   GET    /api/v1/runs/{id}/files
//                                  [{"path","size","kind":"console|view|alias|log|output|…"}]
//   GET    /api/v1/runs/{id}/files/{path...}  ?from=N&wait=S: bytes; headers x-next, x-final;
//                                  or by a Range header; ?expires&signature in place of a token
//   GET    /api/v1/runs/{id}/outputs          the tree of outputs/, as text (snapshot/tree.h)
//   GET    /api/v1/runs/{id}/snapshot         the tree of the code
//   POST   /api/v1/blobs                      a pack, see below -> {"kept", "bad": [hex…]}
//   POST   /api/v1/blobs/missing  {"digests": [hex…]} -> {"missing": [hex…]}
//   GET|HEAD /api/v1/blobs/{digest}
//   POST   /api/v1/runs/{id}/attempts/{n}/reports  ?node=K {"instance", "epoch", "reports":
//                                  [Report…]} -> Orders; [] is a heartbeat (model/report.h, gang.h)
//   GET    /api/v1/runs/{id}/attempts/{n}/orders   ?node=K&cancel=0&go=0&stop=0&done=0&wait=S: once
//                                  they say more than that
//   GET    /api/v1/runs/{id}/attempts/{n}/environment  ?need=made|root|tree&begin=1&log=N&wait=S ->
//                                  {"state","progress","log","logNext","error","realised"}
//   POST   /api/v1/runs/{id}/attempts/{n}/console/{rank}  ?from=N[&lost=1]: console frames ->
//                                  {"size","durable"}
//   POST   /api/v1/runs/{id}/attempts/{n}/files    ?path=logs/x&from=N[&reset=1]: bytes -> {"size"}
//
// Console frames (supervisor -> server): u8 'o'|'e', u32 LE length, bytes. `from` counts the
// attempt's console bytes, frames' heads not counted. The answer's `size` is how many the server
// has; what is sent again below it is skipped, what is sent beyond it is not taken: go on from
// `size`. What lies below `durable` outlives the server's power: a sender may forget it.
// Where a sender is asked for what it has forgotten (a backup was restored), `lost=1` says so.
//
// Follow frames (server -> client): u8 'o'|'e'|'s', u32 LE rank, u32 LE length, bytes. The last is
// 's':
// {"status","reason","version","final","exitCode","error","next":[offset per rank],"attempt",
// "warned"}. The answer comes when there is console to show or the version is above V, or empty at
// S. A final answer's console may go on: ask until nothing comes. `warned`: the run has warnings.
//
// A pack: per blob 32 bytes of SHA-256, u64 LE size, bytes.
// clang-format on
namespace trainyard::wire {

inline constexpr std::string_view kApi = "/api/v1";
inline constexpr int kWaitSecondsMax = 60;  // More is cut to this.

std::string run_url(const RunId& run, std::string_view rest = {});  // rest: "/cancel"
std::string attempt_url(const AttemptId& attempt, std::string_view rest);
std::string file_url(const RunId& run, std::string_view path);
std::string file_url(const RunId& run, std::string_view path, uint64_t from, int wait_s);

// The frames' heads.
std::string console_head(char stream, uint32_t size);
struct ConsoleHead {
  char stream = 'o';
  uint32_t size = 0;
};
inline constexpr size_t kConsoleHeadSize = 5;
ConsoleHead parse_console_head(const char* bytes);

struct FollowHead {
  char kind = 'o';
  uint32_t rank = 0;
  uint32_t size = 0;
};
inline constexpr size_t kFollowHeadSize = 9;
std::string follow_head(const FollowHead& head);
FollowHead parse_follow_head(const char* bytes);

}  // namespace trainyard::wire
