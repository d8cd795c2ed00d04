// Any bytes as the text of a tree, which has one spelling.
#include "snapshot/tree.h"
#include "tests/fuzz/input.h"

using namespace trainyard;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text = fuzz::text_of(bytes, size);
  const auto tree = snapshot::decode(text);
  if (!tree) {
    ENSURE(tree.error().kind == ErrorKind::invalid);
    ENSURE(tree.error().message.starts_with("tree, line "));
    return 0;
  }
  ENSURE(snapshot::encode(*tree) == text);
  ENSURE(snapshot::check(*tree));
  for (const snapshot::Entry& entry : tree->entries) {
    ENSURE(!entry.path.starts_with('/'));
    ENSURE(("/" + entry.path + "/").find("/../") == std::string::npos);
  }
  return 0;
}
