#include "engine/slurm.h"

#include <doctest/doctest.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "engine/slurm/batch.h"

using namespace trainyard;
using namespace trainyard::engine;

namespace {

// A Slurm that is told by its test what it says.
class FakePrograms : public slurm::Commands {
 public:
  Result<int64_t> submit(const std::string& script) override {
    std::unique_lock lock(mutex_);
    ++calls_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !shut_; });
    if (error_) return std::unexpected(*error_);
    if (no_arrays_ && script.find("#SBATCH --array=") != std::string::npos) {
      return fail(ErrorKind::invalid, "Invalid job array specification");
    }
    const std::string line = "#SBATCH --comment=";
    const size_t at = script.find(line) + line.size();
    slurm::Job job;
    job.number = ++number_;
    job.state = "PENDING";
    job.reason = "Resources";
    job.nodes = 1;
    job.comment = script.substr(at, script.find('\n', at) - at);
    job.name = "ty-" + job.comment.substr(job.comment.rfind(':') + 1);
    jobs_.push_back(job);
    scripts_.push_back(script);
    attempts_ += slurm::attempts_of(job.comment, "srv1/3").size();
    changed_.notify_all();
    return job.number;
  }
  Result<std::vector<slurm::Job>> queue() override {
    std::lock_guard lock(mutex_);
    if (error_) return std::unexpected(*error_);
    return jobs_;
  }
  Result<std::vector<slurm::Node>> nodes() override {
    return slurm::parse_nodes(
        "n1|spot*|idle|4|4000|gpu:2|1:00:00|10.0.0.1|none\n"
        "n2|spot*|mixed|8|2000|(null)|1:00:00|10.0.0.2|none\n");
  }
  Status cancel(const std::string& name, int64_t) override {
    std::lock_guard lock(mutex_);
    for (slurm::Job& job : jobs_) {
      if (job.name == name) job.state = "CANCELLED";
    }
    cancels_.push_back(name);
    changed_.notify_all();
    return {};
  }
  Result<std::string> ask(std::vector<std::string>) override { return std::string(); }
  void stop() override {}

  // ---- the script ----
  void set_state(const std::string& state) {
    std::lock_guard lock(mutex_);
    for (slurm::Job& job : jobs_) job.state = state;
  }
  void set_shut(bool shut) {
    std::lock_guard lock(mutex_);
    shut_ = shut;
    changed_.notify_all();
  }
  void set_error(std::optional<Error> error) {
    std::lock_guard lock(mutex_);
    error_ = std::move(error);
  }
  void forget() {
    std::lock_guard lock(mutex_);
    jobs_.clear();
    number_ = 0;
  }
  template <class Condition>
  void wait_for(Condition condition) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, std::chrono::seconds(30), condition));
  }
  std::vector<std::string> scripts_;
  std::vector<std::string> cancels_;
  size_t attempts_ = 0;     // That were handed in.
  int calls_ = 0;           // To hand in, those that are refused too.
  bool no_arrays_ = false;  // Set before there is an engine at work.

 private:
  bool shut_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<slurm::Job> jobs_;
  std::optional<Error> error_;
  int64_t number_ = 0;
};

struct SlurmYard {
  MonotoneClock clock;
  NullLog log;
  FakePrograms* slurm = nullptr;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, Engine::Going> gone;
  std::unique_ptr<Engine> engine;  // The last: its threads end first.

  SlurmYard() { make(std::make_unique<FakePrograms>()); }
  void make(std::unique_ptr<FakePrograms> fake) {
    slurm = fake.get();
    SlurmOptions options{
        .compute = {}, .server_id = "srv1", .compute_id = 3, .clock = clock, .log = log};
    options.compute.name = "lab";
    options.compute.max_nodes = 4;
    options.compute.setup = "module load cuda";
    options.program_sha256 = "abc123";
    // Seconds are the unit: 0 is at the next look.
    options.patience = {.look = seconds(0), .missing = seconds(0), .ended = seconds(0)};
    options.commands = std::move(fake);
    engine = make_slurm(std::move(options));
    engine->on_gone([this](const AttemptId& attempt, const Engine::Going& going) {
      std::lock_guard lock(mutex);
      gone[attempt.str()] = going;
      changed.notify_all();
    });
  }
  static Assignment assignment(const std::string& run) {
    Assignment made;
    made.run = run;
    made.token = "tyh_secret";
    made.server_url = "http://10.0.0.1:8470";
    made.spec.time_limit_s = 3600;
    return made;
  }
  static AttemptId id(const std::string& run) { return {RunId{run}, 1}; }
  void place(const std::string& run) { REQUIRE(engine->place(assignment(run))); }
  void wait_submitted(size_t count) {
    slurm->wait_for([&] { return slurm->scripts_.size() >= count; });
  }
  Engine::Going wait_gone(const std::string& attempt) {
    std::unique_lock lock(mutex);
    REQUIRE(
        changed.wait_for(lock, std::chrono::seconds(30), [&] { return gone.contains(attempt); }));
    return gone[attempt];
  }
};

}  // namespace

TEST_CASE("a placed attempt becomes a job whose script has all a node needs") {
  SlurmYard yard;
  yard.place("fox");
  yard.wait_submitted(1);
  const std::string& script = yard.slurm->scripts_[0];
  for (const char* part : {"#SBATCH --comment=trainyard:srv1/3:fox.1\n", "ty_ticket=tyh_secret\n",
                           "ty_server=http://10.0.0.1:8470\n", "ty_sha256=abc123\n",
                           "ty_setup='module load cuda'\n", "#SBATCH --time=60\n", "ty_main\n"}) {
    CAPTURE(part);
    CHECK(script.find(part) != std::string::npos);
  }
  CHECK(yard.engine->inspect(SlurmYard::id("fox")) == Placement::live);
}

TEST_CASE("a cluster's capacity is its largest node, and a window on its queue") {
  SlurmYard yard;
  yard.place("fox");
  yard.wait_submitted(1);
  Capacity capacity = yard.engine->capacity();
  for (int i = 0; i < 10'000 && capacity.cpus == 0; ++i) capacity = yard.engine->capacity();
  CHECK(capacity.nodes == 4);
  CHECK(capacity.window == 500);
  CHECK(capacity.cpus == 8);
  CHECK(capacity.memory_bytes == int64_t{4000} << 20);
  CHECK(capacity.gpus == std::vector<int>{0, 1});
}

TEST_CASE("many are submitted as fast as Slurm takes them") {
  SlurmYard yard;
  for (int i = 0; i < 300; ++i) yard.place("fox" + std::to_string(i));
  yard.slurm->wait_for([&] { return yard.slurm->attempts_ == 300; });
}

TEST_CASE("one is handed in at once, and what comes meanwhile goes together") {
  SlurmYard yard;
  yard.slurm->set_shut(true);
  yard.place("first");
  yard.slurm->wait_for([&] { return yard.slurm->calls_ == 1; });
  for (int i = 0; i < 128; ++i) yard.place("fox" + std::to_string(i));
  yard.slurm->set_shut(false);
  yard.slurm->wait_for([&] { return yard.slurm->attempts_ == 129; });
  CHECK(yard.slurm->scripts_[0].find("--array") == std::string::npos);
  CHECK(yard.slurm->scripts_.size() == 3);
  CHECK(yard.engine->inspect(SlurmYard::id("fox127")) == Placement::live);
}

TEST_CASE("a Slurm that takes no arrays gets each alone") {
  SlurmYard yard;
  yard.slurm->no_arrays_ = true;
  yard.slurm->set_shut(true);
  yard.place("first");
  yard.slurm->wait_for([&] { return yard.slurm->calls_ == 1; });
  for (int i = 0; i < 20; ++i) yard.place("fox" + std::to_string(i));
  yard.slurm->set_shut(false);
  yard.slurm->wait_for([&] { return yard.slurm->attempts_ == 21; });
  CHECK(yard.slurm->calls_ == 22);  // One array was tried.
  CHECK(yard.gone.empty());
}

TEST_CASE("the end of a job, its refusal and its loss are told on a thread of the engine") {
  SlurmYard yard;
  yard.place("ends");
  yard.wait_submitted(1);
  yard.slurm->set_state("NODE_FAIL");
  CHECK(yard.wait_gone("ends.1").evicted);
  CHECK(yard.engine->inspect(SlurmYard::id("ends")) == Placement::gone);

  yard.place("lost");
  yard.wait_submitted(2);
  yard.slurm->forget();
  CHECK(yard.wait_gone("lost.1").why.starts_with("Slurm has no job of it"));

  yard.slurm->set_error(Error{ErrorKind::invalid, "invalid partition specified: x"});
  yard.place("refused");
  const Engine::Going going = yard.wait_gone("refused.1");
  CHECK(going.refused);
  CHECK(going.why == "invalid partition specified: x");
}

TEST_CASE("a controller that is away is said, and placed on when it is back") {
  SlurmYard yard;
  yard.slurm->set_error(Error{ErrorKind::unavailable, "Unable to contact slurm controller"});
  yard.place("fox");
  std::string words;
  for (int i = 0; i < 1'000'000 && words.find("does not answer") == std::string::npos; ++i) {
    words = yard.engine->waits_for(SlurmYard::id("fox"));
  }
  CHECK(words.find("Unable to contact slurm controller") != std::string::npos);
  yard.slurm->set_error(std::nullopt);
  yard.wait_submitted(1);
}

TEST_CASE("killed and released attempts leave no job") {
  SlurmYard yard;
  yard.place("killed");
  yard.wait_submitted(1);
  REQUIRE(yard.engine->kill(SlurmYard::id("killed")));
  // Who is killed just while it is handed in is gone before that comes back.
  const std::string why = yard.wait_gone("killed.1").why;
  const bool told = why == "its Slurm job 1 was cancelled" || why == "it was taken back";
  CHECK_MESSAGE(told, why);
  REQUIRE(yard.engine->release(SlurmYard::id("killed")));
  CHECK(yard.engine->inspect(SlurmYard::id("killed")) == Placement::unknown);
}

TEST_CASE("an engine with work under way can be taken down at once") {
  SlurmYard yard;
  for (int i = 0; i < 50; ++i) yard.place("fox" + std::to_string(i));
  yard.engine.reset();
}
