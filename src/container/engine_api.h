#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "http/client.h"
#include "model/environment.h"
#include "wire/json.h"

namespace trainyard::container {

// Where docker or podman listens, and what it is.
struct EngineAddress {
  std::string socket;
  bool podman = false;
  bool rootless = false;     // The person's own: root inside is that person outside.
  std::string api = "1.40";  // The version we speak with it.

  std::string_view name() const { return podman ? "podman" : "docker"; }
  bool operator==(const EngineAddress&) const = default;
};

// Names the runtime of containers: docker, podman or bubblewrap.
inline constexpr const char* kRuntimeVariable = "TRAINYARD_CONTAINER_RUNTIME";

// The engine at `socket`; where that is empty, what DOCKER_HOST or CONTAINER_HOST of `variables`
// name, or the first that answers in the usual places. An engine of another kind than
// kRuntimeVariable names is not taken. `unavailable` with what to start.
Result<EngineAddress> find_engine(const std::string& socket,
                                  const std::map<std::string, std::string>& variables);

// The sockets where that looks, whether they are there or not.
std::vector<std::string> engine_sockets(const std::map<std::string, std::string>& variables);

// Of whom an image is fetched.
struct Credentials {
  std::string server;
  std::string username;
  std::string password;
};

// The Docker Engine API over a Unix socket, which podman has too. One connection: one per thread.
// What fails says so in the engine's own words: `not_found`, `conflict`, `invalid`, `denied` and
// else `unavailable`.
class EngineApi {
 public:
  explicit EngineApi(EngineAddress address);
  const EngineAddress& address() const { return address_; }

  // ---- images ----

  struct Image {
    std::string id;  // "sha256:…"
    std::vector<std::string> digests;
    ImageConfig config;
    uint64_t bytes = 0;
  };
  Result<Image> image(std::string_view name, milliseconds timeout = seconds(3600));

  // What an engine says while it works; who is told may refuse to go on.
  struct Progress {
    std::string text;   // A line of its log, or "Downloading"
    std::string layer;  // Of a pull.
    uint64_t done = 0;
    uint64_t total = 0;
  };
  using Watch = std::function<Status(const Progress&)>;

  Status pull(const std::string& name, const Credentials& credentials, const Watch& watch);
  // Asks the registry whether the credentials may have the image. Docker's own pull by a digest
  // does not: it takes the manifest from its cache. Nothing to ask of podman, whose pull does.
  Status check_registry(const std::string& name, const Credentials& credentials);
  // The digest that the registry has for a name. podman cannot say it: see digest_by_skopeo().
  Result<std::string> registry_digest(const std::string& name, const Credentials& credentials,
                                      milliseconds timeout);
  // A docker archive or a tar of an OCI layout -> the image's name or id.
  Result<std::string> load(const Fd& file, const fs::path& path, const Watch& watch);
  // The tar of a root filesystem, called `tag` from now on -> the image's id.
  Result<std::string> import(const Fd& file, const fs::path& path, const std::string& tag);
  // The same of a folder (root_tar.h).
  Result<std::string> import_root(const fs::path& root, const std::string& tag);
  Status save(const std::string& name, const std::function<Status(std::string_view)>& sink);
  // "name:tag"
  Status tag(const std::string& id, const std::string& name);
  Status remove_image(const std::string& name);
  // The names and digests by which it knows its images: "debian:12", "debian@sha256:…".
  Result<std::set<std::string>> image_names();
  // The ids of all with the label ("name=value").
  Result<std::vector<std::string>> images_with(const std::string& label);
  // What a container that has ended made of its image: an image "name:tag", with its labels.
  // `emptied` are variables whose values are not to stay with it.
  Status commit(const std::string& container, const std::string& name,
                const std::vector<std::string>& emptied);

  struct Build {
    fs::path context;  // A tar file.
    std::string dockerfile = "Dockerfile";
    std::string tag;
    std::map<std::string, std::string> arguments;
    Credentials credentials;
    bool fresh = false;  // No step is taken from an earlier build.
  };
  // -> the image's id. A step that fails is `invalid`.
  Result<std::string> build(const Build& build, const Watch& watch);

  // ---- containers ----

  // -> its id.
  Result<std::string> create(const std::string& name, const wire::Json& config);
  // Its two outputs, from now on until it has ended. `begun` is called when nothing can be missed
  // any more.
  Status attach(const std::string& id, const std::function<void()>& begun,
                const std::function<Status(int stream, std::string_view)>& take);
  // The text of a file of its; `not_found` where there is none.
  Result<std::string> read_text(const std::string& id, const std::string& path);
  // Puts the files of a folder of ours into one of its, as root's.
  Status put_files(const std::string& id, const fs::path& files, const std::string& folder);
  Status start(const std::string& id);
  // Until it has ended; its exit code.
  Result<int> wait(const std::string& id);
  struct State {
    bool running = false;
    int exit_code = 0;
    bool out_of_memory = false;
    std::string error;
    int64_t pid = 0;  // Of its first process, as the engine's machine counts; 0: none.
  };
  Result<State> state(const std::string& id);
  // One that has ended already is fine.
  Status kill(const std::string& id, int signal);
  // Running or not; one that is gone already is fine.
  Status remove(const std::string& id);
  // The ids of all with the label ("name=value"), those that have ended too.
  Result<std::vector<std::string>> list(const std::string& label);

  // Makes a call under way in another thread fail with `cancelled`. Any thread.
  void interrupt() { client_.interrupt(); }

 private:
  Result<http::Response> ask(http::ClientRequest request, std::string_view doing);
  static Result<std::vector<std::string>> ids_in(std::string_view list);
  Status follow(http::ClientRequest request, std::string_view doing, const Watch& watch,
                const std::function<void(const wire::Json&)>& also = {});
  Result<std::string> import_tar(http::ClientRequest body, const std::string& from,
                                 const std::string& called);

  EngineAddress address_;
  http::Client client_;
};

}  // namespace trainyard::container
