#include "dialects/findings.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::dialects;

TEST_CASE("errors become one, the first in front; warnings are lines") {
  const Findings findings = {
      {Severity::warning, "f:1", "unknown key 'x'", ""},
      {Severity::error, "f:2", "bad", "Do this."},
      {Severity::error, "", "f: worse", ""},
      {Severity::warning, "f:3", "no effect", "Leave it out."},
  };
  CHECK(has_errors(findings));
  const Error error = as_error(findings);
  CHECK(error.kind == ErrorKind::invalid);
  CHECK(error.message == "f:2: bad");
  CHECK(error.hint == "Do this.\nAlso: f:1: unknown key 'x'\nAlso: f: worse");
  CHECK(warnings_of(findings) ==
        std::vector<std::string>{"f:1: unknown key 'x'", "f:3: no effect. Leave it out."});
  CHECK(!has_errors({findings[0]}));
}

TEST_CASE("very many errors are counted and not all listed") {
  const Findings findings(9, Finding{Severity::error, "f:1", "bad", ""});
  CHECK(as_error(findings).hint.ends_with("\nAnd 3 more."));
}
