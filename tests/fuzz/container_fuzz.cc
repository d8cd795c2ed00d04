// Any bytes as what a container engine and an image say: frames of output, an index, a
// configuration.
#include "container/frames.h"
#include "container/oci.h"
#include "tests/fuzz/input.h"

using namespace trainyard;

namespace {

struct Outputs {
  std::string text[3];
  bool good = true;
  bool operator==(const Outputs&) const = default;
};

Outputs outputs_of(std::string_view text, size_t step) {
  Outputs all;
  container::Frames frames([&](int stream, std::string_view bytes) -> Status {
    ENSURE(stream == 1 || stream == 2);
    all.text[stream] += bytes;
    return {};
  });
  for (size_t at = 0; at < text.size() && all.good; at += step) {
    all.good = frames.put(text.substr(at, step)).has_value();
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text = fuzz::text_of(bytes, size);
  const Outputs whole = outputs_of(text, std::max<size_t>(1, size));
  const Outputs pieces = outputs_of(text, 3);
  ENSURE(whole.good == pieces.good);
  if (whole.good) ENSURE(whole == pieces);
  for (const char* tag : {"", "latest"}) {
    const auto digest = container::manifest_digest(text, tag);
    if (digest) ENSURE(digest->starts_with("sha256:"));
  }
  const auto config = container::parse_image_config(text);
  if (!config) ENSURE(config.error().kind == ErrorKind::invalid);
  return 0;
}
