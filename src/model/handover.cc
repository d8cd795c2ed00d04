#include "model/handover.h"

#include "base/hash.h"

namespace trainyard {
namespace {

constexpr size_t kNonceLength = 64;  // A SHA-256 in hex: what the job script makes of 32 bytes.

}  // namespace

std::optional<Handover> parse_handover(std::string_view bearer) {
  const size_t dot = bearer.find('.');
  if (!bearer.starts_with(kTicketPrefix) || dot == std::string_view::npos) return std::nullopt;
  if (bearer.size() - dot - 1 != kNonceLength) return std::nullopt;
  return Handover{.ticket = std::string(bearer.substr(0, dot)),
                  .token = std::string(kAttemptTokenPrefix) + sha256(bearer).hex()};
}

}  // namespace trainyard
