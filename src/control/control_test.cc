#include "control/control.h"

#include <atomic>
#include <thread>

#include "control/yard.h"
#include "store/members.h"
#include "store/people.h"

using namespace trainyard;
using namespace trainyard::control;

TEST_CASE("a run goes from submit to its end, and every step is an event") {
  Yard yard;
  const Run submitted = yard.submit("run-1");
  CHECK(submitted.life.status == RunStatus::queued);
  CHECK(submitted.reason == "is about to start; position 1");
  yard.clock.advance(seconds(1));
  yard.control->tick();
  CHECK(yard.status("run-1") == RunStatus::provisioning);
  const auto assignment = yard.engine.assignment({RunId{"run-1"}, 1});
  REQUIRE(assignment);
  CHECK(assignment->spec == Yard::spec());
  CHECK(assignment->blobs == "/blobs");
  const auto who = yard.store->identify(assignment->token);
  REQUIRE(who);
  CHECK(who->attempt == AttemptId{RunId{"run-1"}, 1});
  yard.clock.advance(seconds(1));
  const auto orders = yard.report("run-1", 1, whole_life());
  REQUIRE(orders);
  CHECK(orders->seq_acknowledged == 5);
  const Run run = yard.run("run-1");
  CHECK(run.life.status == RunStatus::completed);
  CHECK(run.life.exit_code == 0);
  CHECK(kinds(run) == Words{"submitted", "queued", "provisioning", "preparing", "starting",
                            "running", "finalizing", "ended"});
  CHECK(run.ended == yard.clock.wall());
  REQUIRE(run.attempts.size() == 1);
  CHECK(run.attempts[0].cpu_seconds == 2.5);
  REQUIRE(run.attempts[0].end);
  CHECK(run.attempts[0].end->ranks_started);
  CHECK(yard.control->load().cpus_used == 0);
  // Queued, claimed, and one call of reports.
  CHECK(yard.changed.with([](auto& all) { return all.count("run-1"); }) == 3);
}

TEST_CASE("the same submission again is the same run, another spec under its id a conflict") {
  Yard yard;
  yard.submit("run-1");
  const auto again = yard.control->submit({RunId{"run-1"}, Yard::spec(), "ada"});
  REQUIRE(again);
  CHECK(!again->created);
  CHECK(again->run.number == 1);
  RunSpec other = Yard::spec();
  other.command = {"false"};
  CHECK(kind_of(yard.control->submit({RunId{"run-1"}, other, "ada"})) == ErrorKind::conflict);
  CHECK(yard.control->runs({})->size() == 1);
}

TEST_CASE("200 submitters at once, each twice, make 200 runs") {
  Yard yard;
  std::atomic<int> created = 0;
  std::atomic<int> failed = 0;
  {
    std::vector<std::jthread> submitters;
    for (int i = 0; i < 400; ++i) {
      submitters.emplace_back([&, i] {
        const RunId id{"run-" + std::to_string(i / 2)};
        const auto submitted = yard.control->submit({id, store::plain_spec(), "ada"});
        if (!submitted) ++failed;
        if (submitted && submitted->created) ++created;
      });
    }
  }
  CHECK(failed == 0);
  CHECK(created == 200);
  CHECK(yard.store->count_runs(RunStatus::queued) == 200);
  CHECK(yard.control->load().queued == 200);
}

TEST_CASE("what the machine cannot do is refused with numbers") {
  Yard yard;
  const auto refused = [&](RunSpec spec) {
    auto submitted = yard.control->submit({RunId{"run-1"}, spec, "ada"});
    REQUIRE(!submitted);
    return submitted.error();
  };
  const Error cpus = refused(Yard::spec(3));
  CHECK(cpus.kind == ErrorKind::invalid);
  CHECK(cpus.message == "target local has 2 CPUs, 3 were asked for");
  RunSpec spec = Yard::spec();
  spec.resources.memory_bytes = 17 * kGb;
  CHECK(refused(spec).message == "target local has 16 GB of memory, 17 GB were asked for");
  spec = Yard::spec();
  spec.target = "cluster";
  CHECK(refused(spec).kind == ErrorKind::not_found);
  spec = Yard::spec();
  spec.workspace = "nowhere";
  CHECK(refused(spec).kind == ErrorKind::not_found);
  spec = Yard::spec();
  spec.nodes = 2;
  CHECK(refused(spec).kind == ErrorKind::invalid);
  spec = Yard::spec();
  spec.snapshot = "missing";
  CHECK(refused(spec).kind == ErrorKind::not_found);
  CHECK(kind_of(yard.control->submit({RunId{"../x"}, Yard::spec(), "ada"})) == ErrorKind::invalid);
  spec = Yard::spec();
  spec.resources.gpus = 8;
  CHECK(yard.control->submit({RunId{"run-2"}, spec, "ada"}));
}

TEST_CASE("a snapshot is looked at once") {
  Yard yard;
  RunSpec spec = Yard::spec();
  spec.snapshot = "abc";
  CHECK(yard.submit("run-1", spec).snapshot_bytes == 41);
  CHECK(yard.submit("run-2", spec).snapshot_files == 3);
  CHECK(yard.snapshot_checks == 1);
  CHECK(yard.run("run-2").snapshot_files == 3);
}

TEST_CASE("first come, first served: a large run holds back the small ones behind it") {
  Yard yard;
  yard.submit("small-1");
  yard.submit("large", Yard::spec(2));
  yard.submit("small-2");
  yard.control->tick();
  CHECK(yard.status("small-1") == RunStatus::provisioning);
  CHECK(yard.run("large").reason == "waits for 2 CPUs: 1 free of 2; position 1");
  CHECK(yard.run("small-2").reason == "waits for its turn behind 1 run; position 2");
  const auto listed = yard.control->runs({.status = "Queued"});
  REQUIRE(listed->size() == 2);
  CHECK(listed->front().reason == "waits for its turn behind 1 run; position 2");
  REQUIRE(yard.report("small-1", 1, whole_life()));
  yard.control->tick();
  CHECK(yard.status("large") == RunStatus::provisioning);
  CHECK(yard.status("small-2") == RunStatus::queued);
}

TEST_CASE("memory is given out too") {
  Yard yard;
  RunSpec spec = Yard::spec();
  spec.resources.memory_bytes = 10 * kGb;
  yard.submit("run-1", spec);
  yard.submit("run-2", spec);
  yard.control->tick();
  CHECK(yard.run("run-2").reason == "waits for 10 GB of memory: 6.0 GB free of 16 GB; position 1");
}

TEST_CASE("cancel ends a waiting run at once and orders a live one to stop") {
  Yard yard;
  yard.submit("live", Yard::spec(2));
  yard.submit("waiting");
  yard.control->tick();
  const auto waiting = yard.control->cancel(RunId{"waiting"}, "ada");
  REQUIRE(waiting);
  CHECK(waiting->life.status == RunStatus::canceled);
  CHECK(kinds(*waiting) == Words{"submitted", "queued", "cancel_requested", "ended"});
  CHECK(yard.control->load().queued == 0);
  REQUIRE(yard.report("live", 1, {phase(1, ReportKind::preparing)}));
  const auto live = yard.control->cancel(RunId{"live"}, "ada");
  REQUIRE(live);
  CHECK(live->life.status == RunStatus::cancel_requested);
  CHECK(yard.control->orders({{RunId{"live"}, 1}})->cancel);
  const auto again = yard.control->cancel(RunId{"live"}, "ada");
  REQUIRE(again);
  CHECK(again->version == live->version);
  REQUIRE(yard.report("live", 1, {phase(2, ReportKind::finalizing), ended(3, EndCause::canceled)}));
  CHECK(yard.status("live") == RunStatus::canceled);
  CHECK(kind_of(yard.control->cancel(RunId{"live"}, "ada")) == ErrorKind::conflict);
  CHECK(kind_of(yard.control->cancel(RunId{"none"}, "ada")) == ErrorKind::not_found);
}

TEST_CASE("the loop places what is submitted and goes on when an attempt ends") {
  Yard yard;
  std::atomic<int> placed = 0;
  yard.engine.set_hooks({.placed = [&](const Assignment&) {
    ++placed;
    placed.notify_all();
  }});
  std::jthread loop([&](std::stop_token stop) { yard.control->run(stop); });
  const auto wait_for = [&](int count) {
    for (int now = placed; now < count; now = placed) placed.wait(now);
  };
  yard.submit("run-1", Yard::spec(2));
  wait_for(1);
  yard.submit("run-2", Yard::spec(2));
  REQUIRE(yard.report("run-1", 1, whole_life()));
  wait_for(2);
  CHECK(yard.engine.assignment({RunId{"run-2"}, 1}));
}

TEST_CASE("on a full disk new runs are refused and those under way go on") {
  Yard yard;
  yard.submit("live", Yard::spec(2));
  yard.submit("waiting");
  yard.control->tick();
  // A folder that is not there: the reserve cannot be kept.
  yard.reserve = yard.dir.path() / "later" / "reserve";
  yard.restart();
  CHECK(kind_of(yard.control->submit({RunId{"new"}, Yard::spec(), "ada"})) == ErrorKind::no_space);
  CHECK(!yard.control->submit({RunId{"waiting"}, Yard::spec(), "ada"})->created);
  REQUIRE(yard.report("live", 1, whole_life()));
  CHECK(yard.status("live") == RunStatus::completed);
  const SteadyTime next = yard.control->tick();
  CHECK(next <= yard.clock.steady() + seconds(1));
  CHECK(yard.run("waiting").reason == "waits for space: the disk of the home is full; position 1");
  REQUIRE(make_dirs(yard.dir.path() / "later"));
  yard.clock.advance(seconds(1));
  yard.control->tick();
  CHECK(yard.status("waiting") == RunStatus::provisioning);
  CHECK(yard.control->submit({RunId{"new"}, Yard::spec(), "ada"}));
}

TEST_CASE("GPUs asked of a cluster that has none are refused, of this machine they are not") {
  Yard yard;
  RunSpec spec = Yard::spec();
  spec.resources.gpus = 1;
  CHECK(yard.control->submit({RunId{"here"}, spec, "ada"}).has_value());
  spec.target = "lab";
  const auto ask = [&](const std::string& id, const engine::Capacity& has) {
    yard.control->add_target("default/lab", std::make_shared<FakeEngine>(has));
    return yard.control->submit({RunId{id}, spec, "ada"});
  };
  CHECK(ask("uncounted", {.nodes = 4, .window = 2}).has_value());
  const auto refused = ask("none", {.cpus = 8, .nodes = 4, .window = 2});
  CHECK(kind_of(refused) == ErrorKind::invalid);
  CHECK(refused.error().message == "target lab has 0 GPUs, 1 were asked for");
  CHECK(ask("some", {.cpus = 8, .gpus = {0, 1}, .nodes = 4, .window = 2}).has_value());
}

TEST_CASE("who may not submit any more has their runs ended with the reason, others have not") {
  Yard yard({.cpus = 1, .memory_bytes = 16 * kGb});
  REQUIRE(yard.store->create_user("sam", Role::submitter));
  const auto submit = [&](const std::string& id, const std::string& user, bool interactive) {
    RunSpec spec = Yard::spec();
    spec.interactive = interactive;
    if (interactive) spec.command.clear();
    REQUIRE(yard.control->submit({RunId{id}, spec, user}));
  };
  submit("live", "sam", false);
  yard.control->tick();
  REQUIRE(yard.report("live", 1,
                      {phase(1, ReportKind::preparing), phase(2, ReportKind::starting),
                       phase(3, ReportKind::running)}));
  submit("queued", "sam", false);
  submit("others", "ada", false);
  submit("outside", "sam", true);
  const std::string token = yard.engine.assignment({RunId{"live"}, 1})->token;
  CHECK(yard.store->identify(token));
  REQUIRE(yard.control->withdraw({.user = "sam",
                                  .by = "ada",
                                  .why = "user 'sam' was deleted",
                                  .change = [&](db::Transaction& t) {
                                    return store::remove_user(t, "sam", yard.clock.wall());
                                  }}));
  const auto refused = yard.store->identify(token);
  CHECK(kind_of(refused) == ErrorKind::conflict);
  CHECK(refused.error().message == "attempt 1 of run live is over: user 'sam' was deleted");
  for (const char* id : {"queued", "outside"}) {
    CHECK(yard.status(id) == RunStatus::canceled);
    CHECK(yard.run(id).life.error == "user 'sam' was deleted");
  }
  CHECK(yard.status("live") == RunStatus::cancel_requested);
  CHECK(yard.run("live").reason == "user 'sam' was deleted");
  CHECK(yard.status("others") == RunStatus::queued);
  // Its supervisor was refused, killed its ranks and ended.
  yard.engine.end({RunId{"live"}, 1}, "exited with code 0");
  yard.control->tick();
  CHECK(yard.status("live") == RunStatus::canceled);
  CHECK(yard.run("live").life.error == "user 'sam' was deleted");
  yard.control->tick();
  CHECK(yard.status("others") == RunStatus::provisioning);
}

TEST_CASE("a run that has failed itself and was canceled by its user is withdrawn all the same") {
  Yard yard;
  REQUIRE(yard.store->create_user("sam", Role::submitter));
  REQUIRE(yard.control->submit({RunId{"live"}, Yard::spec(), "sam"}));
  yard.control->tick();
  REQUIRE(yard.report("live", 1,
                      {phase(1, ReportKind::preparing), phase(2, ReportKind::starting),
                       phase(3, ReportKind::running)}));
  const std::string token = yard.engine.assignment({RunId{"live"}, 1})->token;
  REQUIRE(yard.control->cancel(RunId{"live"}, "sam"));
  REQUIRE(yard.store->write(Durable::no, [](db::Transaction& t) -> Status {
    TRY(t.run("UPDATE runs SET error = 'x'", {}));  // As run.fail("x") does.
    return {};
  }));
  REQUIRE(yard.control->withdraw({.user = "sam",
                                  .by = "ada",
                                  .why = "user 'sam' was deleted",
                                  .change = [&](db::Transaction& t) {
                                    return store::remove_user(t, "sam", yard.clock.wall());
                                  }}));
  CHECK(kind_of(yard.store->identify(token)) == ErrorKind::conflict);
}

TEST_CASE("a withdrawal that fails changes nothing") {
  Yard yard;
  yard.submit("run");
  const auto nobody = yard.control->withdraw(
      {.user = "nobody", .by = "ada", .why = "gone", .change = [&](db::Transaction& t) {
         return store::remove_user(t, "nobody", {});
       }});
  CHECK(kind_of(nobody) == ErrorKind::not_found);
  CHECK(yard.status("run") == RunStatus::queued);
}

TEST_CASE("a demotion of somebody with many runs ends all of them") {
  Yard yard;
  REQUIRE(yard.store->create_user("sam", Role::submitter));
  for (int i = 0; i < 1100; ++i) {
    REQUIRE(yard.control->submit({RunId{"run-" + std::to_string(i)}, Yard::spec(), "sam"}));
  }
  yard.control->tick();
  REQUIRE(yard.control->withdraw(
      {.user = "sam",
       .by = "ada",
       .why = "user 'sam' is reader now",
       .change = [&](db::Transaction& t) { return store::set_role(t, "sam", Role::reader, {}); }}));
  CHECK(yard.store->count_runs(RunStatus::queued) == 0);
  CHECK(yard.control->load().queued == 0);
}

namespace {

// The change of a withdrawal alone: the server is killed before the runs are canceled.
void change_rights(Yard& yard, const std::function<Status(db::Transaction&)>& change) {
  REQUIRE(yard.store->write(Durable::yes, change));
}

}  // namespace

TEST_CASE("what an interrupted withdrawal has left is canceled at the next start") {
  Yard yard({.cpus = 1, .memory_bytes = 16 * kGb});
  REQUIRE(yard.store->create_user("sam", Role::submitter));
  for (const char* id : {"placed", "queued-1", "queued-2"}) {
    REQUIRE(yard.control->submit({RunId{id}, Yard::spec(), "sam"}));
  }
  yard.control->tick();
  yard.submit("others");  // By an account of the machine, which has no row.
  change_rights(yard, [&](db::Transaction& t) { return store::remove_user(t, "sam", {}); });
  yard.restart();
  CHECK(yard.status("placed") == RunStatus::cancel_requested);
  for (const char* id : {"queued-1", "queued-2"}) {
    CHECK(yard.status(id) == RunStatus::canceled);
    CHECK(yard.run(id).life.error == "user 'sam' has lost the right to submit it");
    CHECK(yard.run(id).attempts.empty());
  }
  CHECK(yard.control->load().queued == 1);
  yard.engine.end({RunId{"placed"}, 1}, "exited with code 0");
  yard.control->tick();
  CHECK(yard.status("placed") == RunStatus::canceled);
  yard.control->tick();
  CHECK(yard.status("others") == RunStatus::provisioning);
}

TEST_CASE("nobody is made under the name of a deleted user whose runs are not over") {
  Yard yard;
  REQUIRE(yard.store->create_user("sam", Role::submitter));
  REQUIRE(yard.control->submit({RunId{"run"}, Yard::spec(), "sam"}));
  change_rights(yard, [&](db::Transaction& t) { return store::remove_user(t, "sam", {}); });
  CHECK(kind_of(yard.store->create_user("sam", Role::submitter)) == ErrorKind::conflict);
  yard.control->tick();
  CHECK(yard.status("run") == RunStatus::canceled);
  CHECK(yard.store->create_user("sam", Role::submitter));
}

TEST_CASE("a run that was queued while its user lost the right is canceled, not claimed") {
  Yard yard({.cpus = 8, .memory_bytes = 16 * kGb});
  const auto submit_as = [&](const std::string& user) {
    REQUIRE(yard.control->submit({RunId{user + "-run"}, Yard::spec(), user}));
  };
  for (const char* user : {"deleted", "demoted", "removed", "member", "outsider"}) {
    REQUIRE(yard.store->create_user(user, Role::submitter));
    submit_as(user);
  }
  change_rights(yard, [&](db::Transaction& t) -> Status {
    TRY(store::set_member(t, "default", {.user = "member", .role = Role::submitter}));
    TRY(store::set_member(t, "default", {.user = "removed", .role = Role::submitter}));
    TRY(store::remove_member(t, "default", "removed"));
    TRY(store::set_role(t, "demoted", Role::reader, {}));
    return store::remove_user(t, "deleted", {});
  });
  while (yard.control->load().queued > 0) yard.control->tick();
  for (const char* user : {"deleted", "demoted", "removed"}) {
    CHECK(yard.status(std::string(user) + "-run") == RunStatus::canceled);
    CHECK(yard.run(std::string(user) + "-run").attempts.empty());
  }
  CHECK(yard.status("member-run") == RunStatus::provisioning);
  // Closing the workspace to those who never were members ends no run.
  CHECK(yard.status("outsider-run") == RunStatus::provisioning);
  CHECK(yard.control->load().live == 2);
  // A user who is created again under the name of a deleted one has all rights of one.
  REQUIRE(yard.store->create_user("deleted", Role::admin));
  REQUIRE(yard.control->submit({RunId{"again"}, Yard::spec(), "deleted"}));
  yard.control->tick();
  CHECK(yard.status("again") == RunStatus::provisioning);
}
