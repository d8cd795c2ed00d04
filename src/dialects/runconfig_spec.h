#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "dialects/document.h"
#include "dialects/findings.h"
#include "dialects/keys.h"
#include "dialects/runconfig.h"

namespace trainyard::dialects {

// A runconfig, with the file that its `environment` may name.
struct Sources {
  Document main;
  std::optional<Document> environment;
  Node whole;  // Both in one.

  std::string place(std::string_view path) const {
    const Node* node = at(whole, path);
    if (node == nullptr) return main.file;
    const bool elsewhere = environment && path.starts_with("environment.");
    return (elsewhere ? *environment : main).place(node->key_line);
  }
};

// Makes a spec of what the file and the command line say. What is wrong with it goes to the
// findings; the table has spoken about types before, so that a wrong one is passed over here. The
// script is not looked for.
void interpret(const Sources& sources, const RunconfigAsk& ask, Findings& findings,
               Runconfig& into);

}  // namespace trainyard::dialects
