#include "store/attempt_nodes.h"

#include "wire/json.h"

namespace trainyard::store {
namespace {

Result<NodePart> read_part(const db::Statement& row) {
  NodePart part;
  part.node = static_cast<int>(row.integer(0));
  part.host = {row.text(1), row.text(2), static_cast<int>(row.integer(3))};
  if (const std::string phase = row.text(4); !phase.empty()) {
    TRY_SET(part.phase, report_kind_from(phase));
  }
  part.report_seq = row.integer(5);
  if (const std::string failed = row.text(6); !failed.empty()) {
    TRY_SET(const wire::Json json, wire::parse(failed));
    TRY_SET(part.failed, wire::decode_rank_exit(json));
  }
  part.failed_at = row.time(7);
  part.cpu_seconds = row.real(8);
  part.memory_bytes = row.integer(9);
  part.memory_peak_bytes = row.integer(10);
  if (const std::string end = row.text(11); !end.empty()) {
    TRY_SET(const wire::Json json, wire::parse(end));
    TRY_SET(part.end, wire::decode_attempt_end(json));
  }
  part.sample_seq = row.integer(12);
  part.instance = row.text(13);
  return part;
}

}  // namespace

Result<std::vector<NodePart>> attempt_nodes(db::Db& db, int64_t run, int attempt, int count) {
  std::vector<NodePart> parts(static_cast<size_t>(count));
  for (int node = 0; node < count; ++node) parts[static_cast<size_t>(node)].node = node;
  TRY_SET(db::Statement rows,
          db.query("SELECT node, name, address, port, phase, report_seq, failed, failed_at, "
                   "cpu_seconds, memory_bytes, memory_peak_bytes, outcome, sample_seq, instance "
                   "FROM attempt_nodes "
                   "WHERE run = ? AND attempt = ? AND node < ?",
                   {run, attempt, count}));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return parts;
    TRY_SET(NodePart part, read_part(rows));
    parts[static_cast<size_t>(part.node)] = std::move(part);
  }
}

Status save_attempt_node(db::Transaction& transaction, int64_t run, int attempt,
                         const NodePart& part) {
  const std::string phase = part.phase ? std::string(to_string(*part.phase)) : std::string();
  const std::string failed = part.failed ? wire::dump(wire::encode(*part.failed)) : std::string();
  const std::string end = part.end ? wire::dump(wire::encode(*part.end)) : std::string();
  TRY(transaction.run(
      "INSERT OR REPLACE INTO attempt_nodes (run, attempt, node, name, address, port, phase, "
      "report_seq, failed, failed_at, cpu_seconds, memory_bytes, memory_peak_bytes, outcome, "
      "sample_seq, instance) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      {run, attempt, part.node, part.host.name, part.host.address, part.host.port, phase,
       part.report_seq, failed, part.failed_at, part.cpu_seconds, part.memory_bytes,
       part.memory_peak_bytes, end, part.sample_seq, part.instance}));
  return {};
}

}  // namespace trainyard::store
