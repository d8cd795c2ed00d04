#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "container/engine_api.h"

namespace trainyard::container {

// Which image a name such as "python:3.11" stands for now: whoever builds or pushes it again moves
// the tag. Thread-safe.
class ImageTags {
 public:
  struct Parts {
    Clock& clock;
    std::map<std::string, std::string> variables;  // For find_engine().
    std::string engine_socket;
    fs::path folder;  // Keeps what each name stood for, for when a registry does not answer.
    // Called, on a thread of its own, when find() knows more of an image than before.
    std::function<void(const std::string& image)> done;
  };
  explicit ImageTags(Parts parts) : parts_(std::move(parts)) {}
  ~ImageTags();

  struct Found {
    std::string digest;   // "sha256:…"; empty: nobody knows, and whoever fetches it says why.
    std::string warning;  // Set where the registry did not say: a copy that is here is used.
  };
  // An image that the engine alone has is its id there; any other the digest that its registry has
  // for the tag. The answer is not older than `asked`, but for a registry that was silent a moment
  // ago. Never waits: nothing means that a thread is asking, and calls `done`.
  std::optional<Found> find(const std::string& image, const Credentials& credentials,
                            SteadyTime asked);

 private:
  struct Lookup {
    std::optional<Found> found;  // The last answer.
    SteadyTime found_begun{};
    SteadyTime found_ended{};
    bool asking = false;
    std::jthread thread;
  };
  Found look(const std::string& image, const Credentials& credentials);

  const Parts parts_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Lookup>>
      lookups_;  // Held by mutex_; by image and credentials.
};

// "registry:5000/a/b:tag" and "a@sha256:…" -> name, and tag or digest.
std::pair<std::string, std::string> split_image_name(const std::string& name);

// Whether it is the image of that id, or of that digest in a registry.
bool is_image(const EngineApi::Image& image, const std::string& digest);

}  // namespace trainyard::container
