// A first line of JMESPath, and a document it is searched in.
#include "query/query.h"
#include "tests/fuzz/input.h"

using namespace trainyard;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto [line, rest] = fuzz::first_line(fuzz::text_of(bytes, size));
  const auto query = query::Query::compile(line);
  if (!query) {
    ENSURE(query.error().kind == ErrorKind::invalid);
    return 0;
  }
  const auto document = wire::parse(rest);
  const auto found = query->search(document ? *document : wire::Json::object());
  ENSURE(found || found.error().kind == ErrorKind::invalid);
  return 0;
}
