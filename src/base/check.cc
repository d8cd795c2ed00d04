#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace trainyard {

void ensure_failed(const char* what, const char* file, int line) {
  std::fprintf(stderr, "trainyard: bug: %s is not true at %s:%d\n", what, file, line);
  std::abort();
}

}  // namespace trainyard
