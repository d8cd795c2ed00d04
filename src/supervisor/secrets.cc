#include "supervisor/secrets.h"

#include <sys/resource.h>

#include "base/clock.h"
#include "client/attempt.h"
#include "seal/forms.h"
#include "supervisor/context.h"
#include "supervisor/steps.h"

namespace trainyard::supervisor {
namespace {

constexpr seconds kPatience{300};
constexpr milliseconds kSecretsPauseFirst{50};
constexpr milliseconds kSecretsPauseMax{1000};

// Inherited by the ranks: a core holds their variables.
void leave_no_core() {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
}

std::vector<std::string> plain(const std::map<std::string, std::string>& values) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : values) texts.push_back(value);
  return texts;
}

}  // namespace

seal::Mask Secrets::mask() const { return seal::Mask(plain(values)); }

std::vector<std::string> Secrets::forms() const { return seal::forms_of(plain(values)); }

Secrets fetch_secrets(const Assignment& assignment) {
  Secrets secrets;
  if (assignment.spec.secrets.empty()) return secrets;
  leave_no_core();
  http::Client client(server_address(assignment), assignment.token);
  client::AttemptApi server(client, assignment.id(), assignment.node);
  MonotoneClock clock;
  const SteadyTime until = clock.steady() + kPatience;
  for (milliseconds pause = kSecretsPauseFirst;; pause = std::min(pause * 2, kSecretsPauseMax)) {
    auto values = server.secrets();
    if (values) {
      secrets.values = *std::move(values);
      return secrets;
    }
    if (values.error().kind != ErrorKind::unavailable || clock.steady() >= until) {
      const Error& error = values.error();
      secrets.error = told(error);
      return secrets;
    }
    clock.sleep_until(clock.steady() + pause, {});
  }
}

// They were asked for before the first step; here is where a failure is told.
Status check_secrets(Context& context) {
  if (context.secrets == nullptr || context.secrets->error.empty()) return {};
  return fail(ErrorKind::invalid, context.secrets->error);
}

}  // namespace trainyard::supervisor
