#include "store/machines.h"

#include <doctest/doctest.h>

#include "base/fake_clock.h"
#include "store/computes.h"
#include "store/history.h"
#include "store/run_rows.h"
#include "store/store.h"

namespace trainyard::store {
namespace {

const MachineFacts kFacts{.host = "box.lab", .version = "1", .cpus = 4, .memory_bytes = 1 << 30};

struct Yard {
  TempDir dir;
  FakeClock clock;
  std::unique_ptr<Store> store = Store::open(dir.path() / "trainyard.db", clock).value();

  template <class F>
  auto change(F&& f) {
    decltype(f(std::declval<db::Transaction&>())) made = fail(ErrorKind::internal, "not run");
    const Status written = store->write(Durable::no, [&](db::Transaction& t) -> Status {
      made = f(t);
      if (!made) return std::unexpected(made.error());
      return {};
    });
    if (!written) made = std::unexpected(written.error());
    return made;
  }
  int64_t token(const std::string& secret, const std::string& name = {}) {
    const auto made = change([&](db::Transaction& t) {
      return insert_node_token(t,
                               {.workspace = "default",
                                .name = name,
                                .by = "ada",
                                .secret = secret,
                                .label = "",
                                .expires = clock.wall() + seconds(60)},
                               clock.wall());
    });
    REQUIRE(made);
    return made->id;
  }
  Result<JoinedMachine> join(int64_t token, const std::string& uid, const std::string& name = {},
                             const std::string& credential = "tym_1") {
    return change([&](db::Transaction& t) {
      return join_machine(
          t, {.token = token, .uid = uid, .name = name, .facts = kFacts, .credential = credential},
          clock.wall());
    });
  }
};

TEST_CASE("a machine joins with its token and is known by its credential") {
  Yard yard;
  const auto joined = yard.join(yard.token("tyn_a"), "u1");
  REQUIRE(joined);
  CHECK(joined->made);
  CHECK(joined->machine.name == "box");
  CHECK(joined->machine.workspace == "default");
  CHECK(joined->machine.owner == "ada");
  CHECK(joined->machine.facts == kFacts);
  CHECK_FALSE(joined->machine.personal);
  const auto known = yard.store->identify("tym_1");
  REQUIRE(known);
  CHECK(known->machine == joined->machine.id);
  CHECK(known->role == Role::reader);
  CHECK_FALSE(yard.store->identify("tym_2").has_value());
}

TEST_CASE("a node token makes nobody who made it, and expires") {
  Yard yard;
  const int64_t id = yard.token("tyn_a");
  const auto known = yard.store->identify("tyn_a");
  REQUIRE(known);
  CHECK(known->node_token == id);
  CHECK(known->role == Role::reader);
  yard.clock.advance(seconds(61));
  CHECK(yard.store->identify("tyn_a").error().message.starts_with("the token has expired"));
}

TEST_CASE("a token is good for one machine; that one may lose the answer and ask again") {
  Yard yard;
  const int64_t token = yard.token("tyn_a");
  const auto first = yard.join(token, "u1");
  REQUIRE(first);
  const auto other = yard.join(token, "u2", "another", "tym_2");
  REQUIRE_FALSE(other);
  CHECK(other.error().kind == ErrorKind::denied);
  const auto again = yard.join(token, "u1", "", "tym_3");
  REQUIRE(again);
  CHECK_FALSE(again->made);
  CHECK(again->machine.key == first->machine.key);
  CHECK_FALSE(yard.store->identify("tym_1").has_value());
  CHECK(yard.store->identify("tym_3").has_value());
}

TEST_CASE("a name that another machine or a compute has is refused") {
  Yard yard;
  REQUIRE(yard.join(yard.token("tyn_a"), "u1", "box"));
  const auto taken = yard.join(yard.token("tyn_b"), "u2", "box", "tym_2");
  REQUIRE_FALSE(taken);
  CHECK(taken.error().kind == ErrorKind::conflict);
  CHECK(taken.error().message.find("host box.lab") != std::string::npos);
  ComputeSpec spec;
  spec.name = "lab";
  const auto compute = [&] {
    return yard.change([&](db::Transaction& t) {
      return insert_compute(t, "default", spec, "ada", yard.clock.wall());
    });
  };
  REQUIRE(compute());
  const auto like_compute = yard.join(yard.token("tyn_c"), "u3", "lab", "tym_3");
  REQUIRE_FALSE(like_compute);
  CHECK(like_compute.error().kind == ErrorKind::conflict);
  spec.name = "box";
  const auto like_machine = compute();
  REQUIRE_FALSE(like_machine);
  CHECK(like_machine.error().kind == ErrorKind::conflict);
  CHECK_FALSE(yard.join(yard.token("tyn_d"), "u4", "server", "tym_4").has_value());
}

TEST_CASE("a token for a name lets nobody join under another") {
  Yard yard;
  const int64_t token = yard.token("tyn_a", "gpu1");
  const auto wrong = yard.join(token, "u1", "gpu2");
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().kind == ErrorKind::denied);
  const auto joined = yard.join(token, "u1");
  REQUIRE(joined);
  CHECK(joined->machine.name == "gpu1");
}

TEST_CASE("a person's own machine is theirs alone, and the same each time") {
  Yard yard;
  const auto own = [&](const std::string& owner, const MachineFacts& facts = kFacts) {
    return yard.change([&](db::Transaction& t) {
      return personal_machine(t, owner, "u1", facts, yard.clock.wall());
    });
  };
  const auto adas = own("ada");
  REQUIRE(adas);
  CHECK(adas->personal);
  CHECK(own("ada")->key == adas->key);
  CHECK(own("bob")->key != adas->key);
  MachineFacts more = kFacts;
  more.cpus = 64;
  CHECK(own("ada", more)->key == adas->key);
  CHECK(own("ada", more)->facts.cpus == 64);
}

TEST_CASE("a machine with runs is deleted by force alone, and its credential goes with it") {
  Yard yard;
  const Machine machine = yard.join(yard.token("tyn_a"), "u1", "box")->machine;
  RunSpec spec = plain_spec();
  spec.target = "box";
  REQUIRE(yard.store->write(Durable::no, [&](db::Transaction& t) -> Status {
    TRY(add_queued_run(t, RunId{"calm-finch-1"}, spec, yard.clock.wall()));
    return {};
  }));
  const auto remove = [&](Force force) {
    return yard.store->write(Durable::no,
                             [&](db::Transaction& t) { return delete_machine(t, machine, force); });
  };
  const Status kept = remove(Force::no);
  REQUIRE_FALSE(kept);
  CHECK(kept.error().message == "machine box has runs: 1 queued, 0 live, the oldest calm-finch-1");
  REQUIRE(remove(Force::yes));
  CHECK_FALSE(yard.store->identify("tym_1").has_value());
}

}  // namespace
}  // namespace trainyard::store
