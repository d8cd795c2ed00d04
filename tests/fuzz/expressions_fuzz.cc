// Any text with expressions.
#include "dialects/expressions.h"
#include "tests/fuzz/input.h"

using namespace trainyard;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text = fuzz::text_of(bytes, size);
  const dialects::Values values = {
      {{"lr", "0.1"}, {"x", "${{name}}"}}, {{"model", "outputs/model/"}}, RunId{"brisk-otter-1"}};
  const auto filled = dialects::fill_in(text, values);
  if (!filled) {
    ENSURE(filled.error().offset < size);
    ENSURE(!filled.error().message.empty());
  } else if (!dialects::has_expressions(text)) {
    ENSURE(*filled == text);
  }
  return 0;
}
