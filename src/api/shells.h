#pragma once

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "api/execs.h"
#include "engine/engine.h"

namespace trainyard::api {

// Runs the commands that are for nodes of clusters (`node exec -n TARGET`), on threads of its own:
// as many at a time as each cluster allows, the rest in turn. Thread-safe.
class Shells {
 public:
  // `told` is called when a command of that id has printed something or has ended.
  Shells(Clock& clock, Execs& execs, std::function<void(const std::string&)> told)
      : clock_(clock), execs_(execs), told_(std::move(told)) {}
  ~Shells() { close(); }
  Shells(const Shells&) = delete;
  Shells& operator=(const Shells&) = delete;

  struct Job {
    std::string exec;
    std::string node;
    seconds wait{10};
  };
  void start(const std::shared_ptr<engine::NodeShell>& shell, const std::string& place,
             const std::vector<Job>& jobs);
  // Ends what runs, and takes nothing more. By one thread.
  void close();

 private:
  struct Turn {
    std::shared_ptr<engine::NodeShell> shell;
    std::string place;
    Job job;
  };
  struct Worker {
    std::jthread thread;
    bool over = false;  // Held by mutex_.
  };

  // Holds the lock: as many threads as there is work that may be done now.
  void add_workers();
  std::optional<Turn> next();
  void work(Worker& me, std::stop_token stop);
  void run(const Turn& turn, std::stop_token stop);

  Clock& clock_;
  Execs& execs_;
  const std::function<void(const std::string&)> told_;

  std::mutex mutex_;
  bool closed_ = false;  // Held by mutex_, as all below.
  std::deque<Turn> waiting_;
  std::map<engine::NodeShell*, int> busy_;
  std::list<Worker> workers_;
};

}  // namespace trainyard::api
