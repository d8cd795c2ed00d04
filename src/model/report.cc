#include "model/report.h"

#include <array>

namespace trainyard {
namespace {

template <class E>
using Name = std::pair<E, std::string_view>;

constexpr std::array<Name<EndCause>, 9> kCauses = {{
    {EndCause::exited, "exited"},
    {EndCause::canceled, "canceled"},
    {EndCause::time_limit, "time_limit"},
    {EndCause::no_space, "no_space"},
    {EndCause::prepare_failed, "prepare_failed"},
    {EndCause::lost, "lost"},
    {EndCause::evicted, "evicted"},
    {EndCause::refused, "refused"},
    {EndCause::peer_failed, "peer_failed"},
}};

constexpr std::array<Name<ReportKind>, 10> kReportKinds = {{
    {ReportKind::preparing, "preparing"},
    {ReportKind::building, "building"},
    {ReportKind::built, "built"},
    {ReportKind::ready, "ready"},
    {ReportKind::starting, "starting"},
    {ReportKind::running, "running"},
    {ReportKind::finalizing, "finalizing"},
    {ReportKind::sample, "sample"},
    {ReportKind::rank_failed, "rank_failed"},
    {ReportKind::ended, "ended"},
}};

template <class Table, class E>
std::string_view name_of(const Table& table, E value) {
  for (const auto& [known, name] : table) {
    if (known == value) return name;
  }
  return {};
}

template <class E, class Table>
Result<E> value_of(const Table& table, std::string_view name, std::string_view what) {
  for (const auto& [value, known] : table) {
    if (known == name) return value;
  }
  return fail(ErrorKind::invalid, "'" + std::string(name) + "' is not " + std::string(what));
}

}  // namespace

std::string_view to_string(EndCause cause) { return name_of(kCauses, cause); }
Result<EndCause> end_cause_from(std::string_view name) {
  return value_of<EndCause>(kCauses, name, "a cause of an attempt's end");
}
std::string_view to_string(ReportKind kind) { return name_of(kReportKinds, kind); }
Result<ReportKind> report_kind_from(std::string_view name) {
  return value_of<ReportKind>(kReportKinds, name, "a kind of report");
}

}  // namespace trainyard
