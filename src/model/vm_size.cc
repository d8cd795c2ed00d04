#include "model/vm_size.h"

#include "base/id.h"

namespace trainyard {
namespace {

constexpr int kCpusMax = 100'000;
constexpr int kGpusMax = 10'000;
constexpr double kMemoryMax = 1e6;
constexpr double kPriceMax = 1e6;

Status check_price(double price, std::string_view what) {
  // Written so that a NaN is refused too.
  if (price >= 0 && price <= kPriceMax) return {};
  return fail(ErrorKind::invalid, std::string(what) + " must be 0 to 1000000");
}

}  // namespace

Status check_vm_size(const VmSize& size) {
  TRY(check_name(size.name, "size"));
  if (size.cpus < 1 || size.cpus > kCpusMax) {
    return fail(ErrorKind::invalid, "vCPUs must be 1 to 100000");
  }
  if (!(size.memory_gb > 0 && size.memory_gb <= kMemoryMax)) {
    return fail(ErrorKind::invalid, "memoryGB must be above 0, to 1000000");
  }
  if (size.gpus < 0 || size.gpus > kGpusMax) {
    return fail(ErrorKind::invalid, "gpus must be 0 to 10000");
  }
  TRY(check_price(size.price, "pricePerHour"));
  return check_price(size.price_low, "lowPriorityPricePerHour");
}

}  // namespace trainyard
