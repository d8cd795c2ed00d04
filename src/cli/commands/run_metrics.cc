#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/list_printer.h"

namespace trainyard::cli {
namespace {

constexpr Option kRunMetricsRows[] = {
    {"--metric -m", Takes::value, "NAME", "All values of this one, in the order they came."},
};

constexpr int kMetricsPage = 10'000;

std::vector<std::string> metric_row(const Json& metric) {
  return {cell_of(metric, "name"), cell_of(metric, "last"), cell_of(metric, "lastStep"),
          cell_of(metric, "points"), cell_of(metric, "kind")};
}

std::vector<std::string> point_row(const Json& point) {
  return {cell_of(point, "number"), cell_of(point, "step"), cell_of(point, "value"),
          cell_of(point, "at")};
}

// A name that was mistyped gets the nearest of those there are.
Error no_such_metric(client::Api& api, const RunId& id, const std::string& name) {
  std::vector<std::string> known;
  if (const auto answer = api.metrics(id)) {
    for (const Json& metric : (*answer)["metrics"]) known.push_back(cell_of(metric, "name"));
  }
  const std::string near = nearest(name, known);
  return {ErrorKind::not_found, "run " + id.value + " has no metric '" + name + "'",
          known.empty() ? "Its script has told of none."
                        : (near.empty() ? "" : "Did you mean '" + near + "'? ") +
                              ("They are listed by: trainyard run metrics " + id.value)};
}

}  // namespace

constinit const std::span<const Option> kRunMetricsOptions = kRunMetricsRows;

Result<int> run_metrics(Context& context) {
  TRY_SET(const RunId id, context.chosen_run());
  TRY_SET(client::Api * api, context.api());
  if (!context.args().has("metric")) {
    TRY_SET(const Json answer, api->metrics(id));
    TRY_SET(ListPrinter printer,
            ListPrinter::make(
                context, {{"METRIC", "LATEST", "STEP", "VALUES", "KIND"}, metric_row, metric_row}));
    for (const Json& metric : answer["metrics"]) TRY(printer.add(metric));
    TRY(printer.finish());
    return kExitOk;
  }
  TRY_SET(ListPrinter printer,
          ListPrinter::make(context, {{"NUMBER", "STEP", "VALUE", "AT"}, point_row, point_row}));
  const std::string name = context.args().value("metric");
  for (int64_t from = 0; from >= 0;) {
    const auto page = api->series(id, name, from, kMetricsPage);
    if (!page && page.error().kind == ErrorKind::not_found && api->run(id)) {
      return std::unexpected(no_such_metric(*api, id, name));
    }
    if (!page) return std::unexpected(page.error());
    for (const Json& point : (*page)["points"]) TRY(printer.add(point));
    from = (*page)["next"].is_null() ? -1 : (*page)["next"].get<int64_t>();
  }
  TRY(printer.finish());
  return kExitOk;
}

}  // namespace trainyard::cli
