#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trainyard {

// What a rank runs in.
enum class EnvironmentKind {
  system,     // What the machine has.
  venv,       // A virtual environment of Python.
  conda,      // One of conda, with packages that are not Python's.
  container,  // An image.
};
std::string_view to_string(EnvironmentKind kind);
Result<EnvironmentKind> environment_kind_from(std::string_view name);

// All that is put into an environment. Lists are as the user wrote them; what does not matter
// (comments, the order of packages, the same line twice) is taken out by recipe_hash().
struct Recipe {
  EnvironmentKind kind = EnvironmentKind::system;
  std::string python;  // "3.11", or the path of an interpreter; empty: the machine's own.
  std::vector<std::string> requirements;  // pip's lines, markers and hashes included.
  std::vector<std::string> options;       // pip's: "--pre", "--index-url URL"; their order matters.
  std::vector<std::string> channels;      // conda's; their order matters.
  std::vector<std::string> conda;         // conda's packages: "numpy=1.26".
  // ---- container: one of image, dockerfile ----
  std::string image;       // With requirements or conda: what they are put upon.
  std::string dockerfile;  // Its text, or its path in `context`.
  std::string context;     // The tree of the folder it is built from, a SHA-256; empty: none.
  std::map<std::string, std::string> build_arguments;
  // ---- set by the server ----
  std::string platform;  // "linux-x86_64-cpython-3.11"; empty: not resolved.
  // Of an image that is a file of the server's machine (rootfs:FILE): what was in it. Of one that
  // is named by a tag: its digest in the registry, or its id in the engine. "sha256:…".
  std::string image_digest;
  // A hash of the credential that an image is fetched with: what one credential has fetched is
  // nothing that another, or none, may use. Empty: without.
  std::string credential;
  // Which of its rebuilds (`environment build --rebuild`) a workspace uses; empty: none was made.
  std::string rebuild;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("kind", self.kind);
    f("python", self.python);
    f("requirements", self.requirements);
    f("options", self.options);
    f("channels", self.channels);
    f("conda", self.conda);
    f("image", self.image);
    f("dockerfile", self.dockerfile);
    f("context", self.context);
    f("buildArguments", self.build_arguments);
    f("platform", self.platform);
    f("imageDigest", self.image_digest);
    f("credential", self.credential);
    f("rebuild", self.rebuild);
  }
  bool operator==(const Recipe&) const = default;
};

// 64 hexadecimal digits, the same for recipes that make the same. Empty for `system`.
std::string recipe_hash(const Recipe& recipe);

// Where an image comes from that not everybody may have. The password is a secret's value.
struct ImageRegistry {
  std::string address;
  std::string username;
  std::string secret;  // The name of the sealed password; empty: none.

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("address", self.address);
    f("username", self.username);
    f("secret", self.secret);
  }
  bool operator==(const ImageRegistry&) const = default;
};

// An environment as a run uses it, and as it is registered: the recipe, and how ranks are started
// in what it makes.
struct Environment {
  std::string name;     // Empty: made for this run alone.
  std::string version;  // Of a name: empty or "@latest" until the server has resolved it.
  Recipe recipe;
  std::string hash;         // recipe_hash(), set by the server.
  std::string interpreter;  // Of system: put first in PATH as `python`; empty: as it is.
  std::map<std::string, std::string> variables;
  std::vector<std::string> arguments;  // As `docker run` takes them: "-v", "/data:/data".
  std::string shm_size;                // "2g"; empty: the runtime's own.
  ImageRegistry registry;
  std::vector<std::string> left_out;  // Lines of the user's that are ours to provide: trainyard.
  std::vector<std::string> lock;      // Exact versions to use instead of resolving: of a rerun.
  // ---- set by the server, from the policy for who submits (model/policy.h) ----
  bool limited = false;  // It is no admin: images that only the engine knows are not theirs.
  // An image that is a file must lie below one of these; empty: anywhere.
  std::vector<std::string> image_folders;
  // What `arguments` mount must lie below one of these once links are followed; empty: anywhere.
  std::vector<std::string> host_paths;
  std::vector<std::string> warnings;  // For the run that is submitted; kept with it, not here.

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("name", self.name);
    f("version", self.version);
    f("recipe", self.recipe);
    f("hash", self.hash);
    f("interpreter", self.interpreter);
    f("variables", self.variables);
    f("arguments", self.arguments);
    f("shmSize", self.shm_size);
    f("registry", self.registry);
    f("leftOut", self.left_out);
    f("lock", self.lock);
    f("limited", self.limited);
    f("imageFolders", self.image_folders);
    f("hostPaths", self.host_paths);
  }
  bool operator==(const Environment&) const = default;
};

// What an image says of itself.
struct ImageConfig {
  std::vector<std::string> entrypoint;
  std::vector<std::string> command;
  std::vector<std::string> variables;  // "NAME=VALUE".
  std::string folder;                  // Where it starts; empty: "/".
  std::string user;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("entrypoint", self.entrypoint);
    f("command", self.command);
    f("variables", self.variables);
    f("folder", self.folder);
    f("user", self.user);
  }
  bool operator==(const ImageConfig&) const = default;
};

// What was made of a recipe: the file environment.json beside it.
struct Realised {
  EnvironmentKind kind = EnvironmentKind::system;
  std::string hash;
  std::vector<std::string> lock;  // Exact versions: "numpy==1.26.4", sorted; of an image its id.
  std::vector<std::string> left_out;
  std::string python;  // Of venv and conda, below its folder: "root/bin/python".
  std::string image;   // Of a container: its id, as an engine knows it ("sha256:…").
  ImageConfig config;
  uint64_t bytes = 0;
  uint64_t files = 0;
  std::string tree;  // Of root/, once it was captured for nodes elsewhere.

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("kind", self.kind);
    f("hash", self.hash);
    f("lock", self.lock);
    f("leftOut", self.left_out);
    f("python", self.python);
    f("image", self.image);
    f("config", self.config);
    f("bytes", self.bytes);
    f("files", self.files);
    f("tree", self.tree);
  }
  bool operator==(const Realised&) const = default;
};

}  // namespace trainyard
