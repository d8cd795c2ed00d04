#include "env/explain.h"

#include <doctest/doctest.h>

namespace trainyard::env {
namespace {

using Lines = std::vector<std::string>;

TEST_CASE("uv's words are kept, without its drawing") {
  const Lines requirements = {"requests  # r.txt:1", "nosuch_Package==1  # r.txt:2"};
  const Lines old = {"Using Python 3.11.2 environment at: root",
                     "  × No solution found when resolving dependencies:",
                     "  ╰─▶ Because nosuch-package was not found in the package registry and you",
                     "      require nosuch-package==1, your requirements are unsatisfiable."};
  Error error = explain_failure("uv", 1, old, requirements);
  CHECK(error.kind == ErrorKind::invalid);
  CHECK(error.message ==
        "r.txt:2: nosuch_Package==1: No solution found when resolving dependencies: Because "
        "nosuch-package was not found in the package registry and you require nosuch-package==1, "
        "your requirements are unsatisfiable.");
  CHECK(error.hint.empty());
  const Lines now = {"error: No solution found when resolving dependencies",
                     "  cause: Because there is no version of requests==99 and you require it."};
  error = explain_failure("uv", 1, now, requirements);
  CHECK(error.message ==
        "r.txt:1: requests: No solution found when resolving dependencies: Because there is no "
        "version of requests==99 and you require it.");
}

TEST_CASE("pip without a network says that there is no version: the network is told") {
  const Lines printed = {
      "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError': Failed "
      "to establish a new connection",
      "ERROR: Could not find a version that satisfies the requirement a (from versions: none)",
      "ERROR: No matching distribution found for a"};
  const Error error = explain_failure("pip", 1, printed, {"a"});
  CHECK(error.kind == ErrorKind::unavailable);
  CHECK(error.message ==
        "pip: the package index cannot be reached: Could not find a version that satisfies the "
        "requirement a (from versions: none): No matching distribution found for a");
  CHECK(error.hint.find("PIP_INDEX_URL") != std::string::npos);
}

TEST_CASE("a full disk, and a certificate nobody trusts, are told as such") {
  CHECK(explain_failure("pip", 1, {"OSError: [Errno 28] No space left on device"}, {}).kind ==
        ErrorKind::no_space);
  const Error error = explain_failure(
      "uv", 2, {"error: x", "  cause: invalid peer certificate: UnknownIssuer"}, {});
  CHECK(error.kind == ErrorKind::unavailable);
  CHECK(error.hint.find("SSL_CERT_FILE") != std::string::npos);
}

TEST_CASE("a package is named only as a whole word") {
  const Lines requirements = {"a  # r.txt:1", "py  # r.txt:2", "b  # r.txt:3"};
  const Error error =
      explain_failure("uv", 1, {"error: the wheel of b cannot be built by pytest"}, requirements);
  CHECK(error.message == "r.txt:3: b: the wheel of b cannot be built by pytest");
}

TEST_CASE("of a long log the first words and the last ones are kept") {
  Lines printed = {"error: Failed to build `broken==1`", "  cause: The build backend failed"};
  for (int i = 0; i < 500; ++i) printed.push_back("compiling unit " + std::to_string(i));
  printed.push_back("ValueError: no compiler");
  const Error error = explain_failure("uv", 1, printed, {"broken==1  # r.txt:4"});
  CHECK(error.message.size() < 1300);
  CHECK(error.message.starts_with("r.txt:4: broken==1: Failed to build `broken==1`: The build "));
  CHECK(error.message.ends_with("compiling unit 499 ValueError: no compiler"));
}

TEST_CASE("one that says nothing is told by its exit code, one without a mark by its last lines") {
  CHECK(explain_failure("uv", 137, {}, {}).message == "uv: ended with exit code 137");
  CHECK(explain_failure("conda", 1, {"Looking", "it broke"}, {}).message ==
        "conda: Looking: it broke");
}

}  // namespace
}  // namespace trainyard::env
