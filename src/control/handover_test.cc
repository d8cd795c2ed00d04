#include "model/handover.h"

#include "control/yard.h"

using namespace trainyard;
using namespace trainyard::control;

namespace {

std::string shown(const std::string& ticket, char nonce) {
  return ticket + "." + std::string(64, nonce);
}

}  // namespace

TEST_CASE("a ticket gives the attempt's token to the first who shows it, and to nobody else") {
  Yard yard({.cpus = 2, .memory_bytes = 16 * kGb, .tickets = true});
  yard.submit("run-1");
  yard.control->tick();
  const AttemptId attempt{RunId{"run-1"}, 1};
  const std::string ticket = yard.engine.assignment(attempt)->token;
  CHECK(ticket.starts_with(kTicketPrefix));
  CHECK(kind_of(yard.control->hand_over(attempt, ticket)) == ErrorKind::invalid);
  CHECK(kind_of(yard.control->hand_over(attempt, shown("tyh_other", 'a'))) == ErrorKind::conflict);

  REQUIRE(yard.control->hand_over(attempt, shown(ticket, 'a')));
  REQUIRE(yard.control->hand_over(attempt, shown(ticket, 'a')));  // The answer was lost.
  const std::string token = parse_handover(shown(ticket, 'a'))->token;
  CHECK(yard.store->identify(token)->attempt == attempt);
  // Who has read the job script, then and after a restart of the server.
  for (int i = 0; i < 2; ++i) {
    CHECK(kind_of(yard.control->hand_over(attempt, shown(ticket, 'b'))) == ErrorKind::conflict);
    CHECK_FALSE(yard.store->identify(ticket));
    CHECK_FALSE(yard.store->identify(parse_handover(shown(ticket, 'b'))->token));
    CHECK(yard.store->identify(token));
    yard.restart();
  }
  REQUIRE(yard.report("run-1", 1, whole_life()));
  CHECK(kind_of(yard.control->hand_over(attempt, shown(ticket, 'a'))) == ErrorKind::conflict);
}

TEST_CASE("a ticket that is shown while its job still waits is not taken") {
  Yard yard({.cpus = 2, .memory_bytes = 16 * kGb, .tickets = true});
  yard.submit("run-1");
  yard.control->tick();
  const AttemptId attempt{RunId{"run-1"}, 1};
  const std::string ticket = yard.engine.assignment(attempt)->token;
  yard.engine.set_waiting("waits for 1 node");
  CHECK(kind_of(yard.control->hand_over(attempt, shown(ticket, 'b'))) == ErrorKind::unavailable);
  yard.engine.set_waiting("");
  CHECK(yard.control->hand_over(attempt, shown(ticket, 'a')));
}

TEST_CASE("where nobody else reads what a supervisor is told, it has the token itself") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  const AttemptId attempt{RunId{"run-1"}, 1};
  const std::string token = yard.engine.assignment(attempt)->token;
  CHECK(token.starts_with(kAttemptTokenPrefix));
  CHECK(yard.store->identify(token)->attempt == attempt);
}
