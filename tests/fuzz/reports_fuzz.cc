// Any JSON as what supervisors and machines send and are sent; what is read is written and read
// again.
#include "tests/fuzz/input.h"
#include "wire/json.h"
#include "wire/machines.h"
#include "wire/urls.h"

using namespace trainyard;

namespace {

template <class Decode>
void check_twin(const wire::Json& json, Decode decode) {
  const auto value = decode(json);
  if (!value) {
    ENSURE(value.error().kind == ErrorKind::invalid);
    return;
  }
  const std::string printed = wire::dump(wire::encode(*value));
  const auto again = wire::parse(printed);
  ENSURE(again);
  const auto twin = decode(*again);
  ENSURE(twin);
  ENSURE(wire::dump(wire::encode(*twin)) == printed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text = fuzz::text_of(bytes, size);
  if (size >= wire::kFollowHeadSize) {
    wire::parse_console_head(text.data());
    wire::parse_follow_head(text.data());
  }
  const auto json = wire::parse(text);
  ENSURE(wire::error_from_answer(500, text).kind != ErrorKind::not_found ||
         (json && wire::member(*json, "error").is_object()));
  if (!json) return 0;
  check_twin(*json, wire::decode_report);
  check_twin(*json, wire::decode_attempt_end);
  check_twin(*json, wire::decode_rank_exit);
  check_twin(*json, wire::decode_orders);
  check_twin(*json, wire::decode_assignment);
  check_twin(*json, wire::decode_compute_spec);
  check_twin(*json, wire::decode_vm_size);
  check_twin(*json, wire::decode_retry);
  check_twin(*json, wire::decode_environment);
  check_twin(*json, wire::decode_realised);
  check_twin(*json, wire::decode_machine_facts);
  check_twin(*json, wire::decode_machine_report);
  check_twin(*json, wire::decode_machine_orders);
  return 0;
}
