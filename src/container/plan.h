#pragma once

#include <cstdint>
#include <map>
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
  int64_t grace_s = 30;
  std::string
      note;  // A file for why it ended, where the exit code does not say it (out of memory).

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
    f("graceSeconds", self.grace_s);
    f("note", self.note);
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
};

}  // namespace trainyard::container
