#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/assignment.h"
#include "seal/masking.h"

namespace trainyard::supervisor {

// The values of the secrets that a run's spec names. They live in this process and in the ranks'
// variables, and never on disk.
struct Secrets {
  std::map<std::string, std::string> values;
  std::string error;  // Why they could not be had; empty: they could.

  // Hides them in what a rank prints.
  seal::Mask mask() const;
  // The texts by which they give themselves away, for what a rank tells.
  std::vector<std::string> forms() const;
};

// Asks the server, and again while it is away, for some minutes. Nothing is asked where nothing is
// named. To be called while there is one thread: the ranks' variables must be known before the
// first process is forked. From then on neither we nor the ranks leave a core dump.
Secrets fetch_secrets(const Assignment& assignment);

}  // namespace trainyard::supervisor
