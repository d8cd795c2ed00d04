#include "supervisor/missing_module.h"

#include <doctest/doctest.h>

namespace trainyard::supervisor {

TEST_CASE("a module that is missing is told with the package that has it") {
  const std::string traceback = "Traceback (most recent call last):\n  File \"a.py\", line 1\n";
  const std::string told =
      missing_module_advice(traceback + "ModuleNotFoundError: No module named 'sklearn.svm'\n");
  CHECK(told.starts_with("Python finds no module sklearn. Add scikit-learn to the environment"));
  CHECK(missing_module_advice(traceback + "ModuleNotFoundError: No module named 'torch'")
            .find("Add torch ") != std::string::npos);
}

TEST_CASE("other ends of a script have no advice") {
  CHECK(missing_module_advice("").empty());
  CHECK(missing_module_advice("ValueError: No module named 'x'\n").empty());
  CHECK(missing_module_advice("it said ModuleNotFoundError: No module named 'x'\n").empty());
}

}  // namespace trainyard::supervisor
