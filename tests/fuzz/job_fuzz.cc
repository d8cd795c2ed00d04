// Any bytes as a job file; a first line that begins with "--set " is an override.
#include "dialects/job.h"
#include "tests/fuzz/input.h"

using namespace trainyard;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  constexpr std::string_view kSet = "--set ";
  std::string_view text = fuzz::text_of(bytes, size);
  std::vector<std::string> sets;
  if (text.starts_with(kSet)) {
    const auto [line, rest] = fuzz::first_line(text.substr(kSet.size()));
    sets.emplace_back(line);
    text = rest;
  }
  for (const auto& found : dialects::validate_job(text, "f", sets)) ENSURE(!found.message.empty());
  return 0;
}
