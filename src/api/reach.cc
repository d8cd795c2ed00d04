#include "api/reach.h"

#include <algorithm>
#include <cstring>

namespace trainyard::api {
namespace {

constexpr size_t kDigestTreesMax = 16;
constexpr size_t kDigestsMax = 500'000;   // Of the trees in memory together: 16 MB.
constexpr size_t kClaimsMax = 4'000'000;  // Of all owners: as many files as a tree may have.
constexpr std::chrono::hours kClaimIdle{24};

}  // namespace

bool TreeDigests::names(std::string_view tree, const Digest& digest) {
  if (tree.empty()) return false;
  if (tree == digest.hex()) return true;
  const std::shared_ptr<const Digests> digests = digests_of(tree);
  return digests && std::ranges::binary_search(*digests, digest);
}

std::shared_ptr<const TreeDigests::Digests> TreeDigests::digests_of(std::string_view tree) {
  using Shared = std::shared_ptr<const Digests>;
  Shared found = kept_.with([&](std::list<Kept>& kept) -> Shared {
    const auto at = std::ranges::find(kept, tree, &Kept::tree);
    if (at == kept.end()) return nullptr;
    kept.splice(kept.begin(), kept, at);
    return kept.front().digests;
  });
  if (found) return found;
  const Result<std::string> text = trees_.text(tree);
  const Result<snapshot::Tree> decoded =
      text ? snapshot::decode(*text) : std::unexpected(text.error());
  if (!decoded) return nullptr;
  Digests digests;
  for (const snapshot::Entry& entry : decoded->entries) {
    using snapshot::EntryKind;
    if (entry.kind == EntryKind::file || entry.kind == EntryKind::executable) {
      digests.push_back(entry.digest);
    }
  }
  std::ranges::sort(digests);
  found = std::make_shared<const Digests>(std::move(digests));
  kept_.with([&](std::list<Kept>& kept) {
    kept.push_front({std::string(tree), found});
    size_t count = 0;
    for (auto at = kept.begin(); at != kept.end(); ++at) {
      count += at->digests->size();
      const auto place = std::distance(kept.begin(), at);
      // The one that was asked for stays, however large.
      if (place == 0 || (count <= kDigestsMax && place < std::ssize(kept) &&
                         static_cast<size_t>(place) < kDigestTreesMax)) {
        continue;
      }
      kept.erase(at, kept.end());
      break;
    }
  });
  return found;
}

size_t Claims::Hash::operator()(const Digest& digest) const {
  size_t hash = 0;
  std::memcpy(&hash, digest.bytes.data(), sizeof hash);
  return hash;
}

void Claims::add(const std::string& owner, const Digest& digest) {
  const SteadyTime now = clock_.steady();
  all_.with([&](All& all) {
    Owned& owned = all.owners[owner];
    owned.used = now;
    if (!owned.digests.insert(digest).second) return;
    if (++all.count > kClaimsMax) make_room(all, now);
  });
}

bool Claims::has(const std::string& owner, const Digest& digest) {
  return all_.with([&](All& all) {
    const auto found = all.owners.find(owner);
    return found != all.owners.end() && found->second.digests.contains(digest);
  });
}

// Those go that were idle for a day, and else the owner that was idle longest.
void Claims::make_room(All& all, SteadyTime now) {
  const std::string idle = std::ranges::min_element(all.owners, {}, [](const auto& owner) {
                             return owner.second.used;
                           })->first;
  std::erase_if(all.owners, [&](const auto& owner) {
    const bool goes = owner.first == idle || now - owner.second.used > kClaimIdle;
    if (goes) all.count -= owner.second.digests.size();
    return goes;
  });
}

}  // namespace trainyard::api
