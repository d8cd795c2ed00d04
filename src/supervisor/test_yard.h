#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <memory>
#include <string>
#include <vector>

#include "base/process.h"
#include "model/assignment.h"
#include "snapshot/capture.h"
#include "supervisor/fake_server.h"

// What the supervisor's tests have in common.
namespace trainyard::supervisor {

inline Assignment test_assignment(const FakeServer& server) {
  Assignment assignment;
  assignment.run = "brisk-otter-test";
  assignment.token = "tya_test";
  assignment.server_socket = server.socket;
  assignment.server_url = "http://127.0.0.1:1";
  assignment.spec.experiment = "tests";
  assignment.spec.grace_s = 30;
  assignment.spec.submit_environment = {{"PATH", "/usr/bin:/bin"}};
  return assignment;
}

// An attempt's folder, and supervisors in it as processes of their own: this test program again,
// with one hidden test case (supervise_test.cc) that only calls supervise().
struct Post {
  fs::path folder;
  Assignment assignment;
  Child child;
  std::string isolation;  // TRAINYARD_ISOLATION
  std::string node_name;  // SLURMD_NODENAME
  std::string purpose;    // "collect"; empty: to carry it.

  ~Post() {
    if (child.pid > 0) kill_supervisor();
  }

  void launch() {
    REQUIRE(make_dirs(folder));
    REQUIRE(write_file(folder / "assignment.json", wire::dump(wire::encode(assignment)), 0600));
    start_supervisor();
  }
  void start_supervisor() {
    SpawnOptions options;
    options.command = {self_path().value().string(), "--no-skip", "-tc=carry an attempt"};
    options.environment = {{"TEST_FOLDER", folder.string()}, {"PATH", "/usr/bin:/bin"}};
    if (!isolation.empty()) (*options.environment)["TRAINYARD_ISOLATION"] = isolation;
    if (!node_name.empty()) (*options.environment)["SLURMD_NODENAME"] = node_name;
    if (!purpose.empty()) (*options.environment)["TEST_PURPOSE"] = purpose;
    options.new_session = true;
    child = spawn(options).value();
  }
  // Its exit code, 128+N for signal N.
  int wait() {
    pollfd ended{child.pidfd.get(), POLLIN, 0};
    REQUIRE_MESSAGE(poll(&ended, 1, 60'000) > 0, "the supervisor does not end");
    int status = 0;
    waitpid(child.pid, &status, 0);
    child.pid = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  void kill_supervisor() {
    ::kill(child.pid, SIGKILL);
    wait();
  }
};

// Outlives the supervisors that talk to it.
struct Ground {
  FakeServer server;
  TempDir dir;
};

// One node.
class Yard : public Ground, public Post {
 public:
  Yard() {
    folder = dir.path() / "brisk-otter-test.1";
    assignment = test_assignment(server);
  }

  void shell(const std::string& script) { assignment.spec.command = {"sh", "-c", script}; }
  // The code: this file alone.
  void code(const std::string& name, std::string_view text) {
    const fs::path source = dir.path() / "code";
    REQUIRE(make_dirs(source));
    REQUIRE(write_file(source / name, text, 0755));
    const snapshot::Captured captured = snapshot::capture(source, {}).value();
    for (const snapshot::Entry& entry : captured.tree.entries) {
      REQUIRE(server.store->put(entry.digest, read_file(source / entry.path).value()));
    }
    REQUIRE(server.store->put(captured.id, captured.text));
    REQUIRE(server.store->sync());
    assignment.spec.snapshot = captured.id.hex();
  }
  // From start to end.
  int carry() {
    server.start();
    launch();
    return wait();
  }
};

// Several nodes of one attempt, all on this machine: n0, n1 and so on.
class Nodes : public Ground {
 public:
  Nodes(int nodes, int ranks_each, const std::string& script) {
    server.nodes = nodes;
    for (int node = 0; node < nodes; ++node) {
      Post& post = *posts.emplace_back(std::make_unique<Post>());
      post.node_name = "n" + std::to_string(node);
      post.folder = dir.path() / post.node_name / "brisk-otter-test.1";
      post.assignment = test_assignment(server);
      post.assignment.node = node;
      post.assignment.spec.nodes = nodes;
      post.assignment.spec.processes_per_node = ranks_each;
      post.assignment.spec.command = {"sh", "-c", script};
    }
  }

  std::vector<std::unique_ptr<Post>> posts;

  Post& operator[](int node) { return *posts[static_cast<size_t>(node)]; }
  void launch_all() {
    for (auto& post : posts) post->launch();
  }
  void wait_all() {
    for (auto& post : posts) CHECK(post->wait() == 0);
  }
  void carry() {
    server.start();
    launch_all();
    wait_all();
  }
};

// A fifo in the ranks' folder would be removed with it; this one lies beside.
struct Alive {
  fs::path path;
  Fd fd;
  explicit Alive(const fs::path& folder) : path(folder / "alive") {
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    fd = open_file(path, O_RDWR | O_NONBLOCK).value();
  }
  // A child, and a daemon that left session and parents behind, both holding the fifo.
  std::string daemons() const {
    const std::string hold = "exec 3>" + path.string() + "; printf x >&3; exec sleep 1000";
    return "(setsid sh -c '(" + hold + ") &' &); sh -c '" + hold + "' & ";
  }
  void wait_for_both() {
    std::string text;
    while (text.size() < 2) {
      pollfd polled{fd.get(), POLLIN, 0};
      REQUIRE(poll(&polled, 1, 20'000) > 0);
      char byte = 0;
      if (read(fd.get(), &byte, 1) == 1) text += byte;
    }
    Fd reader = open_file(path, O_RDONLY | O_NONBLOCK).value();
    fd = std::move(reader);
  }
  bool gone_within(int ms) {
    pollfd polled{fd.get(), 0, 0};
    return poll(&polled, 1, ms) > 0 && (polled.revents & POLLHUP) != 0;
  }
};

}  // namespace trainyard::supervisor
