// Any bytes as the JSON of a run's spec; what is read is written and read again.
#include "tests/fuzz/input.h"
#include "wire/json.h"

using namespace trainyard;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto json = wire::parse(fuzz::text_of(bytes, size));
  if (!json) {
    ENSURE(json.error().kind == ErrorKind::invalid);
    return 0;
  }
  const auto spec = wire::decode_run_spec(*json);
  if (!spec) return 0;
  const auto checked = check_spec(*spec);
  ENSURE(checked || checked.error().kind == ErrorKind::invalid);
  const auto text = wire::dump(wire::encode(*spec));
  const auto again = wire::parse(text);
  ENSURE(again);
  const auto twin = wire::decode_run_spec(*again);
  ENSURE(twin);
  ENSURE(*twin == *spec);
  return 0;
}
