#include "model/vm_size.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

using namespace trainyard;

TEST_CASE("what is wrong with a size is named") {
  struct Row {
    std::function<void(VmSize&)> change;
    const char* says;
  };
  const Row rows[] = {
      {[](auto& s) { s.name = "a b"; }, "size"},
      {[](auto& s) { s.cpus = 0; }, "vCPUs"},
      {[](auto& s) { s.memory_gb = 0; }, "memoryGB"},
      {[](auto& s) { s.memory_gb = std::nan(""); }, "memoryGB"},
      {[](auto& s) { s.gpus = -1; }, "gpus"},
      {[](auto& s) { s.price = -0.1; }, "pricePerHour"},
      {[](auto& s) { s.price = std::nan(""); }, "pricePerHour"},
      {[](auto& s) { s.price_low = INFINITY; }, "lowPriorityPricePerHour"},
  };
  const VmSize good{.name = "ours", .cpus = 8, .memory_gb = 3.5};
  CHECK(check_vm_size(good));
  for (const Row& row : rows) {
    VmSize size = good;
    row.change(size);
    const Status checked = check_vm_size(size);
    CAPTURE(row.says);
    REQUIRE(!checked);
    CHECK(checked.error().kind == ErrorKind::invalid);
    CHECK(checked.error().message.find(row.says) != std::string::npos);
  }
}
