// Any bytes as an environment of a job file, and as a compute file's assignments.
#include "dialects/compute.h"
#include "dialects/environment_file.h"
#include "model/compute.h"
#include "tests/fuzz/input.h"

using namespace trainyard;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text = fuzz::text_of(bytes, size);
  if (const auto document = dialects::parse_document(text, "f.yml")) {
    dialects::Findings findings;
    dialects::EnvironmentDraft draft;
    dialects::read_environment(*document, document->root, {}, findings, draft);
    for (const dialects::Finding& finding : findings) ENSURE(!finding.message.empty());
    for (const dialects::TextFile& file : dialects::environment_files(draft.environment)) {
      ENSURE(!file.name.empty());
    }
  }
  dialects::ComputeAsk ask;
  for (std::string_view rest = text; !rest.empty();) {
    const auto [line, after] = fuzz::first_line(rest);
    ask.sets.emplace_back(line);
    rest = after;
  }
  const auto compute = dialects::load_compute(ask, {});
  if (!compute) {
    ENSURE(compute.error().kind == ErrorKind::invalid);
    ENSURE(!compute.error().message.empty());
  } else {
    const auto checked = check_compute(compute->spec);
    ENSURE(checked || checked.error().kind == ErrorKind::invalid);
  }
  return 0;
}
