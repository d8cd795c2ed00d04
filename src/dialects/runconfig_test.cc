#include "dialects/runconfig.h"

#include <doctest/doctest.h>

#include "base/file.h"
#include "dialects/keys.h"

using namespace trainyard;
using namespace trainyard::dialects;

namespace {

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

// A project with train.py and one run configuration, aml_config/t.runconfig.
struct Project {
  explicit Project(std::string_view text) {
    put("train.py", "");
    put("aml_config/t.runconfig", text);
  }
  void put(const fs::path& file, std::string_view text) {
    REQUIRE(make_dirs((dir.path() / file).parent_path()));
    REQUIRE(write_file(dir.path() / file, text));
  }
  Result<Runconfig> load(Words words = {}) const {
    return load_runconfig({.project = dir.path(), .name = "t", .words = std::move(words)});
  }
  TempDir dir;
};

RunSpec spec_of(std::string_view text) {
  const auto loaded = Project(text).load();
  REQUIRE_MESSAGE(loaded, loaded.error().message);
  return loaded->spec;
}

// All findings, a line each: "E 1: …" or "W 2: …".
std::string runconfig_findings(std::string_view text) {
  std::string all;
  for (const Finding& found : validate_runconfig(text, "f")) {
    all += (found.severity == Severity::error ? "E " : "W ") + found.str().substr(2) + "\n";
  }
  return all;
}

// As the original's tools write it: every key, most with their defaults.
constexpr std::string_view kGenerated = R"(# The script to run.
script: train.py
arguments: []
target: local
framework: Python
communicator: None
autoPrepareEnvironment: true
maxRunDurationSeconds:
nodeCount: 1
priority:
environment:
  name: default-environment
  version:
  environmentVariables:
    EXAMPLE_ENV_VAR: EXAMPLE_VALUE
  python:
    userManagedDependencies: true
    interpreterPath: python
    condaDependenciesFile: aml_config/conda_dependencies.yml
    baseCondaEnvironment:
  docker:
    enabled: false
    baseImage: mcr.microsoft.com/azureml/base:0.2.4
    baseDockerfile:
    sharedVolumes: true
    gpuSupport: false
    shmSize: 2g
    arguments: []
    baseImageRegistry:
      address:
      username:
      password:
  spark:
    repositories:
    - https://mmlspark.azureedge.net/maven
    packages:
    - group: com.microsoft.ml.spark
      artifact: mmlspark_2.11
      version: '0.12'
    precachePackages: true
  databricks:
    mavenLibraries: []
    pypiLibraries: []
    rcranLibraries: []
    jarLibraries: []
    eggLibraries: []
  r:
  inferencingStackVersion:
history:
  outputCollection: true
  snapshotProject: true
  directoriesToWatch:
  - logs
spark:
  configuration:
    spark.app.name: Azure ML Experiment
    spark.yarn.maxAppAttempts: 1
docker:
  useDocker: false
  sharedVolumes: true
  arguments: []
  shmSize: 2g
hdi:
  yarnDeployMode: cluster
tensorflow:
  workerCount: 1
  parameterServerCount: 1
mpi:
  processCountPerNode: 1
  nodeCount: 1
pytorch:
  communicationBackend: nccl
  processCount:
  nodeCount: 1
paralleltask:
  maxRetriesPerWorker: 0
  workerCountPerNode: 1
  terminalExitCodes:
dataReferences: {}
data: {}
outputData: {}
datacaches: []
sourceDirectoryDataStore:
amlcompute:
  vmSize:
  vmPriority:
  retainCluster: false
  name:
  clusterMaxNodeCount: 1
kubernetescompute:
  instanceType:
credentialPassthrough: false
command: ''
environmentVariables: {}
applicationEndpoints: {}
)";

}  // namespace

TEST_CASE("a generated file with every key runs without a word") {
  CHECK(runconfig_findings(kGenerated) == "");
  const auto loaded = Project(kGenerated).load();
  REQUIRE_MESSAGE(loaded, loaded.error().message);
  CHECK(loaded->warnings.empty());
  CHECK(loaded->spec.command == Words{"python", "train.py"});
  CHECK(loaded->spec.form == CommandForm::expand);
  CHECK(loaded->spec.environment_variables == Variables{{"EXAMPLE_ENV_VAR", "EXAMPLE_VALUE"}});
  CHECK(loaded->any_python);
}

TEST_CASE("our own sample runs as it is") {
  CHECK(runconfig_findings(sample_runconfig()) == "");
  const auto loaded = Project(sample_runconfig()).load();
  REQUIRE_MESSAGE(loaded, loaded.error().message);
  CHECK(loaded->spec.command == Words{"python", "train.py"});
  CHECK(parse_document(sample_conda_dependencies(), "conda.yml"));
}

TEST_CASE("the template's train-local runs with its own Python, whatever its docker section says") {
  const std::string text =
      "script: train.py\narguments: [--data-path, /data]\ntarget: local\nframework: Python\n"
      "communicator: None\nnodeCount: 1\nenvironment:\n  environmentVariables:\n"
      "    EXAMPLE_ENV_VAR: EXAMPLE_VALUE\n  python:\n    userManagedDependencies: ";
  const std::string rest =
      "\n    interpreterPath: python\n    condaDependenciesFile: aml_config/train-conda.yml\n"
      "  docker:\n    enabled: ";
  const std::string end =
      "\n    baseImage: mcr.microsoft.com/azureml/base:intelmpi2018.3-ubuntu16.04\n"
      "    arguments: [-v, C:\\some\\path:/data]\n";
  const auto loaded = Project(text + "true" + rest + "false" + end).load();
  REQUIRE_MESSAGE(loaded, loaded.error().message);
  REQUIRE(loaded->warnings.size() == 1);
  CHECK(loaded->warnings[0].contains(
      "'C:\\some\\path:/data' is a folder of Windows; it is left out"));
  CHECK(loaded->spec.environment == Environment{});
  CHECK(loaded->spec.command == Words{"python", "train.py", "--data-path", "/data"});

  CHECK(runconfig_findings(text + "false" + rest + "true" + end) == "");
  CHECK(runconfig_findings(text + "true" + rest + "true" + end + "docker:\n  useDocker: true,\n") ==
        "E 19: docker.useDocker: must be true or false\n");
}

TEST_CASE("each key that works becomes its field") {
  const RunSpec spec = spec_of(
      "script: train.py\narguments: [--lr, 0.10, --flag, yes, $DATA]\ntarget: cpu\njobName: try\n"
      "maxRunDurationSeconds: 1:30\nnodeCount: 2\npriority: 7\n"
      "environmentVariables: {A: top, B: 2, N: }\n"
      "environment: {environmentVariables: {A: low, C: yes}}\n"
      "history: {outputCollection: false}\n");
  CHECK(spec.command == Words{"python", "train.py", "--lr", "0.10", "--flag", "yes", "$DATA"});
  CHECK(spec.form == CommandForm::expand);
  CHECK(spec.target == "cpu");
  CHECK(spec.display_name == "try");
  CHECK(spec.time_limit_s == 90);
  CHECK(spec.nodes == 2);
  CHECK(spec.priority == Priority::high);
  CHECK(spec.environment_variables == Variables{{"A", "top"}, {"B", "2"}, {"C", "yes"}, {"N", ""}});
  CHECK(!spec.keep_outputs);
  CHECK(spec_of("script: train.py\npriority: -1\n").priority == Priority::low);
  CHECK(spec_of("script: train.py\npriority: 0\n").priority == Priority::normal);
  CHECK(spec_of("script: train.py\n") ==
        spec_of("script: train.py\ntarget: local\nnodeCount: 1\n"));
}

TEST_CASE("a spec made of defaults passes the rules of a run") {
  RunSpec spec = spec_of(kGenerated);
  spec.experiment = "e";
  const Status good = check_spec(spec);
  CHECK_MESSAGE(good, good.error().message);
}

TEST_CASE("snake_case, Title case and JSON say the same as camelCase") {
  const RunSpec camel = spec_of(
      "script: train.py\nmaxRunDurationSeconds: 5\nenvironmentVariables: {a_b: 1}\n"
      "environment:\n  python: {userManagedDependencies: true, interpreterPath: /opt/py}\n");
  CHECK(camel.command[0] == "/opt/py");
  CHECK(spec_of("script: train.py\nmax_run_duration_seconds: 5\nenvironment_variables: {a_b: 1}\n"
                "environment:\n"
                "  python: {user_managed_dependencies: true, interpreter_path: /opt/py}\n") ==
        camel);
  CHECK(spec_of("Script: train.py\nMaxRunDurationSeconds: 5\nEnvironmentVariables: {a_b: 1}\n"
                "Environment:\n"
                "  Python: {UserManagedDependencies: true, InterpreterPath: /opt/py}\n") == camel);
  CHECK(
      spec_of("{\n\t\"script\": \"train.py\", \"maxRunDurationSeconds\": 5,\n"
              "\t\"environmentVariables\": {\"a_b\": 1},\n\t\"environment\": {\"python\":\n"
              "\t\t{\"userManagedDependencies\": true, \"interpreterPath\": \"/opt/py\"}}\n}\n") ==
      camel);
}

TEST_CASE("the interpreter counts only where the user keeps the dependencies") {
  const auto other =
      Project("script: train.py\nenvironment: {python: {interpreterPath: /opt/py}}\n").load();
  REQUIRE(other);
  CHECK(other->spec.command[0] == "python");
  const auto own = Project(
                       "script: train.py\nenvironment: {python: {interpreterPath: /opt/py, "
                       "userManagedDependencies: true}}\n")
                       .load();
  REQUIRE(own);
  CHECK(own->spec.command[0] == "/opt/py");
  CHECK(!own->any_python);
}

TEST_CASE("a command is a text for the shell or a list of words") {
  const RunSpec text = spec_of("command: echo a; echo $B\n");
  CHECK(text.command == Words{"echo a; echo $B"});
  CHECK(text.form == CommandForm::shell);
  const RunSpec words = spec_of("command: [echo, $B, 1]\n");
  CHECK(words.command == Words{"echo", "$B", "1"});
  CHECK(words.form == CommandForm::expand);
  CHECK(runconfig_findings("command: {a: 1}\n") ==
        "E 1: command: must be a text or a list of plain values\n");
  CHECK(runconfig_findings("command: [[a]]\n") ==
        "E 1: command: must be a text or a list of plain values\n");
}

TEST_CASE("script and command together are refused, with both lines") {
  CHECK(runconfig_findings("script: train.py\ncommand: echo\n") ==
        "E 2: command: script on line 1 says what to run too; keep one of them\n");
  CHECK(runconfig_findings("arguments: [a]\ncommand: echo\n") ==
        "E 2: command: arguments on line 1 says what to run too; keep one of them\n");
  CHECK(runconfig_findings("script: train.py\nargumentVector: [a]\n") ==
        "E 1: script: argumentVector on line 2 says what to run too; keep one of them\n");
  CHECK(runconfig_findings("script: train.py\ncommand: ''\n") == "");
  CHECK(runconfig_findings("script:\ncommand: [a]\n") == "");
}

TEST_CASE("without script and command there must be words on the command line") {
  const Project project("target: local\n");
  const auto none = project.load();
  REQUIRE(!none);
  CHECK(none.error().message.contains("says neither script nor command"));
  const auto words = project.load({"train.py", "--lr", "1"});
  REQUIRE(words);
  CHECK(words->spec.command == Words{"python", "train.py", "--lr", "1"});
  CHECK(words->spec.form == CommandForm::expand);
}

TEST_CASE("the command line wins over the file") {
  Project project("script: missing.py\narguments: [a]\ntarget: amlcompute\n");
  const auto loaded = load_runconfig(
      {.project = project.dir.path(), .name = "t", .words = {"train.py"}, .target = "gpu"});
  REQUIRE_MESSAGE(loaded, loaded.error().message);
  CHECK(loaded->spec.command == Words{"python", "train.py"});
  CHECK(loaded->spec.target == "gpu");
  CHECK(!loaded->places.contains("target"));
  CHECK(!load_runconfig({.project = project.dir.path(), .name = "t", .words = {"none.py"}}));
}

TEST_CASE("no file at all will do when the command line says what to run") {
  Project project("");
  const auto loaded = load_runconfig({.project = project.dir.path(), .words = {"train.py"}});
  REQUIRE(loaded);
  CHECK(loaded->spec.command == Words{"python", "train.py"});
  CHECK(loaded->spec.target == "local");
  CHECK(!load_runconfig({.project = project.dir.path()}));
}

TEST_CASE("a script that is not in the source folder is refused with its line") {
  Project project("target: local\nscript: trian.py\n");
  const auto missing = project.load();
  REQUIRE(!missing);
  CHECK(missing.error().message.contains("aml_config/t.runconfig:2: script 'trian.py' is not in "));
  project.put("aml_config/t.runconfig", "script: trian.py\ncommand: ''\n");
  CHECK(project.load().error().message.contains("t.runconfig:1: script 'trian.py' is not in "));
  project.put("aml_config/t.runconfig", "script: ../train.py\n");
  CHECK(project.load().error().message.contains("is not within"));
  project.put("aml_config/t.runconfig", "script: /etc/passwd\n");
  CHECK(project.load().error().message.contains("is not within"));
}

TEST_CASE("the source folder is where script and run configuration are looked for first") {
  Project project("script: train.py\ntarget: outer\n");
  project.put("src/train.py", "");
  const auto ask = [&] {
    return load_runconfig(
        {.project = project.dir.path(), .source = project.dir.path() / "src", .name = "t"});
  };
  REQUIRE(ask());
  CHECK(ask()->spec.target == "outer");
  CHECK(ask()->source == project.dir.path() / "src");
  project.put("src/.azureml/t", "script: train.py\ntarget: inner\n");
  CHECK(ask()->spec.target == "inner");
}

TEST_CASE("places say where a key stands") {
  const auto loaded = Project(
                          "script: train.py\ntarget: x\nenvironment:\n  python:\n"
                          "    interpreterPath: python\n")
                          .load();
  REQUIRE(loaded);
  CHECK(loaded->places.at("target").contains("aml_config/t.runconfig:2"));
  CHECK(loaded->places.at("environment.python.interpreterPath").contains("t.runconfig:5"));
  CHECK(!loaded->places.contains("nodeCount"));
}

TEST_CASE("an environment may be a file of its own") {
  Project project("script: train.py\nenvironment: envs/e.yml\n");
  const auto missing = project.load();
  REQUIRE(!missing);
  CHECK(missing.error().message.contains(
      "t.runconfig:2: environment: there is no file 'envs/e.yml'"));

  project.put("aml_config/envs/e.yml",
              "name: project_environment\nenvironment_variables: {A: 1}\npython:\n"
              "  userManagedDependencies: true\n  interpreterPath: /opt/py\n");
  const auto beside = project.load();
  REQUIRE_MESSAGE(beside, beside.error().message);
  CHECK(beside->spec.command[0] == "/opt/py");
  CHECK(beside->spec.environment_variables == Variables{{"A", "1"}});

  project.put("envs/e.yml",
              "docker:\n  enabled: true\n  baseImage: debian\n  baseDockerfile: FROM debian\n");
  CHECK(project.load().error().message.contains(
      "envs/e.yml:4: environment.docker.baseDockerfile: there is a baseImage too"));
  project.put("envs/e.yml", "dockr: {}\n");
  REQUIRE(project.load());
  CHECK(project.load()->warnings.at(0).contains(
      "envs/e.yml:1: unknown key 'dockr' in environment; did you mean 'docker'?"));
  project.put("envs/e.yml", "name: x\ndependencies: [python=3.11, pip: [numpy]]\n");
  REQUIRE(project.load());
  REQUIRE(project.load()->spec.environment.recipe.requirements.size() == 1);
  CHECK(project.load()->spec.environment.recipe.requirements[0].starts_with("numpy"));
  project.put("envs/e.yml", "[1]\n");
  CHECK(project.load().error().message.contains("envs/e.yml:1: must be a map"));
}

TEST_CASE("PyTorch's ranks are shared out among the nodes") {
  const RunSpec one = spec_of(
      "script: train.py\nframework: pytorch\ncommunicator: nccl\npytorch: {processCount: 4}\n");
  CHECK(one.distribution == "pytorch");
  CHECK(one.processes_per_node == 4);
  const RunSpec two = spec_of(
      "script: train.py\ncommunicator: Gloo\nnodeCount: 2\npytorch: {processCount: 8, nodeCount: "
      "2}\n");
  CHECK(two.nodes == 2);
  CHECK(two.processes_per_node == 4);
  const RunSpec none = spec_of("script: train.py\ncommunicator: Nccl\npytorch: {nodeCount: 3}\n");
  CHECK(none.nodes == 3);
  CHECK(none.processes_per_node == 1);
  CHECK(
      runconfig_findings("communicator: Nccl\nnodeCount: 2\npytorch:\n  processCount: 3\n")
          .contains(
              "E 4: pytorch.processCount: 3 processes cannot be shared out evenly among 2 nodes"));
  CHECK(runconfig_findings("communicator: Nccl\nnodeCount: 2\npytorch:\n  nodeCount: 3\n")
            .contains("E 4: pytorch.nodeCount: is not what nodeCount says"));
  CHECK(runconfig_findings("script: t\npytorch: {processCount: 4}\n") ==
        "W 2: pytorch.processCount: has no effect unless communicator is Nccl or Gloo\n");
}

TEST_CASE("MPI's ranks are counted by the node") {
  for (const char* word : {"Mpi", "OpenMpi", "IntelMpi"}) {
    const RunSpec spec = spec_of(std::string("script: train.py\ncommunicator: ") + word +
                                 "\nmpi: {processCountPerNode: 4, nodeCount: 2}\n");
    CHECK(spec.distribution == "mpi");
    CHECK(spec.nodes == 2);
    CHECK(spec.processes_per_node == 4);
  }
  CHECK(spec_of("script: train.py\nframework: PythonMpi\nnodeCount: 2\n").distribution == "mpi");
  CHECK(runconfig_findings("communicator: Mpi\nnodeCount: 2\nmpi:\n  nodeCount: 3\n")
            .contains("E 4: mpi.nodeCount: is not what nodeCount says"));
  CHECK(runconfig_findings("communicator: Mpi\nmpi:\n  processCountPerNode: 0\n")
            .contains("E 3: mpi.processCountPerNode: must be 1 to"));
}

TEST_CASE("TensorFlow's workers are shared out among the nodes, its servers beside them") {
  const RunSpec spec = spec_of(
      "script: train.py\nframework: TensorFlow\ncommunicator: ParameterServer\nnodeCount: 2\n"
      "tensorflow: {workerCount: 4, parameterServerCount: 3}\n");
  CHECK(spec.distribution == "tensorflow");
  CHECK(spec.processes_per_node == 2);
  CHECK(spec.parameter_servers == 3);
  CHECK(
      runconfig_findings("communicator: ParameterServer\nnodeCount: 2\n"
                         "tensorflow:\n  workerCount: 3\n")
          .contains(
              "E 4: tensorflow.workerCount: 3 workers cannot be shared out evenly among 2 nodes"));
}

TEST_CASE("what comes later is refused by name, and what has no effect warns") {
  const std::pair<const char*, const char*> cases[] = {
      {"framework: PySpark", "E 1: framework: 'PySpark' comes with a later version\n"},
      {"framework: Pyhton", "E 1: framework: 'Pyhton' is not known; did you mean 'Python'?\n"},
      {"communicator: ParallelTask",
       "E 1: communicator: 'ParallelTask' comes with a later version\n"},
      {"communicator: x", "E 1: communicator: 'x' is not known\n"},
      {"mpi: {processCountPerNode: 4}",
       "W 1: mpi.processCountPerNode: has no effect unless communicator is Mpi\n"},
      {"target: amlcompute", "E 1: target: 'amlcompute' comes with a later version\n"},
      {"target: a b", "E 1: target 'a b' is not a valid name\n"},
      {"data: {x: {mechanism: mount}}",
       "E 1: data: comes with a later version (datasets and datastores)\n"},
      {"dataReferences: {x: {mode: mount}}",
       "E 1: dataReferences: comes with a later version (datasets and datastores)\n"},
      {"outputData: {x: {mechanism: mount}}",
       "E 1: outputData: comes with a later version (datasets and datastores)\n"},
      {"arguments: ['DatasetConsumptionConfig:x']",
       "E 1: arguments: 'DatasetConsumptionConfig:x' comes with a later version (datasets)\n"},
      {"docker: {useDocker: true}",
       "W 1: docker.useDocker: no image is named (environment.docker.baseImage); the run is a "
       "process of the machine itself\n"},
      {"environment: {name: a b}",
       "E 1: environment.name: environment 'a b' is not a valid name\n"},
      {"environment: {docker: {enabled: true, baseImage: i, baseImageRegistry: {registryIdentity: "
       "{clientId: x}}}}",
       "E 1: environment.docker.baseImageRegistry.registryIdentity: has no meaning here (an "
       "identity that Azure manages)\n"},
      {"environment: {docker: {enabled: true, baseImage: i, baseImageRegistry: {registryIdentity: "
       "{clientId: null, resourceId: null}}}}",
       ""},
      {"environment: {docker: {enabled: false, preparation: {commandLine: x}}}",
       "W 1: environment.docker.preparation.commandLine: has no effect unless docker is on\n"},
      {"environment: {docker: {enabled: true, baseImage: i, preparation: {commandLine: x}}}", ""},
      {"history: {directoriesToWatch: [logs, x]}",
       "E 1: history.directoriesToWatch: comes with a later version (watched folders beside "
       "`logs`)\n"},
      {"history: {snapshotProject: false}",
       "W 1: history.snapshotProject: has no effect (the code of a run is always kept)\n"},
      {"applicationEndpoints: {x: {type: Jupyter}}",
       "E 1: applicationEndpoints: comes with a later version (interactive services)\n"},
      {"hdi: {yarnDeployMode: client}",
       "W 1: hdi.yarnDeployMode: has no effect (belongs to another service)\n"},
      {"nodecont: 1", "W 1: unknown key 'nodecont'; did you mean 'nodeCount'?\n"},
      {"nodeCount: 0", "E 1: nodeCount: must be 1 to 100000\n"},
      {"nodeCount: two", "E 1: nodeCount: must be a whole number\n"},
      {"maxRunDurationSeconds: -5", "E 1: maxRunDurationSeconds: must be 1 to 315360000\n"},
      {"arguments: --x 1", "E 1: arguments: must be a list of plain values\n"},
      {"environmentVariables: {A=B: 1}",
       "E 1: environmentVariables.A=B: a variable's name has no '=' and is not empty\n"},
      {"[1, 2]", "E 1: must be a map of keys and values\n"},
      {"a: b: c", "E 1: illegal map value (column 5)\n"},
      {"", ""},
  };
  for (const auto& [text, said] : cases) CHECK_MESSAGE(runconfig_findings(text) == said, text);
}

TEST_CASE("a job preparation is a text for the shell, where docker is on") {
  const std::string inside =
      "environment: {docker: {baseImage: i, preparation: {commandLine: 'pip install . && ls'}}}\n";
  CHECK(spec_of("script: train.py\ndocker: {useDocker: true}\n" + inside).preparation ==
        "pip install . && ls");
  CHECK(spec_of("script: train.py\n" + inside).preparation.empty());
}

TEST_CASE("the format of 2018 names script and arguments in one list") {
  CHECK(spec_of("ArgumentVector: [train.py, --lr, 1]\nTarget: local\nFramework: Python\n"
                "TrackedRun: true\n")
            .command == Words{"python", "train.py", "--lr", "1"});
}
