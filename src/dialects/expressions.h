#pragma once

#include <cstddef>
#include <expected>
#include <map>
#include <string>
#include <string_view>

#include "base/id.h"
#include "base/result.h"
#include "model/run_spec.h"

namespace trainyard::dialects {

// What ${{…}} may speak of.
struct Values {
  std::map<std::string, std::string> parameters;  // ${{inputs.NAME}}
  std::map<std::string, std::string> outputs;  // ${{outputs.NAME}}: "outputs/model/", "outputs/x"
  RunId id;                                    // ${{name}}
};

struct ExpressionFault {
  size_t offset = 0;  // Of the expression in the text.
  std::string message;
  std::string hint;
  std::string section;  // "inputs" or "outputs", when the name is not declared there.
};

// Fills in every ${{…}}. One pass: what a value holds is not looked at again. $${{…}} is the text
// ${{…}} itself. Anything else with a '$' or braces is left alone.
std::expected<std::string, ExpressionFault> fill_in(std::string_view text, const Values& values);
// The same, the fault as an `invalid` error.
Result<std::string> render(std::string_view text, const Values& values);

bool has_expressions(std::string_view text);

// The command of a spec anew from its command_template, its parameters and its outputs: for a rerun
// with other parameters. A spec without a template is left as it is.
Status render_command(RunSpec& spec, const RunId& id);

}  // namespace trainyard::dialects
