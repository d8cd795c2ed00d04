#include <algorithm>

#include "api/route.h"
#include "base/text.h"
#include "wire/urls.h"

namespace trainyard::api {
namespace {

constexpr size_t kConsoleBodyMax = 8 << 20;  // A supervisor sends about one megabyte at a time.
constexpr size_t kFileBodyMax = 8 << 20;
constexpr size_t kPathMax = 1024;

// The attempt in the URL; it is the token's own, or we would not be here.
const AttemptId& attempt_of(const Call& call) { return *call.identity.attempt; }

// The node in the query; the first where none is named.
Result<AttemptNode> node_of(const Call& call) {
  TRY_SET(const int64_t node, query_number(call.request, "node", 0, {0, INT32_MAX}));
  return AttemptNode{attempt_of(call), static_cast<int>(node)};
}

Status check_may_write(const Call& call) {
  TRY_SET(const auto glance, call.house.watch.glance(attempt_of(call).run));
  return check_live(*glance, attempt_of(call));
}

Result<http::Response> take_reports(const Call& call) {
  TRY_SET(AttemptNode node, node_of(call));
  TRY_SET(const Json body, body_object(call.request));
  // A supervisor of an earlier version tells neither.
  if (body.contains("instance")) {
    TRY_SET(node.instance, wire::string_member(body, "instance"));
  }
  if (body.contains("epoch")) {
    TRY_SET(node.epoch, wire::string_member(body, "epoch"));
  }
  std::vector<Report> reports;
  const auto list = body.find("reports");
  if (list != body.end() && !list->is_array()) {
    return fail(ErrorKind::invalid, "reports: must be a list");
  }
  if (list != body.end()) {
    for (const Json& item : *list) {
      TRY_SET(Report report, wire::decode_report(item));
      reports.push_back(std::move(report));
    }
  }
  // What the run printed and put out is on disk before it is recorded as over.
  const bool ended = std::ranges::any_of(
      reports, [](const Report& report) { return report.kind == ReportKind::ended; });
  if (ended) call.house.seal(attempt_of(call).run);
  TRY_SET(const Orders orders, call.house.control->report(node, reports));
  return answer(wire::encode(orders));
}

Result<http::Response> wait_for_orders(const Call& call) {
  TRY_SET(const AttemptNode node, node_of(call));
  TRY_SET(const int64_t cancel, query_number(call.request, "cancel", 0, {0, 1}));
  TRY_SET(const int64_t go, query_number(call.request, "go", 0, {0, 1}));
  TRY_SET(const int64_t stop, query_number(call.request, "stop", 0, {0, 1}));
  TRY_SET(const int64_t done, query_number(call.request, "done", 0, {0, 1}));
  TRY_SET(Orders orders, call.house.control->orders(node));
  orders.execs = call.house.execs.pending(Execs::place_of(node.attempt, node.node));
  TRY_SET(const auto until, may_wait_until(call));
  const bool known = orders.cancel == (cancel == 1) && orders.go <= (go == 1) &&
                     (orders.stop.empty() || stop == 1) && orders.done <= (done == 1) &&
                     Execs::all_known(orders.execs, call.request.query_or("execs", ""));
  if (known && until) {
    return http::Response::parked(House::state_key(attempt_of(call).run), *until);
  }
  return answer(wire::encode(orders));
}

// A supervisor on a node that shares nothing with us asks for its assignment.
Result<http::Response> show_assignment(const Call& call) {
  TRY_SET(const AttemptNode node, node_of(call));
  const std::string token(bearer_token(call.request));
  TRY_SET(Assignment assignment, call.house.control->assignment(node.attempt, token, node.node));
  // Where we are known by another address, which our URL does not tell.
  const std::string_view at = call.request.query_or("at", "");
  if (at.starts_with("http://") || at.starts_with("https://")) assignment.server_url = at;
  // A job script has it already, and keeps it off the node's disk.
  TRY_SET(const int64_t with_token, query_number(call.request, "token", 1, {0, 1}));
  if (with_token == 0) assignment.token.clear();
  return answer(wire::encode(assignment));
}

// A job that starts shows its ticket, and has the attempt's token from then on.
Result<http::Response> hand_over(const Call& call) {
  TRY_SET(const int64_t number, parse_int(call.request.param("n"), "attempt"));
  if (number < 1 || number > INT32_MAX) return fail(ErrorKind::not_found, "no such attempt");
  const AttemptId attempt{RunId{std::string(call.request.param("id"))}, static_cast<int>(number)};
  TRY(call.house.control->hand_over(attempt, bearer_token(call.request)));
  return answer(Json::object());
}

// Console frames as pieces of `body`.
Result<std::vector<logs::Piece>> pieces_of(std::string_view body) {
  std::vector<logs::Piece> pieces;
  while (!body.empty()) {
    if (body.size() < wire::kConsoleHeadSize) {
      return fail(ErrorKind::invalid, "the body ends inside a frame's head");
    }
    const wire::ConsoleHead head = wire::parse_console_head(body.data());
    body.remove_prefix(wire::kConsoleHeadSize);
    if (head.stream != 'o' && head.stream != 'e') {
      return fail(ErrorKind::invalid, "a frame is neither 'o' nor 'e'");
    }
    if (head.size > body.size()) return fail(ErrorKind::invalid, "the body ends inside a frame");
    pieces.push_back(
        {head.stream == 'o' ? logs::Stream::out : logs::Stream::err, body.substr(0, head.size)});
    body.remove_prefix(head.size);
  }
  return pieces;
}

Result<http::Response> append_console(const Call& call) {
  TRY_SET(const int64_t rank, parse_int(call.request.param("rank"), "rank"));
  TRY_SET(const int64_t from, query_number(call.request, "from", 0));
  TRY_SET(const auto glance, call.house.watch.glance(attempt_of(call).run));
  TRY(check_live(*glance, attempt_of(call)));
  if (rank < 0 || rank >= glance->ranks) {
    return fail(ErrorKind::invalid, "the run has no rank " + std::to_string(rank));
  }
  TRY_SET(const int64_t lost, query_number(call.request, "lost", 0, {0, 1}));
  TRY_SET(const std::vector<logs::Piece> pieces, pieces_of(call.request.body));
  logs::LogStore& logs = call.house.logs;
  TRY_SET(const uint64_t size,
          logs.append(attempt_of(call), static_cast<int>(rank), static_cast<uint64_t>(from), pieces,
                      lost == 1 ? logs::Console::Gap::lost : logs::Console::Gap::refused));
  TRY_SET(const uint64_t durable, logs.durable(attempt_of(call), static_cast<int>(rank)));
  call.house.run_printed(attempt_of(call).run);
  return http::Response::json("{\"size\":" + std::to_string(size) +
                              ",\"durable\":" + std::to_string(durable) + "}");
}

Result<http::Response> append_file(const Call& call) {
  const std::string_view path = call.request.query_or("path", "");
  TRY_SET(const int64_t from, query_number(call.request, "from", 0));
  TRY_SET(const int64_t reset, query_number(call.request, "reset", 0, {0, 1}));
  TRY(check_relative_path(path));
  const bool ours = path.starts_with("logs/") || path.starts_with("system_logs/");
  if (!ours || path.size() > kPathMax) {
    return fail(ErrorKind::invalid,
                "path: must lie in logs/ or system_logs/, of 1024 bytes at most");
  }
  TRY(check_may_write(call));
  const RunId& run = attempt_of(call).run;
  TRY_SET(const store::Store::RunFile file, call.house.store.file(run, path));
  TRY_SET(const uint64_t size,
          call.house.logs.append_file(
              run, file.number, static_cast<uint64_t>(from), call.request.body,
              reset == 1 || file.created ? logs::LogStore::Reset::yes : logs::LogStore::Reset::no));
  call.house.run_printed(run);
  return http::Response::json("{\"size\":" + std::to_string(size) + "}");
}

using enum http::Method;
constexpr RouteRow kAttemptsRoutes[] = {
    {post, "/api/v1/runs/{id}/attempts/{n}/reports", Needs::attempt, Attempts::allowed,
     take_reports,
     "Takes {\"reports\"} of a node's supervisor and answers its orders; none is a heartbeat.",
     "node"},
    {get, "/api/v1/runs/{id}/attempts/{n}/assignment", Needs::attempt, Attempts::allowed,
     show_assignment, "All that the supervisor of a node is told.", "node at token"},
    {post, "/api/v1/runs/{id}/attempts/{n}/handover", Needs::handover, Attempts::refused, hand_over,
     "Makes the hash of the bearer, TICKET.NONCE, the attempt's only token.", ""},
    {get, "/api/v1/runs/{id}/attempts/{n}/orders", Needs::attempt, Attempts::allowed,
     wait_for_orders, "The orders, once they say more than `cancel`, `go` and `stop`.",
     "node cancel go stop done execs wait"},
    {post, "/api/v1/runs/{id}/attempts/{n}/console/{rank}", Needs::attempt, Attempts::allowed,
     append_console,
     "Appends console frames: {\"size\", \"durable\"}. `lost`: what lies before `from` is gone.",
     "from lost", kConsoleBodyMax},
    {post, "/api/v1/runs/{id}/attempts/{n}/files", Needs::attempt, Attempts::allowed, append_file,
     "Appends to a file of logs/ or system_logs/: {\"size\"}.", "path from reset", kFileBodyMax},
};

}  // namespace

std::span<const RouteRow> attempt_routes() { return kAttemptsRoutes; }

}  // namespace trainyard::api
