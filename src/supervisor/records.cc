#include "supervisor/records.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "seal/masking.h"

namespace trainyard::supervisor {
namespace {

constexpr uint64_t kRecordsPiece = 4 << 20;  // A line that is longer is no record.
// Takes the place of such a line; the server refuses it by its kind and warns on the run.
constexpr std::string_view kLongLine = R"({"k":"line longer than 4 MB","n":"-"})";

// Replaces a line's first bytes, or the rest of one, by empty lines: offsets stay those of the
// file, and the server counts the bytes as taken.
void blank(std::string& buffer, size_t size) { std::fill_n(buffer.begin(), size, '\n'); }

}  // namespace

Records::Records(std::vector<fs::path> files, SystemLog& log, std::vector<std::string> hidden,
                 int first_rank)
    : log_(log), hidden_(std::move(hidden)), first_rank_(first_rank) {
  for (fs::path& file : files) streams_.push_back({.file = std::move(file)});
}

void Records::scan() {
  for (Stream& stream : streams_) {
    struct stat status{};
    if (lstat(stream.file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    stream.size = static_cast<uint64_t>(status.st_size);
  }
}

bool Records::pending() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const Stream& stream) { return stream.waits(); });
}

void Records::compare_all() {
  for (Stream& stream : streams_) stream.doubted = stream.sent > 0;
}

Status Records::send_next(client::AttemptApi& server, std::string& buffer) {
  const auto found = std::find_if(streams_.begin(), streams_.end(),
                                  [](const Stream& stream) { return stream.waits(); });
  if (found == streams_.end()) return {};
  Stream& stream = *found;
  const auto give_up = [&](const std::string& why) -> Status {
    stream.given_up = true;
    log_.line("records: " + why + "; what follows is not kept");
    return {};
  };
  const int rank = first_rank_ + static_cast<int>(found - streams_.begin());
  if (stream.doubted) {
    buffer.clear();
    TRY_SET(const uint64_t has, server.records(rank, stream.sent, buffer));
    stream.doubted = false;
    if (has > stream.size)
      return give_up("the server has " + std::to_string(has) + " bytes of them");
    if (has < stream.sent) stream.stuck = 0;
    stream.sent = has;
    return {};
  }
  const Result<Fd> fd = open_file(stream.file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!fd) return give_up(fd.error().message);
  const uint64_t size = std::min(kRecordsPiece, stream.size - stream.sent);
  TRY_SET(buffer, read_at(fd->get(), stream.sent, size, "read records"));
  // Only of a line that is left out a part is ever sent. The file says it, so that it is true too
  // after the server went back, and for a supervisor that takes over.
  if (stream.sent > 0) {
    TRY_SET(const std::string before, read_at(fd->get(), stream.sent - 1, 1, "read records"));
    if (before != "\n") blank(buffer, std::min(buffer.find('\n'), buffer.size()));
  }
  size_t end = buffer.rfind('\n');
  if (end == std::string::npos && buffer.size() < kRecordsPiece) {
    stream.stuck = stream.size;
    return {};
  }
  if (end == std::string::npos) {
    log_.line("records: a line is longer than 4 MB and is left out");
    blank(buffer, buffer.size());
    buffer.replace(0, kLongLine.size(), kLongLine);
    end = buffer.size() - 1;
  }
  buffer.resize(end + 1);
  seal::cover(buffer, hidden_);  // Its length stays: offsets are those of the file.
  const uint64_t expected = stream.sent + buffer.size();
  const Result<uint64_t> taken = server.records(rank, stream.sent, buffer);
  if (!taken && taken.error().kind == ErrorKind::invalid) return give_up(taken.error().message);
  if (!taken) return std::unexpected(taken.error());
  // Less than before: the server's disk went back in time, and what followed is sent again.
  if (*taken > stream.size || (*taken < expected && *taken == stream.sent)) {
    return give_up("the server has " + std::to_string(*taken) + " bytes of them");
  }
  stream.sent = *taken;
  return {};
}

}  // namespace trainyard::supervisor
