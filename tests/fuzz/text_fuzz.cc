// Any bytes as the small texts that people and programs hand in: numbers, sizes, times, URLs, and
// the arguments of a container.
#include "base/clock.h"
#include "base/text.h"
#include "container/arguments.h"
#include "http/client.h"
#include "tests/fuzz/input.h"

using namespace trainyard;

namespace {

template <class T>
void check_refusal(const Result<T>& result) {
  if (result) return;
  ENSURE(result.error().kind == ErrorKind::invalid);
  ENSURE(!result.error().message.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text = fuzz::text_of(bytes, size);
  const auto number = parse_int(text, "n");
  check_refusal(number);
  if (number) ENSURE(parse_int(std::to_string(*number), "n") == *number);
  check_refusal(parse_size(text, "s"));
  check_refusal(parse_duration(text, "d"));
  check_refusal(parse_time(text));
  check_refusal(http::Address::parse_url(text));
  ENSURE(to_utf8(to_utf8(text)) == to_utf8(text));
  check_refusal(container::parse_arguments(split(text, '\n')));
  return 0;
}
