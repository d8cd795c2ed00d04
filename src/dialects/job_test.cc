#include "dialects/job.h"

#include <doctest/doctest.h>

#include "base/file.h"

using namespace trainyard;
using namespace trainyard::dialects;

namespace {

using Words = std::vector<std::string>;
using Texts = std::map<std::string, std::string>;

struct JobFolder {
  explicit JobFolder(std::string_view text) {
    REQUIRE(make_dirs(dir.path() / "src"));
    REQUIRE(write_file(dir.path() / "job.yml", text));
  }
  Result<Job> load(Words sets = {}, std::string name = {}) const {
    return load_job({dir.path() / "job.yml", std::move(name), std::move(sets)});
  }
  TempDir dir;
};

Job job_of(std::string_view text, Words sets = {}) {
  auto job = JobFolder(text).load(std::move(sets));
  REQUIRE_MESSAGE(job, job.error().message);
  return *std::move(job);
}

// All findings, a line each: "E 1: …" or "W 2: …".
std::string findings_of(std::string_view text, const Words& sets = {}) {
  std::string all;
  for (const Finding& found : validate_job(text, "f", sets)) {
    const std::string said = found.str();
    all += (found.severity == Severity::error ? "E " : "W ") +
           (said.starts_with("f:") ? said.substr(2) : said) + "\n";
  }
  return all;
}

}  // namespace

TEST_CASE("a job that greets the world") {
  const Job job = job_of(
      "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\n"
      "command: echo \"hello world\"\ncompute: azureml:cpu-cluster\n");
  CHECK(job.spec.command == Words{"echo \"hello world\""});
  CHECK(job.spec.form == CommandForm::shell);
  CHECK(job.spec.command_template.empty());
  CHECK(job.spec.target == "cpu-cluster");
  CHECK(job.spec.experiment.empty());
  CHECK(job.code.empty());
  CHECK(!job.id.empty());
  CHECK(!job.named);
  CHECK(job.warnings.empty());
}

TEST_CASE("each key that works becomes its field") {
  const Job job = job_of(R"(type: command
name: run-7
display_name: try
experiment_name: Größe
description: |
  # Words
tags: {a: 1, b: yes, c: }
properties: {p: x}
command: python train.py
code: src
environment: system
environment_variables: {A: 1, B: "two"}
compute: local
distribution: {type: PyTorch, process_count_per_instance: 4}
resources: {instance_count: 2, shm_size: 2g, cpus: 8, gpus: 1, memory: 4G}
limits: {timeout: 600}
queue_settings: {priority: High}
)");
  CHECK(job.id.value == "run-7");
  CHECK(job.named);
  CHECK(job.spec.display_name == "try");
  CHECK(job.spec.experiment == "Größe");
  CHECK(job.spec.description == "# Words\n");
  CHECK(job.spec.tags == Texts{{"a", "1"}, {"b", "yes"}, {"c", ""}});
  CHECK(job.spec.properties == Texts{{"p", "x"}});
  CHECK(job.spec.environment_variables == Texts{{"A", "1"}, {"B", "two"}});
  CHECK(job.code.filename() == "src");
  CHECK(job.spec.target == "local");
  CHECK(job.spec.distribution == "pytorch");
  CHECK(job.spec.processes_per_node == 4);
  CHECK(job.spec.nodes == 2);
  CHECK(job.spec.resources == Resources{8, 4LL << 30, 1});
  CHECK(job.spec.time_limit_s == 600);
  CHECK(job.spec.priority == Priority::high);
  CHECK(job.warnings.empty());
  CHECK(job.places.at("compute").contains("job.yml:13"));
  CHECK(job.places.at("limits.timeout").contains("job.yml:16"));
  CHECK(check_spec(job.spec));
}

TEST_CASE("inputs are parameters, as they are written") {
  const Job job = job_of(R"(command: |
  echo ${{inputs.hello_string}}
  echo ${{ inputs.hello_number }} ${{inputs.lr}} ${{inputs.flag}} ${{inputs.n}}
inputs:
  hello_string: "hello world"
  hello_number: 42
  lr: 1.0e-3
  flag: {type: boolean, value: yes}
  n: {type: integer, default: 0x10}
)");
  CHECK(job.spec.command == Words{"echo hello world\necho 42 1.0e-3 yes 0x10\n"});
  CHECK(job.spec.command_template ==
        "echo ${{inputs.hello_string}}\necho ${{ inputs.hello_number }} ${{inputs.lr}} "
        "${{inputs.flag}} ${{inputs.n}}\n");
  CHECK(job.spec.parameters == Texts{{"hello_string", "hello world"},
                                     {"hello_number", "42"},
                                     {"lr", "1.0e-3"},
                                     {"flag", "yes"},
                                     {"n", "0x10"}});
}

TEST_CASE("outputs are folders or files in outputs/") {
  const Job job = job_of(
      "command: cp x ${{outputs.model}}/ && cp y ${{outputs.report}}\n"
      "outputs:\n  model:\n  report: {type: uri_file}\n  more: {type: mlflow_model, mode: "
      "upload}\n");
  CHECK(job.spec.command == Words{"cp x outputs/model/ && cp y outputs/report"});
  CHECK(job.spec.outputs == Texts{{"model", "outputs/model/"},
                                  {"report", "outputs/report"},
                                  {"more", "outputs/more/"}});
}

TEST_CASE("the run's own name and variables are filled in too") {
  const JobFolder folder(
      "command: echo ${{name}}\nenvironment_variables: {DIR: \"x/${{name}}\", R: "
      "\"${{inputs.r}}\"}\n"
      "inputs: {r: 5}\n");
  const auto job = folder.load({}, "my-run");
  REQUIRE(job);
  CHECK(job->id.value == "my-run");
  CHECK(job->spec.command == Words{"echo my-run"});
  CHECK(job->spec.environment_variables == Texts{{"DIR", "x/my-run"}, {"R", "5"}});
  const auto fresh = folder.load();
  REQUIRE(fresh);
  CHECK(fresh->spec.command == Words{"echo " + fresh->id.value});
  CHECK(!folder.load({}, "../x"));
}

TEST_CASE("overrides come before all else") {
  const std::string text = "command: train ${{inputs.lr}}\ninputs: {lr: 1}\n";
  const Job job = job_of(text, {"inputs.lr=0.1", "tags.who=me", "limits.timeout=5", "name=n1"});
  CHECK(job.spec.command == Words{"train 0.1"});
  CHECK(job.spec.parameters == Texts{{"lr", "0.1"}});
  CHECK(job.spec.tags == Texts{{"who", "me"}});
  CHECK(job.spec.time_limit_s == 5);
  CHECK(job.id.value == "n1");
  CHECK(findings_of(text, {"limits.timeout=x"}) ==
        "E --set limits.timeout=x: limits.timeout: must be a whole number\n");
  CHECK(findings_of(text, {"limts.timeout=1"}) ==
        "W --set limts.timeout=1: unknown key 'limts'; did you mean 'limits'?\n");
  CHECK(findings_of(text, {"x"}) == "E --set x: there is no '='\n");
}

TEST_CASE("code is found from the job file's own folder") {
  JobFolder folder("command: x\ncode: ./src\n");
  REQUIRE(folder.load());
  CHECK(folder.load()->code == folder.dir.path() / "src");
  REQUIRE(write_file(folder.dir.path() / "job.yml", "command: x\n\ncode: sources\n"));
  CHECK(folder.load().error().message.contains("job.yml:3: code: 'sources' is not in "));
  REQUIRE(write_file(folder.dir.path() / "job.yml", "command: x\ncode: git+https://x/y.git\n"));
  CHECK(folder.load().error().message.contains("job.yml:2: code: code from elsewhere"));
}

TEST_CASE("an expression that is wrong is said with its own line") {
  CHECK(findings_of("inputs: {lr: 1}\ncommand: |\n  a\n  b ${{inputs.rl}}\n") ==
        "E 4: command: ${{inputs.rl}}: there is no input 'rl'; did you mean 'lr'?\n");
  CHECK(findings_of("command: a ${{search_space.lr}}\n") ==
        "E 1: command: ${{search_space.lr}}: sweeps come with a later version\n");
  CHECK(findings_of("command: x\nenvironment_variables:\n  A: ${{outputs.m}}\n") ==
        "E 3: environment_variables.A: ${{outputs.m}}: there is no output 'm'\n");
}

TEST_CASE("everything wrong is found at once") {
  CHECK(findings_of("comand: x\nresources: {instance_count: many}\nlimits: {timeout: 0}\n"
                    "queue_settings: {priority: urgent}\n") ==
        "W 1: unknown key 'comand'; did you mean 'command'?\n"
        "E 2: resources.instance_count: must be a whole number\n"
        "E 4: queue_settings.priority: 'urgent' is not known\n"
        "E 3: limits.timeout: must be 1 to 315360000\n"
        "E 1: command: is missing\n");
}

TEST_CASE("what comes later is refused by name, and what has no effect warns") {
  const std::pair<const char*, const char*> cases[] = {
      {"type: comand", "E 2: type: 'comand' is not known; did you mean 'command'?\n"},
      {"environment: {image: python:latest}", ""},
      {"environment: {imge: python:latest}",
       "W 2: unknown key 'imge' in environment; did you mean 'image'?\n"},
      {"environment: {image: a, build: {path: b}}",
       "E 2: environment: build: there is an image too; keep one of them\n"},
      {"environment: azureml:x@newest",
       "E 2: environment 'azureml:x@newest': the one label is @latest\n"},
      {"environment: {image: a, os_type: windows}",
       "W 2: environment.os_type: has no effect (every node is)\n"},
      {"environment:", ""},
      {"inputs: {d: {type: uri_folder, path: x}}",
       "E 2: inputs.d: data inputs come with a later version\n"},
      {"inputs: {d: {path: x}}", "E 2: inputs.d: data inputs come with a later version\n"},
      {"inputs: {d: }", "E 2: inputs.d: has no value\n"},
      {"inputs: {d: [1]}", "E 2: inputs.d: must be a plain value or a map\n"},
      {"inputs: {d: {type: integer, value: 1.5}}", "E 2: inputs.d: is not of the type integer\n"},
      {"inputs: {d: {type: intger, value: 1}}",
       "E 2: inputs.d.type: 'intger' is not known; did you mean 'integer'?\n"},
      {"inputs: {d: {type: number}}", "E 2: inputs.d: has no value\n"},
      {"inputs: {d: {type: string, value: x, path: y}}",
       "E 2: inputs.d: is a string, which has no path or mode\n"},
      {"outputs: {m: {path: x}}", "E 2: outputs.m.path: comes with a later version (datastores)\n"},
      {"outputs: {m: {name: x}}",
       "E 2: outputs.m.name: comes with a later version (registering an output)\n"},
      {"outputs: {../m: }", "E 2: outputs.../m: an output's name becomes a folder's name\n"},
      {"outputs: {a..b: }", "E 2: outputs.a..b: an output's name becomes a folder's name\n"},
      {"outputs: {m: x}", "E 2: outputs.m: must be empty or a map\n"},
      {"distribution: {type: tensorflow, worker_count: 3}\nresources: {instance_count: 2}",
       "E 2: distribution.worker_count: 3 workers cannot be shared out evenly among 2 nodes\n"},
      {"distribution: {type: ray, port: 1}",
       "E 2: distribution.type: 'ray' comes with a later version\n"},
      {"distribution: {type: pytorch, worker_count: 2}",
       "W 2: distribution.worker_count: has no effect unless distribution.type is tensorflow\n"},
      {"distribution: {process_count_per_instance: 2}", "E 2: distribution.type: is missing\n"},
      {"services: {s: {type: ssh}}",
       "E 2: services: comes with a later version (interactive services)\n"},
      {"identity: {type: managed}",
       "W 2: identity: has no effect (a run is whoever submitted it)\n"},
      {"resources: {instance_type: x}",
       "W 2: resources.instance_type: has no effect (the target decides)\n"},
      {"resources: {memory: much}",
       "E 2: resources.memory: 'much' is not a size like 512, 64k or 1.5GB\n"},
      {"resources: {shm_size: 8g}", ""},
      {"queue_settings: {job_tier: spot}",
       "W 2: queue_settings.job_tier: has no effect (there are no tiers)\n"},
      {"compute: azureml:a b", "E 2: compute 'a b' is not a valid name\n"},
      {"compute: azureml:/subscriptions/s/computes/c1", ""},
      {"name: a/b", "E 2: name 'a/b' is not a valid name\n"},
      {"experimentName: x", "W 2: unknown key 'experimentName'; did you mean 'experiment_name'?\n"},
      {"tags: [a]", "E 2: tags: must be a map of keys and values\n"},
      {"environment_variables: {A: [1]}", "E 2: environment_variables.A: must be a text\n"},
      {"environment_variables: {A=: 1}",
       "E 2: environment_variables: a variable's name has no '=' and is not empty\n"},
  };
  for (const auto& [text, said] : cases) {
    CHECK_MESSAGE(findings_of("command: x\n" + std::string(text) + "\n") == said, text);
  }
}

TEST_CASE("a file that is no command job gets one error, which names what it is") {
  const std::string schemas = "$schema: https://azuremlschemas.azureedge.net/latest/";
  const std::pair<std::string, const char*> cases[] = {
      {schemas + "pipelineJob.schema.json\njobs: {a: {b: 1}}\nsettings: {x: 1}\n",
       "E 1: describes a pipeline job, which is not supported yet\n"},
      {"type: pipeline\njobs: {a: {b: 1}}\n",
       "E 1: describes a pipeline job, which is not supported yet\n"},
      {"jobs: {a: {b: 1}}\n", "E 1: describes a pipeline job, which is not supported yet\n"},
      {"type: sweep\ntrial: {command: x}\n",
       "E 1: describes a sweep job, which is not supported yet\n"},
      {schemas + "commandComponent.schema.json\ntype: command\ncommand: x\n",
       "E 2: describes a component, which is not supported yet\n"},
      {schemas + "managedOnlineDeployment.schema.json\nname: blue\n",
       "E 1: describes a deployment, which is not supported yet\n"},
      {schemas + "batchEndpoint.schema.json\n",
       "E 1: describes an endpoint, which is not supported yet\n"},
      {schemas + "schedule.schema.json\n",
       "E 1: describes a schedule, which is not supported yet\n"},
      {"\ntype: automl\n", "E 2: describes an AutoML job, which is not supported yet\n"},
      {"type: azure_blob\n", "E 1: describes a datastore, which is not supported yet\n"},
      {schemas + "environment.schema.json\nimage: x\n",
       "E 1: describes an environment, not a job\n"},
      {"type: amlcompute\nname: c\n", "E 1: describes a compute, not a job\n"},
      {"script: train.py\ntarget: local\n", "E 1: describes a run configuration, not a job\n"},
      {schemas + "commandJob.schema.json\ncommand: x\n", ""},
  };
  for (const auto& [text, expected] : cases) {
    CHECK_MESSAGE(findings_of(text) == expected, text);
  }
  const Findings compute = validate_job("type: amlcompute\n", "c.yml");
  REQUIRE(compute.size() == 1);
  CHECK(compute[0].hint == "Use: trainyard compute create -f c.yml");
}

TEST_CASE("the use of a refused input or output is no second error") {
  const std::pair<const char*, const char*> cases[] = {
      {"command: x ${{inputs.d}}\ninputs: {d: {type: uri_folder, path: x}}\n",
       "E 2: inputs.d: data inputs come with a later version\n"},
      {"command: x ${{inputs.d}}\ninputs: {d: }\n", "E 2: inputs.d: has no value\n"},
      {"command: x ${{inputs.d}}\ninputs: [d]\n",
       "E 2: inputs: must be a map of keys and values\n"},
      {"command: x ${{outputs.m}}\noutputs: {m: x}\n", "E 2: outputs.m: must be empty or a map\n"},
      {"command: x ${{inputs.e}}\ninputs: {d: {type: uri_folder}}\n",
       "E 2: inputs.d: data inputs come with a later version\n"
       "E 1: command: ${{inputs.e}}: there is no input 'e'\n"},
  };
  for (const auto& [text, expected] : cases) CHECK_MESSAGE(findings_of(text) == expected, text);
}

TEST_CASE("a job's preparation is a text for the shell") {
  CHECK(job_of("command: x\npreparation: make && ls\n").spec.preparation == "make && ls");
  CHECK(job_of("command: x\n").spec.preparation.empty());
  CHECK(findings_of("command: x\npreparation: [make]\n") == "E 2: preparation: must be a text\n");
}

TEST_CASE("a file that is no job is refused") {
  CHECK(findings_of("") == "E 1: is empty\n");
  CHECK(findings_of("[1]") == "E 1: must be a map of keys and values\n");
  CHECK(findings_of("command:\n") == "E 1: command: is missing\n");
  CHECK(findings_of("command: ' '\n") == "E 1: command: is missing\n");
  CHECK(findings_of("environment: {image: debian}\n") == "");
  CHECK(findings_of("environment: {build: {path: .}}\n") == "");
  CHECK(findings_of("environment: sklearn\n") == "E 1: command: is missing\n");
  CHECK(findings_of("command: [a]\n") == "E 1: command: must be a text\n");
  CHECK(findings_of("a: b: c\n") == "E 1: illegal map value (column 5)\n");
  CHECK(!load_job({"no/such/file.yml", "", {}}));
}
