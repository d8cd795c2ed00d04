#include "store/computes.h"

#include <doctest/doctest.h>

#include <set>

#include "base/fake_clock.h"
#include "store/history.h"
#include "store/run_rows.h"
#include "store/store.h"
#include "store/vm_sizes.h"

using namespace trainyard;
using store::Store;
using wire::Json;

namespace {

const ComputeSpec kSpec{.name = "gpu-cluster", .partition = "gpu", .max_nodes = 4};

struct Home {
  TempDir dir;
  FakeClock clock;
  std::unique_ptr<Store> store = open();

  std::unique_ptr<Store> open() {
    auto opened = Store::open(dir.path() / "trainyard.db", clock, {.sync = false});
    REQUIRE(opened);
    return *std::move(opened);
  }
  template <class F>
  auto change(F&& f) -> decltype(f(std::declval<db::Transaction&>())) {
    decltype(f(std::declval<db::Transaction&>())) result =
        fail(ErrorKind::internal, "the change was not made");
    static_cast<void>(store->write(Durable::no, [&](db::Transaction& t) -> Status {
      result = f(t);
      return result ? Status() : Status(std::unexpected(result.error()));
    }));
    return result;
  }
  template <class F>
  auto look(F&& f) -> decltype(f(std::declval<db::Db&>())) {
    decltype(f(std::declval<db::Db&>())) result = fail(ErrorKind::internal, "nobody looked");
    REQUIRE(store->read([&](db::Db& db) -> Status {
      result = f(db);
      return {};
    }));
    return result;
  }
  Result<store::ComputeMade> insert(const ComputeSpec& spec = kSpec,
                                    std::string_view workspace = "default") {
    return change([&](db::Transaction& t) {
      return store::insert_compute(t, workspace, spec, "ada", clock.wall());
    });
  }
  Result<Compute> load(std::string_view name = "gpu-cluster") {
    return look([&](db::Db& db) { return store::load_compute(db, "default", name); });
  }
  Result<Compute> alter(const Json& changes) {
    return change([&](db::Transaction& t) {
      return store::change_compute(t, "default", "gpu-cluster", changes);
    });
  }
  Status remove() {
    return change(
        [&](db::Transaction& t) { return store::delete_compute(t, "default", "gpu-cluster"); });
  }
  void add_run(const std::string& id, RunStatus status, bool interactive = false) {
    RunSpec spec = store::plain_spec();
    spec.target = "gpu-cluster";
    spec.interactive = interactive;
    REQUIRE(store->write(Durable::no, [&](db::Transaction& t) -> Status {
      TRY_SET(store::RunHead head, store::add_queued_run(t, RunId{id}, spec, clock.wall()));
      head.life.status = status;
      return store::save_run(t, head);
    }));
  }
  void set_status(const std::string& id, RunStatus status) {
    REQUIRE(store->write(Durable::no, [&](db::Transaction& t) -> Status {
      TRY_SET(store::RunHead head, store::run_head(t.db(), RunId{id}));
      head.life.status = status;
      return store::save_run(t, head);
    }));
  }
  store::TargetRuns runs() {
    const auto counted =
        look([&](db::Db& db) { return store::count_runs_on(db, "default/gpu-cluster"); });
    REQUIRE_MESSAGE(counted, counted.error().message);
    return *counted;
  }
};

bool says(const auto& result, ErrorKind kind, std::string_view part) {
  REQUIRE(!result);
  const Error& error = result.error();
  CAPTURE(error.message);
  CAPTURE(error.hint);
  CHECK(error.kind == kind);
  return (error.message + " " + error.hint).find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a compute is kept as it was made, in its workspace alone") {
  Home home;
  REQUIRE(home.store->create_workspace({.name = "other"}));
  ComputeSpec spec = kSpec;
  spec.sbatch = {"--gres=gpu:1"};
  spec.setup = "module load cuda\nulimit -l unlimited";
  spec.vm_size = "STANDARD_NC6";
  const auto made = home.insert(spec);
  REQUIRE(made);
  CHECK(made->made);
  CHECK(made->compute.spec.vm_size == "Standard_NC6");  // As the table spells it.
  spec.vm_size = "Standard_NC6";
  home.store.reset();
  home.store = home.open();
  const auto loaded = home.load();
  REQUIRE(loaded);
  CHECK(loaded->spec == spec);
  CHECK(loaded->workspace == "default");
  CHECK(loaded->created_by == "ada");
  CHECK(loaded->created == made->compute.created);
  CHECK_FALSE(loaded->paused);
  REQUIRE(home.insert({.name = "a"}, "other"));
  const auto of_default = home.look([](db::Db& db) { return store::list_computes(db, "default"); });
  REQUIRE(of_default);
  CHECK(of_default->size() == 1);
  CHECK(home.look([](db::Db& db) { return store::all_computes(db); })->size() == 2);
  REQUIRE(home.store->delete_workspace("other"));
  CHECK(home.look([](db::Db& db) { return store::all_computes(db); })->size() == 1);
}

TEST_CASE("making the same again finds what is there; making another is told the difference") {
  Home home;
  REQUIRE(home.insert());
  const auto again = home.insert();
  REQUIRE(again);
  CHECK_FALSE(again->made);
  ComputeSpec other = kSpec;
  other.max_nodes = 8;
  other.setup = std::string(500, 'x');
  CHECK(says(home.insert(other), ErrorKind::conflict, "maxNodes is 4, not 8"));
  CHECK(says(home.insert(other), ErrorKind::conflict, "setup is another"));
  CHECK(says(home.insert(other), ErrorKind::conflict, "compute update -n gpu-cluster"));
  CHECK(home.load()->spec == kSpec);
}

TEST_CASE("a compute that cannot be is not made, and what is not there is guessed") {
  Home home;
  CHECK(says(home.insert({.name = "local"}), ErrorKind::invalid, "from the start"));
  ComputeSpec spec = kSpec;
  spec.vm_size = "standard_d3_v9";
  CHECK(says(home.insert(spec), ErrorKind::invalid, "Did you mean 'Standard_D3_v2'?"));
  CHECK(says(home.insert(kSpec, "nowhere"), ErrorKind::not_found, "workspace 'nowhere'"));
  REQUIRE(home.insert());
  CHECK(says(home.load("gpu-clustre"), ErrorKind::not_found, "Did you mean 'gpu-cluster'?"));
  CHECK(says(home.load("x"), ErrorKind::not_found, "There are: local, gpu-cluster."));
}

TEST_CASE("a change touches what it names, and all of the spec is checked again") {
  Home home;
  REQUIRE(home.insert());
  const auto changed = home.alter({{"maxNodes", 9}, {"vmSize", "standard_nc6"}});
  REQUIRE(changed);
  ComputeSpec expected = kSpec;
  expected.max_nodes = 9;
  expected.vm_size = "Standard_NC6";
  CHECK(changed->spec == expected);
  CHECK(home.load()->spec == expected);
  CHECK(says(home.alter({{"minNodes", 10}}), ErrorKind::invalid, "min nodes must be 0 to"));
  CHECK(says(home.alter({{"maxNode", 10}}), ErrorKind::invalid, "Did you mean 'maxNodes'?"));
  CHECK(says(home.alter({{"maxNodes", "ten"}}), ErrorKind::invalid, "maxNodes: must be a whole"));
  CHECK(says(home.alter({{"name", "b"}}), ErrorKind::invalid, "name of a compute stays"));
  CHECK(says(home.alter({{"vmSize", "huge"}}), ErrorKind::invalid, "size 'huge' is not known"));
  CHECK(home.load()->spec == expected);
}

TEST_CASE("a paused compute stays so until it is resumed, whatever else is changed") {
  Home home;
  REQUIRE(home.insert());
  const auto pause = [&](bool paused) {
    return home.change([&](db::Transaction& t) {
      return store::pause_compute(t, "default", "gpu-cluster", paused);
    });
  };
  REQUIRE(pause(true));
  REQUIRE(home.alter({{"maxNodes", 2}}));
  CHECK(home.load()->paused);
  REQUIRE(pause(false));
  CHECK_FALSE(home.load()->paused);
}

TEST_CASE("a compute with runs waiting or live is neither deleted nor moved elsewhere") {
  Home home;
  REQUIRE(home.insert());
  CHECK(home.runs().first.empty());
  home.add_run("calm-finch-1", RunStatus::running);
  home.add_run("calm-finch-2", RunStatus::queued);
  home.add_run("calm-finch-3", RunStatus::completed);
  home.add_run("calm-finch-4", RunStatus::running, true);  // Somebody's notebook; not ours.
  const store::TargetRuns runs = home.runs();
  CHECK(runs.queued == 1);
  CHECK(runs.live == 1);
  CHECK(runs.first == "calm-finch-1");
  CHECK(says(home.remove(), ErrorKind::conflict,
             "2 runs are there: 1 queued, 1 live, the oldest calm-finch-1"));
  CHECK(says(home.alter({{"ssh", "ada@login"}}), ErrorKind::conflict,
             "engine, ssh and slurmConf stay"));
  CHECK(home.alter({{"maxNodes", 2}}));
  home.set_status("calm-finch-1", RunStatus::failed);
  CHECK(says(home.remove(), ErrorKind::conflict, "a run is there: 1 queued, 0 live"));
  home.set_status("calm-finch-2", RunStatus::canceled);
  CHECK(home.alter({{"ssh", "ada@login"}}));
  CHECK(home.remove());
  CHECK(says(home.remove(), ErrorKind::not_found, "does not exist"));
}

TEST_CASE("the table of sizes begins with those that scripts name, each of them whole") {
  Home home;
  const auto sizes = home.look(store::list_vm_sizes);
  REQUIRE(sizes);
  CHECK(sizes->size() >= 40);
  std::set<std::string> names;
  for (const VmSize& size : *sizes) {
    CAPTURE(size.name);
    CHECK(check_vm_size(size));
    CHECK(names.insert(size.name).second);
    CHECK(size.price_low == doctest::Approx(size.price / 5).epsilon(0.01));
  }
  for (const char* name :
       {"STANDARD_D3_V2", "Standard_DS3_v2", "standard_nc6", "Standard_ND40rs_v2"}) {
    CAPTURE(name);
    CHECK(home.look([&](db::Db& db) { return store::load_vm_size(db, name); }));
  }
}

TEST_CASE("an admin's size is made, changed in part, and deleted once no compute has it") {
  Home home;
  const auto set = [&](std::string_view name, const Json& changes) {
    return home.change([&](db::Transaction& t) { return store::set_vm_size(t, name, changes); });
  };
  const auto remove = [&](std::string_view name) {
    return home.change([&](db::Transaction& t) { return store::delete_vm_size(t, name); });
  };
  CHECK(says(set("box", {{"gpus", 8}}), ErrorKind::invalid, "vCPUs must be"));
  CHECK(says(set("box", {{"cpus", 8}}), ErrorKind::invalid, "'cpus' is not to be set"));
  REQUIRE(set("box", {{"vCPUs", 64}, {"memoryGB", 512}, {"gpus", 8}, {"pricePerHour", 2.5}}));
  const auto changed = set("BOX", {{"pricePerHour", 3}});
  REQUIRE(changed);
  CHECK(
      *changed ==
      VmSize{.name = "box", .cpus = 64, .memory_gb = 512, .gpus = 8, .price = 3, .price_low = 2.5});
  ComputeSpec spec = kSpec;
  spec.vm_size = "Box";
  REQUIRE(home.insert(spec));
  CHECK(says(remove("box"), ErrorKind::conflict, "compute 'gpu-cluster'"));
  REQUIRE(home.remove());
  CHECK(remove("box"));
  CHECK(says(remove("box"), ErrorKind::not_found, "size 'box' is not known"));
}
