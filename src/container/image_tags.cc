#include "container/image_tags.h"

#include <algorithm>

#include "base/hash.h"
#include "base/text.h"
#include "container/unpack_skopeo.h"

namespace trainyard::container {
namespace {

constexpr milliseconds kRegistryWait{5'000};
constexpr seconds kSilentFor{60};  // A registry that did not answer is not asked again for so long.
constexpr size_t kLookupsMax = 64;

// The digest under which the engine got it from the registry that its name says; empty: it did not.
// podman writes names in full ("docker.io/library/python"), and has digests of its own images too
// ("localhost/mine").
std::string digest_of(const EngineApi::Image& image, const std::string& name) {
  for (const std::string& digest : image.digests) {
    const auto [repository, hash] = split_image_name(digest);
    if (repository.starts_with("localhost/")) continue;
    if (repository == name || repository.ends_with("/" + name)) return hash;
  }
  return {};
}

}  // namespace

std::pair<std::string, std::string> split_image_name(const std::string& name) {
  if (const size_t at = name.find('@'); at != std::string::npos) {
    const std::string before = name.substr(0, at);
    return {split_image_name(before).first, name.substr(at + 1)};
  }
  const size_t slash = name.rfind('/');
  const size_t colon = name.find(':', slash == std::string::npos ? 0 : slash);
  if (colon == std::string::npos) return {name, "latest"};
  return {name.substr(0, colon), name.substr(colon + 1)};
}

bool is_image(const EngineApi::Image& image, const std::string& digest) {
  return image.id == digest || std::ranges::any_of(image.digests, [&](const std::string& each) {
           return each.ends_with("@" + digest);
         });
}

ImageTags::~ImageTags() {
  // Threads take the lock when they end.
  std::map<std::string, std::unique_ptr<Lookup>> ending;
  {
    std::lock_guard lock(mutex_);
    ending.swap(lookups_);
  }
}

std::optional<ImageTags::Found> ImageTags::find(const std::string& image,
                                                const Credentials& credentials, SteadyTime asked) {
  if (image.find('@') != std::string::npos) return Found{};  // The name says it.
  const std::string key =
      image + "\n" + credentials.server + "\n" + credentials.username + "\n" + credentials.password;
  const SteadyTime now = parts_.clock.steady();
  std::lock_guard lock(mutex_);
  if (lookups_.size() > kLookupsMax) {
    std::erase_if(lookups_, [&](const auto& each) {
      return each.first != key && !each.second->asking &&
             now - each.second->found_ended > kSilentFor;
    });
  }
  std::unique_ptr<Lookup>& lookup = lookups_[key];
  if (!lookup) lookup = std::make_unique<Lookup>();
  if (lookup->found) {
    const bool silent = !lookup->found->warning.empty() && now - lookup->found_ended < kSilentFor;
    if (silent || lookup->found_begun >= asked) return lookup->found;
  }
  if (lookup->asking) return std::nullopt;
  lookup->asking = true;
  lookup->thread = std::jthread([this, begun = lookup.get(), now, image, credentials] {
    Found found = look(image, credentials);
    {
      std::lock_guard ending(mutex_);
      begun->found = std::move(found);
      begun->found_begun = now;
      begun->found_ended = parts_.clock.steady();
      begun->asking = false;
    }
    if (parts_.done) parts_.done(image);
  });
  return std::nullopt;
}

ImageTags::Found ImageTags::look(const std::string& image, const Credentials& credentials) {
  const std::string name = split_image_name(image).first;
  const auto address = find_engine(parts_.engine_socket, parts_.variables);
  std::optional<EngineApi> engine;
  if (address) engine.emplace(*address);
  const auto here = engine ? engine->image(image, kRegistryWait) : fail(ErrorKind::not_found, "");
  const std::string came_as = here ? digest_of(*here, name) : "";
  if (here && came_as.empty()) return {.digest = here->id, .warning = {}};

  const fs::path kept =
      parts_.folder / sha256(image + "\n" + credentials.server + "\n" + credentials.username).hex();
  const bool docker = address && !address->podman;
  const auto asked =
      docker ? engine->registry_digest(image, credentials, kRegistryWait)
             : digest_by_skopeo(image, credentials, kept.string() + ".auth", kRegistryWait);
  if (asked) {
    if (make_dirs(kept.parent_path(), 0700)) static_cast<void>(write_file(kept, *asked, 0600));
    return {.digest = *asked, .warning = {}};
  }
  const std::string last = here ? came_as : read_file(kept).value_or("");
  const ErrorKind kind = asked.error().kind;
  if (last.empty() || kind == ErrorKind::not_found || kind == ErrorKind::denied) {
    return {.digest = here ? came_as : "", .warning = {}};
  }
  return {.digest = last,
          .warning = "the registry did not say which image " + image +
                     " is now, so the copy that is here is used (" + last.substr(0, 19) +
                     "): " + asked.error().message};
}

}  // namespace trainyard::container
