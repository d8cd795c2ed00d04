// A first line that is a path, and the lines of an ignore file that judges it.
#include "snapshot/ignore.h"
#include "tests/fuzz/input.h"

using namespace trainyard;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto [path, lines] = fuzz::first_line(fuzz::text_of(bytes, size));
  const snapshot::IgnoreFile file(lines);
  const auto of_file = file.judge(path, false);
  const auto of_folder = file.judge(path, true);
  if (file.empty()) ENSURE(of_file == snapshot::Verdict::none);
  // What fits a file fits a folder of that name; the reverse does not hold for "build/".
  if (of_folder == snapshot::Verdict::none) ENSURE(of_file == snapshot::Verdict::none);
  return 0;
}
