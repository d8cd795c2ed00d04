// Any bytes as a pack of blobs, in pieces.
#include <map>

#include "blob/pack.h"
#include "tests/fuzz/input.h"

using namespace trainyard;

namespace {

// Blobs in memory.
class MemoryStore final : public blob::Store {
 public:
  bool has(const Digest& digest) override { return blobs.contains(digest.hex()); }
  Result<Fd> open(const Digest& /*digest*/) override { return fail(ErrorKind::not_found, ""); }
  Result<uint64_t> size(const Digest& digest) override { return blobs.at(digest.hex()).size(); }
  Result<std::unique_ptr<blob::Writer>> create() override {
    return std::make_unique<MemoryWriter>(*this);
  }
  Status sync() override { return {}; }
  Result<WallTime> file_time() override { return WallTime{}; }
  Result<blob::Sweep::Count> sweep(const blob::Sweep& /*sweep*/) override {
    return blob::Sweep::Count{};
  }

  std::map<std::string, std::string> blobs;

 private:
  class MemoryWriter final : public blob::Writer {
   public:
    explicit MemoryWriter(MemoryStore& store) : store_(store) {}
    Status write(std::string_view bytes) override {
      bytes_ += bytes;
      return {};
    }
    Status keep(const Digest& expected) override {
      if (sha256(bytes_) != expected) return fail(ErrorKind::invalid, "other bytes");
      store_.blobs[expected.hex()] = bytes_;
      return {};
    }

   private:
    MemoryStore& store_;
    std::string bytes_;
  };
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::string_view rest = fuzz::text_of(bytes, size);
  MemoryStore store;
  blob::PackReader reader(store);
  for (size_t step = 1; !rest.empty(); step += 7) {
    const std::string_view piece = rest.substr(0, step);
    rest.remove_prefix(piece.size());
    if (!reader.write(piece)) break;
  }
  const auto outcome = reader.finish();
  if (!outcome) {
    ENSURE(outcome.error().kind == ErrorKind::invalid);
  } else {
    ENSURE(outcome->kept >= store.blobs.size());
    ENSURE(outcome->kept + outcome->bad.size() <= size / blob::kPackHeadSize);
  }
  for (const auto& [digest, content] : store.blobs) ENSURE(sha256(content).hex() == digest);
  return 0;
}
