// Any bytes as a run configuration, and as a document.
#include "dialects/runconfig.h"
#include "tests/fuzz/input.h"
#include "wire/json.h"

using namespace trainyard;

namespace {

// What is JSON is a document too, unless it is beyond a limit of ours or has a key twice.
void check_json(std::string_view text) {
  const auto document = dialects::parse_document(text, "f");
  if (document) return;
  ENSURE(document.error().kind == ErrorKind::invalid);
  ENSURE(document.error().message.starts_with("f:"));
  if (!text.starts_with('{') || !wire::parse(text)) return;
  bool known = false;
  for (const char* reason : {"given twice", "nested deeper", "too much", "NUL", "control byte"}) {
    known = known || document.error().message.find(reason) != std::string::npos;
  }
  ENSURE(known);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text = fuzz::text_of(bytes, size);
  for (const auto& found : dialects::validate_runconfig(text, "f")) ENSURE(!found.message.empty());
  check_json(text);
  return 0;
}
