#include "gpu/gpus.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <set>

#include "base/command.h"
#include "base/text.h"
#include "gpu/driver.h"

namespace trainyard::gpu {
namespace {

std::optional<int> number_of(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

// The place in `devices` of what one word of a CUDA_VISIBLE_DEVICES names.
std::optional<size_t> find_named(const std::vector<Device>& devices, std::string_view word) {
  const std::optional<int> number = number_of(word);
  std::optional<size_t> found;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (number ? devices[i].index != *number : !devices[i].uuid.starts_with(word)) continue;
    if (found) return std::nullopt;  // The beginning of two names is the name of none.
    found = i;
  }
  return word.empty() ? std::nullopt : found;
}

}  // namespace

Gpus::Gpus() = default;
Gpus::Gpus(Gpus&&) noexcept = default;
Gpus& Gpus::operator=(Gpus&&) noexcept = default;
Gpus::~Gpus() = default;

Gpus Gpus::open() {
  Gpus gpus;
  std::unique_ptr<Driver> driver = statically_linked() ? smi_driver() : nvml_driver();
  gpus.why_none_ = driver->start(gpus.devices_, gpus.remarks_);
  if (!gpus.why_none_.empty()) return gpus;
  gpus.driver_ = std::move(driver);
  const size_t all = gpus.devices_.size();
  const char* value = std::getenv("CUDA_VISIBLE_DEVICES");
  gpus.devices_ =
      visible_of(std::move(gpus.devices_),
                 value != nullptr ? std::optional<std::string_view>(value) : std::nullopt);
  if (const size_t hidden = all - gpus.devices_.size(); hidden > 0) {
    gpus.remarks_.push_back("CUDA_VISIBLE_DEVICES=" + std::string(value) + " hides " +
                            std::to_string(hidden) + " of " + std::to_string(all) + " GPUs");
  }
  for (const Device& device : gpus.devices_) {
    if (!gpus.driver_->in_mig_mode(device.index)) continue;
    gpus.remarks_.push_back("GPU " + std::to_string(device.index) +
                            " is in MIG mode: it is offered as a whole, not by instance");
  }
  if (gpus.devices_.empty()) {
    gpus.why_none_ = gpus.remarks_.empty() ? "the NVIDIA driver finds no GPU"
                                           : "no GPU is left: " + join(gpus.remarks_, "; ");
  }
  return gpus;
}

std::vector<Usage> Gpus::usage(std::span<const int> indexes) const {
  std::vector<Usage> all;
  for (const int index : indexes) {
    const auto offered = [&](const Device& device) { return device.index == index; };
    if (std::none_of(devices_.begin(), devices_.end(), offered)) continue;
    if (const auto usage = driver_->usage(index)) all.push_back(*usage);
  }
  return all;
}

std::string Gpus::driver() const { return driver_ ? driver_->version() : ""; }

std::string Gpus::visible(std::span<const int> indexes) const {
  std::vector<std::string> uuids;
  for (const int index : indexes) {
    for (const Device& device : devices_) {
      if (device.index == index) uuids.push_back(device.uuid);
    }
  }
  return join(uuids, ",");
}

std::vector<Device> visible_of(std::vector<Device> devices, std::optional<std::string_view> value) {
  if (!value) return devices;
  std::set<size_t> chosen;
  for (const std::string& word : split(*value, ',')) {
    const auto found = find_named(devices, trim(word));
    if (!found) break;
    chosen.insert(*found);
  }
  std::vector<Device> visible;
  for (const size_t i : chosen) visible.push_back(std::move(devices[i]));
  return visible;
}

std::vector<int> parse_indexes(std::string_view text) {
  std::vector<int> indexes;
  for (const std::string& word : split(text, ',')) {
    if (const auto number = number_of(trim(word))) indexes.push_back(*number);
  }
  return indexes;
}

std::string join_indexes(std::span<const int> indexes) {
  std::vector<std::string> words;
  for (const int index : indexes) words.push_back(std::to_string(index));
  return join(words, ",");
}

}  // namespace trainyard::gpu
