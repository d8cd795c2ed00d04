#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/submission.h"
#include "dialects/expressions.h"
#include "model/environment_record.h"
#include "model/parameters.h"

namespace trainyard::cli {
namespace {

constexpr std::string_view kFields[] = {
    "experiment", "name", "target", "priority",           "cpus",        "gpus",
    "mem",        "time", "nodes",  "processes-per-node", "max-retries", "environment",
};

constexpr Option kRunRerunRows[] = {
    {"--set", Takes::value, "K=V",
     "Another value for a parameter of the script, or for one of: experiment, name, target, "
     "priority, cpus, gpus, mem, time, nodes, processes-per-node, max-retries, environment, "
     "env.NAME, tag.NAME. Again for more."},
    {"--code", Takes::value, "DIR", "Other code, from this folder; else what the run had."},
    {"--async --no-wait", Takes::nothing, "", "Print the new run's id and do not wait."},
    {"--download", Takes::value, "DIR", "Fetch the outputs into DIR/outputs at the end."},
};

Result<int> whole(const std::string& text, const std::string& key) {
  TRY_SET(const int64_t value, parse_int(text, "--set " + key));
  if (value < 0 || value > INT32_MAX) {
    return fail(ErrorKind::invalid, "--set " + key + ": is out of range");
  }
  return static_cast<int>(value);
}

// In the place of all that it had; else it keeps what its name stood for then.
Status set_environment(RunSpec& spec, const std::string& value) {
  spec.environment = {};
  if (value == "system") return {};
  TRY_SET(const EnvironmentName name, parse_environment_name(value));
  spec.environment.name = name.name;
  spec.environment.version = name.version;
  return {};
}

// What the command line of `submit` says by options. False: no such key.
Result<bool> set_field(RunSpec& spec, const std::string& key, const std::string& value) {
  if (key == "experiment") {
    spec.experiment = value;
  } else if (key == "name") {
    spec.display_name = value;
  } else if (key == "target") {
    spec.target = value;
  } else if (key == "priority") {
    TRY_SET(spec.priority, priority_from(value));
  } else if (key == "cpus") {
    TRY_SET(spec.resources.cpus, whole(value, key));
  } else if (key == "gpus") {
    TRY_SET(spec.resources.gpus, whole(value, key));
  } else if (key == "mem") {
    TRY_SET(spec.resources.memory_bytes, parse_size(value, "--set mem"));
  } else if (key == "time") {
    TRY_SET(const seconds limit, parse_duration(value, "--set time"));
    spec.time_limit_s = limit.count();
  } else if (key == "nodes") {
    TRY_SET(spec.nodes, whole(value, key));
  } else if (key == "processes-per-node") {
    TRY_SET(spec.processes_per_node, whole(value, key));
  } else if (key == "max-retries") {
    TRY_SET(spec.retry.max, whole(value, key));
  } else if (key == "environment") {
    TRY(set_environment(spec, value));
  } else if (key.starts_with("env.") && key.size() > 4) {
    spec.environment_variables[key.substr(4)] = value;
  } else if (key.starts_with("tag.") && key.size() > 4) {
    spec.tags[key.substr(4)] = value;
  } else {
    return false;
  }
  return true;
}

std::unexpected<Error> unknown(const RunSpec& spec, const std::string& key) {
  std::vector<std::string> parameters;
  for (const auto& [name, value] : spec.parameters) parameters.push_back(name);
  if (spec.form != CommandForm::shell) {
    for (const auto& [name, value] : command_parameters(spec.command)) parameters.push_back(name);
  }
  std::vector<std::string> known = parameters;
  known.insert(known.end(), std::begin(kFields), std::end(kFields));
  const std::string near =
      nearest(key.substr(std::min(key.find_first_not_of('-'), key.size())), known);
  return fail(ErrorKind::invalid, "--set " + key + ": the run has no such parameter",
              (near.empty() ? "" : "Did you mean '" + near + "'? ") +
                  (parameters.empty() ? std::string("It was given none.")
                                      : "It was given: " + join(parameters, ", ") + "."));
}

// The script's own parameters first: a script may have one named `name`.
Status set_one(RunSpec& spec, const std::string& key, const std::string& value) {
  constexpr std::string_view kInputs = "inputs.";  // As `job create --set` has it.
  const auto parameter =
      spec.parameters.find(key.starts_with(kInputs) ? key.substr(kInputs.size()) : key);
  if (parameter != spec.parameters.end()) {
    parameter->second = value;
    return {};
  }
  if (spec.form != CommandForm::shell && set_command_parameter(spec.command, key, value)) return {};
  TRY_SET(const bool field, set_field(spec, key, value));
  if (!field) return unknown(spec, key);
  return {};
}

}  // namespace

constinit const std::span<const Option> kRunRerunOptions = kRunRerunRows;

Result<int> run_rerun(Context& context) {
  const Args& args = context.args();
  if (args.has("async") && args.has("download")) {
    return fail(ErrorKind::invalid, "--download waits for the run's end, --async does not",
                "Fetch the outputs later with: trainyard run download RUN");
  }
  TRY_SET(const RunId chosen, context.chosen_run());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json before, api->run(chosen));
  const RunId original{cell_of(before, "id")};
  Submission submission{.spec = {}, .code = {}, .id = new_run_id(), .places = {}};
  TRY_SET(submission.spec, api->spec(original));
  RunSpec& spec = submission.spec;
  if (spec.interactive) {
    return fail(ErrorKind::invalid, "run " + original.value + " was no program of ours to run",
                "It was told of by a script elsewhere.");
  }
  TRY_SET(const auto sets, parse_pairs(args.values("set"), "--set"));
  for (const auto& [key, value] : sets) TRY(set_one(spec, key, value));
  TRY(dialects::render_command(spec, submission.id));
  spec.parent.clear();
  spec.properties[kRerunOf] = original.value;
  if (args.has("code")) {
    std::error_code error;
    submission.code = fs::canonical(args.value("code"), error);
    if (error) {
      return fail(ErrorKind::not_found, "--code " + args.value("code") + ": no such folder");
    }
    if (!fs::is_directory(*submission.code)) {
      return fail(ErrorKind::invalid, "--code " + args.value("code") + ": it is no folder");
    }
  }
  TRY_SET(const SubmitOutcome outcome,
          submit_run(context, std::move(submission),
                     args.has("async") ? Then::print_id : Then::follow));
  return outcome.code;
}

}  // namespace trainyard::cli
