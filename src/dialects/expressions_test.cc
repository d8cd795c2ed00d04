#include "dialects/expressions.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::dialects;

namespace {

const Values kValues = {
    {{"lr", "0.1"}, {"text", "a ${{name}} b"}, {"batch_size", "64"}},
    {{"model", "outputs/model/"}, {"report", "outputs/report"}},
    RunId{"brisk-otter-1"},
};

std::string filled(std::string_view text) {
  const auto result = render(text, kValues);
  if (!result) CHECK(result.error().kind == ErrorKind::invalid);
  return result ? *result : "! " + result.error().message;
}

}  // namespace

TEST_CASE("inputs, outputs and the name are filled in") {
  CHECK(filled("train --lr ${{inputs.lr}}") == "train --lr 0.1");
  CHECK(filled("${{ inputs.lr }}|${{\tinputs . lr }}") == "0.1|0.1");
  CHECK(filled("${{outputs.model}}/x ${{outputs.report}}") == "outputs/model/x outputs/report");
  CHECK(filled("${{name}}${{name}}") == "brisk-otter-1brisk-otter-1");
  CHECK(filled("") == "");
}

TEST_CASE("what is no expression is left alone") {
  for (const char* text : {"$HOME ${HOME} $(id) $$ {{x}} ${ {x}}", "}} ${", "a$", "$[[ x ]]"}) {
    CHECK(filled(text) == text);
    CHECK(!has_expressions(text));
  }
}

TEST_CASE("a value is not looked at again") {
  CHECK(filled("${{inputs.text}}") == "a ${{name}} b");
}

TEST_CASE("two dollars stand for the expression's own text") {
  CHECK(filled("$${{name}}") == "${{name}}");
  CHECK(filled("$${{ unclosed") == "${{ unclosed");
  CHECK(filled("$${{name}} ${{name}}") == "${{name}} brisk-otter-1");
  CHECK(has_expressions("$${{name}}"));
}

TEST_CASE("what is unknown is refused with the nearest") {
  CHECK(filled("${{inputs.batchsize}}") ==
        "! ${{inputs.batchsize}}: there is no input 'batchsize'; did you mean 'batch_size'?");
  CHECK(filled("${{outputs.zzz}}") == "! ${{outputs.zzz}}: there is no output 'zzz'");
  CHECK(filled("${{input.lr}}") == "! ${{input.lr}}: is not known here; did you mean 'inputs'?");
  CHECK(filled("${{}}") == "! ${{}}: is not known here");
  CHECK(filled("${{inputs}}") == "! ${{inputs}}: says no name, as in ${{inputs.NAME}}");
  CHECK(filled("${{search_space.lr}}") ==
        "! ${{search_space.lr}}: sweeps come with a later version");
  CHECK(filled("${{parent.inputs.x}}") ==
        "! ${{parent.inputs.x}}: pipelines come with a later version");
}

TEST_CASE("an expression that is not closed or holds another is refused") {
  CHECK(filled("a ${{inputs.lr") == "! ${{inputs.lr}}: '}}' is missing");
  CHECK(filled("${{inputs.${{name}}}}") ==
        "! ${{inputs.${{name}}: an expression cannot stand within another");
  const auto fault = fill_in("ab\n ${{x}}", kValues);
  REQUIRE(!fault);
  CHECK(fault.error().offset == 4);
}

TEST_CASE("what grows beyond all measure is refused") {
  Values large = kValues;
  large.parameters["x"] = std::string(600'000, 'x');
  CHECK(render("${{inputs.x}}", large));
  CHECK(!render("${{inputs.x}}${{inputs.x}}", large));
}

TEST_CASE("a command is made anew from its template") {
  RunSpec spec;
  spec.command = {"train --lr 0.1"};
  spec.command_template = "train --lr ${{inputs.lr}} --run ${{name}}";
  spec.parameters = {{"lr", "0.5"}};
  REQUIRE(render_command(spec, RunId{"r1"}));
  CHECK(spec.command == std::vector<std::string>{"train --lr 0.5 --run r1"});
  CHECK(spec.form == CommandForm::shell);

  spec.parameters.clear();
  CHECK(render_command(spec, RunId{"r1"}).error().message ==
        "command: ${{inputs.lr}}: there is no input 'lr'");

  RunSpec plain;
  plain.command = {"a", "b"};
  REQUIRE(render_command(plain, RunId{"r1"}));
  CHECK(plain.command == std::vector<std::string>{"a", "b"});
}
