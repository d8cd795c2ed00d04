// Any bytes as JSON, by both readers: they agree on what is JSON and on its value.
#include "query/read.h"
#include "tests/fuzz/input.h"
#include "wire/json.h"

using namespace trainyard;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text = fuzz::text_of(bytes, size);
  const auto json = wire::parse(text);
  const auto fast = query::read(text);
  ENSURE(json.has_value() == fast.has_value());
  if (!json) {
    ENSURE(json.error().kind == ErrorKind::invalid);
    ENSURE(json.error().message == fast.error().message);
    return 0;
  }
  ENSURE(*json == *fast);
  const std::string printed = wire::dump(*json);
  const auto again = wire::parse(printed);
  ENSURE(again);
  ENSURE(wire::dump(*again) == printed);
  ENSURE(!wire::dump_pretty(*json).empty());
  return 0;
}
