#include "supervisor/console_pump.h"

#include <unistd.h>

#include <cerrno>

#include "base/check.h"

namespace trainyard::supervisor {
namespace {

constexpr size_t kReadSize = 256 << 10;

}  // namespace

ConsolePump::ConsolePump(runtime::RankSet& ranks, std::vector<std::unique_ptr<Spool>>& spools,
                         const seal::Mask& mask)
    : spools_(spools) {
  for (size_t rank = 0; rank < spools.size(); ++rank) {
    runtime::RankSet::Outputs outputs = ranks.take_outputs(static_cast<int>(rank));
    pipes_.push_back({std::move(outputs.out), rank, 'o', mask});
    pipes_.push_back({std::move(outputs.err), rank, 'e', mask});
  }
}

void ConsolePump::add_to(std::vector<pollfd>& polled) const {
  for (const Pipe& pipe : pipes_) polled.push_back({pipe.fd.get(), POLLIN, 0});
}

Result<bool> ConsolePump::read_ready(const std::vector<pollfd>& polled, size_t first) {
  ENSURE(polled.size() == first + pipes_.size());
  bool any = false;
  for (size_t i = 0; i < pipes_.size(); ++i) {
    if (!pipes_[i].fd || polled[first + i].revents == 0) continue;
    TRY_SET(const size_t got, read_once(pipes_[i]));
    any = any || got > 0;
  }
  return any;
}

Status ConsolePump::read_rest() {
  for (Pipe& pipe : pipes_) {
    while (pipe.fd) {
      TRY_SET(const size_t got, read_once(pipe));
      // A process elsewhere may hold the pipe still; it is none of the run's.
      if (got == 0) break;
    }
    TRY(flush(pipe));
  }
  return {};
}

Status ConsolePump::flush(Pipe& pipe) {
  const std::string_view held = pipe.mask.flush();
  if (held.empty() || dropping_) return {};
  return spools_[pipe.rank]->append(pipe.stream, held);
}

Result<size_t> ConsolePump::read_once(Pipe& pipe) {
  if (buffer_.empty()) buffer_.resize(kReadSize);
  const ssize_t got = ::read(pipe.fd.get(), buffer_.data(), buffer_.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (got <= 0) {
    pipe.fd.reset();
    TRY(flush(pipe));
    return 0;
  }
  const auto size = static_cast<size_t>(got);
  const std::string_view shown = pipe.mask.feed({buffer_.data(), size});
  if (!dropping_ && !shown.empty()) TRY(spools_[pipe.rank]->append(pipe.stream, shown));
  return size;
}

}  // namespace trainyard::supervisor
