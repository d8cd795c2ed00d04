#include "env/engine_images.h"

#include "container/engine_api.h"

namespace trainyard::env {
namespace {

constexpr seconds kLately{10};
constexpr size_t kSeenMax = 10'000;
constexpr size_t kHashShown = 12;

}  // namespace

std::string image_tag(std::string_view hash) {
  return "trainyard/env:" + std::string(hash.substr(0, kHashShown));
}

std::string given_image_tag(const Realised& realised) {
  constexpr std::string_view kAlgorithm = "sha256:";
  std::string_view id = realised.image;
  if (id.starts_with(kAlgorithm)) id.remove_prefix(kAlgorithm.size());
  return image_tag(realised.hash) + "-" + std::string(id.substr(0, kHashShown));
}

Result<bool> image_is_there(const Realised& realised, const fs::path& folder,
                            const Settings& settings) {
  std::error_code none;
  if (fs::exists(folder / "root", none)) return true;
  TRY_SET(const container::EngineAddress engine,
          container::find_engine(settings.engine_socket, settings.variables));
  const auto image = container::EngineApi(engine).image(realised.image);
  if (!image && image.error().kind != ErrorKind::not_found) return std::unexpected(image.error());
  return image.has_value();
}

bool EngineImages::has(const Realised& realised, const fs::path& folder, Answer answer) {
  if (realised.kind != EnvironmentKind::container) return true;
  const SteadyTime now = clock_.steady();
  {
    std::lock_guard lock(mutex_);
    const auto seen = seen_.find(realised.hash);
    if (answer == Answer::lately && seen != seen_.end() && now - seen->second < kLately) {
      return true;
    }
  }
  // Without an engine, or one that does not say, whoever needs the image will.
  const bool there = image_is_there(realised, folder, settings_).value_or(true);
  std::lock_guard lock(mutex_);
  if (seen_.size() >= kSeenMax) seen_.clear();
  if (there) {
    seen_[realised.hash] = now;
  } else {
    seen_.erase(realised.hash);
  }
  return there;
}

void EngineImages::forget(const Realised& realised) {
  if (realised.kind != EnvironmentKind::container) return;
  {
    std::lock_guard lock(mutex_);
    seen_.erase(realised.hash);
  }
  const auto engine = container::find_engine(settings_.engine_socket, settings_.variables);
  if (!engine) return;
  // One that a container uses stays with its name: the engine refuses, and an admin's prune sees to
  // it.
  container::EngineApi api(*engine);
  static_cast<void>(api.remove_image(image_tag(realised.hash)));
  static_cast<void>(api.remove_image(given_image_tag(realised)));
}

}  // namespace trainyard::env
