#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trainyard {

// How a Slurm job gets its attempt's token. The job script can be read by every other job of the
// same account (`scontrol write batch_script`, slurmd's spool folder), so it holds a ticket only.
// The job makes a nonce that never leaves its memory, and shows "TICKET.NONCE" once; from then on
// the attempt's only token is the hash of that text, which both sides compute and nobody sends. The
// ticket alone is worth nothing after that.
inline constexpr std::string_view kTicketPrefix = "tyh_";
inline constexpr std::string_view kAttemptTokenPrefix = "tya_";

struct Handover {
  std::string ticket;
  std::string token;  // The attempt's from then on.
};
// Of the bearer token "TICKET.NONCE"; none where it is no such text.
std::optional<Handover> parse_handover(std::string_view bearer);

}  // namespace trainyard
