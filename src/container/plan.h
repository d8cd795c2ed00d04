#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "model/environment.h"

namespace trainyard::container {

// A folder or file of this machine, seen inside at `target`.
struct Bind {
  std::string source;
  std::string target;
  bool read_only = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("source", self.source);
    f("target", self.target);
    f("readOnly", self.read_only);
  }
  bool operator==(const Bind&) const = default;
};

// One rank's container, whichever runtime carries it. It is written to a file: the values of
// variables are not in it, since secrets are among them.
struct Plan {
  std::string image;  // As an engine knows it.
  std::string root;   // The unpacked image, for a runtime without an engine.
  ImageConfig config;
  std::vector<std::string> command;    // Empty: the image's own.
  std::string folder;                  // Where it starts, inside; empty: the image's own.
  std::vector<std::string> variables;  // The names of those that go inside, with their values in
                                       // the environment of who starts it.
  std::vector<Bind> binds;
  std::vector<std::string> arguments;  // The user's, as `docker run` takes them; checked.
  std::string shm_size;                // "2g"; empty: the runtime's own.
  int64_t memory_bytes = 0;            // 0: no limit.
  int cpus = 0;                        // 0: no limit.
  bool gpus = false;                   // The devices that CUDA_VISIBLE_DEVICES names.
  std::string name;                    // Of the container: the run, attempt and rank.
  std::string mark;                    // Of the attempt, as a label: whoever has to end it later.
  // What it changes of its image stays for others, until Runtime::remove_kept().
  bool kept = false;
  std::string upon;  // The name of one that was kept: it begins with what that one left.
  int64_t grace_s = 30;
  std::string note;     // A file for why it ended, where the exit code does not say it.
  std::string process;  // One for "ID PID" of an engine's container, once it has run a moment.

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("image", self.image);
    f("root", self.root);
    f("config", self.config);
    f("command", self.command);
    f("folder", self.folder);
    f("variables", self.variables);
    f("binds", self.binds);
    f("arguments", self.arguments);
    f("shmSize", self.shm_size);
    f("memoryBytes", self.memory_bytes);
    f("cpus", self.cpus);
    f("gpus", self.gpus);
    f("name", self.name);
    f("mark", self.mark);
    f("kept", self.kept);
    f("upon", self.upon);
    f("graceSeconds", self.grace_s);
    f("note", self.note);
    f("process", self.process);
  }
  bool operator==(const Plan&) const = default;
};

// How a rank gets its container. The words it answers with are executed in place of the rank's
// command, with the rank's whole environment, its streams, and a process of its own: SIGTERM to
// that process reaches the container's first process, its exit code is the container's, and when it
// ends the container is gone.
class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual std::string_view name() const = 0;  // "docker", "podman", "bubblewrap".
  // `file` is where the plan may be written for the process (0600), in a folder that stays.
  virtual Result<std::vector<std::string>> command(const Plan& plan, const fs::path& file) = 0;
  // Ends and removes what containers with this mark are left, of a supervisor that was killed.
  virtual Status remove_leftovers(const std::string& mark) = 0;
  // Removes what containers with this mark have left for others (Plan::kept).
  virtual Status remove_kept(const std::string& mark) = 0;

  // Whether it shows an unpacked image (Plan::root), and not one that an engine keeps.
  virtual bool needs_root() const = 0;
  // Of an engine: the id of the first of these images that it has.
  virtual Result<std::optional<std::string>> find_image(const std::vector<std::string>& names) = 0;
  // Of an engine: takes in an unpacked image, called `name` from then on; its id.
  virtual Result<std::string> load_root(const fs::path& root, const std::string& name) = 0;
};

}  // namespace trainyard::container
