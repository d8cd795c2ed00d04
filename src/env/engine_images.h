#pragma once

#include <map>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "env/build.h"

namespace trainyard::env {

// What an environment's image is called in an engine: "trainyard/env:8f31c02b71aa"
std::string image_tag(std::string_view hash);

// What one is called that an engine was given as files: of its content too, since what the recipe
// names may be another image tomorrow. "trainyard/env:8f31c02b71aa-daaad3d2a86a"
std::string given_image_tag(const Realised& realised);

// Whether it can still be used: an admin may have removed the image from the engine.
Result<bool> image_is_there(const Realised& realised, const fs::path& folder,
                            const Settings& settings);

// The images of environments in this machine's engine, which are others' to remove too.
// Thread-safe.
class EngineImages {
 public:
  EngineImages(Clock& clock, Settings settings) : clock_(clock), settings_(std::move(settings)) {}

  // Whether an environment in `folder` can still be used: false only where the engine says that it
  // has lost the image. Most often asked for an environment that was used a moment ago, and then a
  // moment's answer will do.
  enum class Answer { lately, now };
  bool has(const Realised& realised, const fs::path& folder, Answer answer);

  // An environment goes, and with it our name for its image; the image too, where nobody else uses
  // it, by the engine's own rules.
  void forget(const Realised& realised);

 private:
  Clock& clock_;
  const Settings settings_;
  std::mutex mutex_;
  std::map<std::string, SteadyTime> seen_;  // When an image was there, by the hash.
};

}  // namespace trainyard::env
