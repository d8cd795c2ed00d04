#include "blob/pack.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace trainyard::blob {
namespace {

// No file system holds a larger file: such a head is not one, and the pack has lost its step.
constexpr uint64_t kBlobMax = uint64_t{1} << 60;

PackHead parse_head(std::string_view bytes) {
  PackHead head;
  std::memcpy(head.digest.bytes.data(), bytes.data(), head.digest.bytes.size());
  for (size_t i = 0; i < 8; ++i) {
    head.size |= uint64_t{static_cast<unsigned char>(bytes[32 + i])} << (8 * i);
  }
  return head;
}

}  // namespace

std::string pack_head(const PackHead& head) {
  std::string bytes(head.digest.bytes.begin(), head.digest.bytes.end());
  for (size_t i = 0; i < 8; ++i) {
    bytes.push_back(static_cast<char>((head.size >> (8 * i)) & 0xff));
  }
  return bytes;
}

Status PackReader::write(std::string_view bytes) {
  while (status_ && !bytes.empty()) status_ = take(bytes);
  if (!status_) writer_.reset();  // Gives its space back at once: the disk may be full.
  return status_;
}

Result<PackReader::Outcome> PackReader::finish() {
  TRY(status_);
  if (in_blob_ || !head_bytes_.empty()) {
    return fail(ErrorKind::invalid, "the pack stops in the middle of a blob");
  }
  TRY(store_.sync());
  return std::exchange(outcome_, {});
}

Status PackReader::take(std::string_view& bytes) {
  if (!in_blob_) {
    const size_t part = std::min(kPackHeadSize - head_bytes_.size(), bytes.size());
    head_bytes_.append(bytes.substr(0, part));
    bytes.remove_prefix(part);
    return head_bytes_.size() == kPackHeadSize ? begin_blob() : Status{};
  }
  const size_t part = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
  if (writer_) {
    TRY(writer_->write(bytes.substr(0, part)));
  } else {
    skipped_.add(bytes.substr(0, part));
  }
  bytes.remove_prefix(part);
  left_ -= part;
  return left_ == 0 ? end_blob() : Status{};
}

Status PackReader::begin_blob() {
  head_ = parse_head(head_bytes_);
  head_bytes_.clear();
  if (head_.size > kBlobMax) return fail(ErrorKind::invalid, "this is not a pack of blobs");
  in_blob_ = true;
  left_ = head_.size;
  if (!store_.has(head_.digest)) {
    TRY_SET(writer_, store_.create());
  }
  return left_ == 0 ? end_blob() : Status{};
}

Status PackReader::end_blob() {
  in_blob_ = false;
  const std::unique_ptr<Writer> writer = std::move(writer_);
  bool good = true;
  if (writer) {
    const Status kept = writer->keep(head_.digest);
    if (!kept && kept.error().kind != ErrorKind::invalid) return kept;
    good = kept.has_value();
  } else {
    good = skipped_.finish() == head_.digest;
  }
  if (good) {
    ++outcome_.kept;
    if (on_kept_) on_kept_(head_.digest);
    return {};
  }
  outcome_.bad.push_back(head_.digest);
  return {};
}

}  // namespace trainyard::blob
