#include "base/guarded.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

namespace trainyard {
namespace {

TEST_CASE("a guarded value is touched by one thread at a time") {
  Guarded<int> count(0);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) count.with([](int& value) { ++value; });
      });
    }
  }
  CHECK(count.with([](int& value) { return value; }) == 4000);
}

}  // namespace
}  // namespace trainyard
