#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace trainyard::seal {

// Shorter values have no forms: who masked "1" would leave no console to read.
constexpr size_t kMaskedMin = 4;

// The texts by which secret values give themselves away: the values, each line of those that have
// several, and how they come out of base64 (also amid other bytes), URL encoding and JSON. Each
// once, none shorter than kMaskedMin.
std::vector<std::string> forms_of(const std::vector<std::string>& values);

}  // namespace trainyard::seal
