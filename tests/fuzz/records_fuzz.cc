// Any bytes as lines of records; what is taken can be shown.
#include "tests/fuzz/input.h"
#include "wire/records.h"

using namespace trainyard;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const WallTime now{std::chrono::seconds(1'700'000'000)};
  std::string_view rest = fuzz::text_of(bytes, size);
  while (!rest.empty()) {
    const auto [line, after] = fuzz::first_line(rest);
    rest = after;
    const auto record = wire::parse_record(line, now);
    if (!record) {
      ENSURE(record.error().kind == ErrorKind::invalid);
      ENSURE(!record.error().message.empty());
      continue;
    }
    ENSURE(record->at <= now);
    ENSURE(record->at >= WallTime{});
    for (const Point& point : record->points) {
      ENSURE(point.value.has_value() != !point.text.empty());
      ENSURE(wire::parse(wire::dump(wire::point_value(point))));
    }
  }
  return 0;
}
