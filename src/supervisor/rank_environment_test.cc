#include "supervisor/rank_environment.h"

#include <doctest/doctest.h>

#include "base/file.h"
#include "base/process.h"
#include "wire/json.h"

using namespace trainyard;
using namespace trainyard::supervisor;

namespace {

Assignment assignment() {
  Assignment a;
  a.run = "brisk-otter-x7k2m9qd";
  a.attempt = 2;
  a.token = "tya_secret";
  a.server_url = "http://127.0.0.1:8470";
  a.workspace_id = "w1";
  a.experiment_id = "7";
  a.subscription_id = "sub";
  a.resource_group = "group";
  a.spec.experiment = "digits";
  a.spec.command = {"true"};
  a.spec.submit_environment = {{"PATH", "/bin"}, {"HOME", "/home/me"}, {"COLOR", "red"}};
  a.spec.environment_variables = {{"COLOR", "blue"}, {"EPOCHS", "3"}};
  return a;
}

constexpr const char* kDistributed[] = {"OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        "WORLD_SIZE",
                                        "RANK",
                                        "LOCAL_RANK",
                                        "NODE_RANK",
                                        "TF_CONFIG",
                                        "AZ_BATCHAI_TASK_INDEX"};

}  // namespace

TEST_CASE("a plain script sees who it is, what was declared and where the submitter was") {
  const auto variables =
      rank_environment(assignment(), {}, {"/job/work", "/spool/records-0", "/sdk"});
  const std::map<std::string, std::string> expected = {
      {"PATH", "/bin"},
      {"HOME", "/home/me"},
      {"COLOR", "blue"},
      {"EPOCHS", "3"},
      {"TRAINYARD_RUN_ID", "brisk-otter-x7k2m9qd"},
      {"TRAINYARD_ATTEMPT", "2"},
      {"TRAINYARD_RESTORED", "0"},
      {"TRAINYARD_WORK", "/job/work"},
      {"TRAINYARD_RECORDS", "/spool/records-0"},
      {"PYTHONPATH", "/sdk"},
      {"TRAINYARD_SERVER", "http://127.0.0.1:8470"},
      {"TRAINYARD_TOKEN", "tya_secret"},
      {"AZUREML_RUN_ID", "brisk-otter-x7k2m9qd"},
      {"AZUREML_RUN_TOKEN", "tya_secret"},
      {"AZUREML_RUN_TOKEN_EXPIRY", "4102444800"},
      {"AZUREML_ARM_SUBSCRIPTION", "sub"},
      {"AZUREML_ARM_RESOURCEGROUP", "group"},
      {"AZUREML_ARM_WORKSPACE_NAME", "default"},
      {"AZUREML_ARM_PROJECT_NAME", "digits"},
      {"AZUREML_SERVICE_ENDPOINT", "http://127.0.0.1:8470"},
      {"AZUREML_EXPERIMENT_ID", "7"},
      {"AZUREML_WORKSPACE_ID", "w1"},
      {"AZUREML_SCRIPT_DIRECTORY_NAME", "."},
      {"PYTHONUNBUFFERED", "1"},
  };
  CHECK(variables == expected);
}

TEST_CASE("one rank without a distribution sees no distribution's variable") {
  for (const char* distribution : {"", "none"}) {
    Assignment a = assignment();
    a.spec.distribution = distribution;
    const auto variables = rank_environment(a, {});
    for (const char* name : kDistributed) CHECK_MESSAGE(!variables.contains(name), name);
  }
}

TEST_CASE("one rank that asks for a distribution, and several that do not, see all of them") {
  Assignment asks = assignment();
  asks.spec.distribution = "pytorch";
  Assignment several = assignment();
  several.spec.processes_per_node = 2;
  for (const Assignment& a : {asks, several}) {
    const auto variables = rank_environment(a, {});
    for (const char* name : kDistributed) CHECK_MESSAGE(variables.contains(name), name);
    CHECK_FALSE(variables.contains("AZ_BATCH_MASTER_NODE"));  // One node.
  }
}

TEST_CASE("what we set wins over what a job declares") {
  Assignment a = assignment();
  a.spec.environment_variables["TRAINYARD_RUN_ID"] = "mine";
  CHECK(rank_environment(a, {})["TRAINYARD_RUN_ID"] == a.run);
}

TEST_CASE("Python's buffering is off unless the job or its environment sets the variable") {
  Assignment a = assignment();
  a.spec.environment.variables["PYTHONUNBUFFERED"] = "x";
  CHECK(rank_environment(a, {})["PYTHONUNBUFFERED"] == "x");
  a.spec.environment_variables["PYTHONUNBUFFERED"] = "";
  CHECK(rank_environment(a, {})["PYTHONUNBUFFERED"].empty());
}

TEST_CASE("no MLflow variable is set: the server has no MLflow API") {
  Assignment a = assignment();
  for (const auto& [name, value] : rank_environment(a, {})) {
    CHECK_MESSAGE(!name.starts_with("MLFLOW_"), name);
  }
  a.spec.environment_variables["MLFLOW_TRACKING_URI"] = "http://elsewhere";
  CHECK(rank_environment(a, {})["MLFLOW_TRACKING_URI"] == "http://elsewhere");
}

TEST_CASE("a submitter without PATH gets one") {
  Assignment a = assignment();
  a.spec.submit_environment.clear();
  CHECK(rank_environment(a, {})["PATH"].find("/usr/bin") != std::string::npos);
}

TEST_CASE("our package comes before what a job puts on its own path") {
  Assignment a = assignment();
  a.spec.environment_variables["PYTHONPATH"] = "/mine:/theirs";
  CHECK(rank_environment(a, {}, {.python = "/sdk"}).at("PYTHONPATH") == "/sdk:/mine:/theirs");
  CHECK(rank_environment(a, {}).at("PYTHONPATH") == "/mine:/theirs");
}

TEST_CASE("where GPUs are given out a run sees its own and no others") {
  Assignment a = assignment();
  a.spec.environment_variables["CUDA_VISIBLE_DEVICES"] = "0,1,2,3";
  CHECK(rank_environment(a, {}).at("CUDA_VISIBLE_DEVICES") == "0,1,2,3");
  a.gives_gpus = true;
  CHECK(rank_environment(a, {}).at("CUDA_VISIBLE_DEVICES").empty());
  a.gpus = {1, 3};
  CHECK(rank_environment(a, {}).at("CUDA_VISIBLE_DEVICES") == "1,3");
  CHECK(rank_environment(a, {}).at("CUDA_DEVICE_ORDER") == "PCI_BUS_ID");
}

TEST_CASE("parameters, named outputs and secrets are variables") {
  Assignment a = assignment();
  a.spec.parameters = {{"learning-rate", "0.1"}};
  a.spec.outputs = {{"model", "outputs/model/"}, {"score.txt", "outputs/score.txt"}};
  const auto variables =
      rank_environment(a, {}, {.work = "/job/work"}, {{"API_KEY", "s3cret"}, {"COLOR", "red"}});
  CHECK(variables.at("AZUREML_PARAMETER_learning_rate") == "0.1");
  CHECK(variables.at("AZURE_ML_OUTPUT_model") == "/job/work/outputs/model");
  CHECK(variables.at("AZURE_ML_OUTPUT_score_txt") == "/job/work/outputs/score.txt");
  CHECK(variables.at("API_KEY") == "s3cret");
  CHECK(variables.at("COLOR") == "red");
}

TEST_CASE("variables in arguments are filled in where the spec asks for it") {
  RunSpec spec;
  const Variables variables = {{"A", "1"}, {"LONG_2", "two words"}, {"EMPTY", ""}};
  struct Row {
    const char* word;
    const char* expanded;
  };
  const Row rows[] = {
      {"$A", "1"},
      {"${A}", "1"},
      {"x$A/y${LONG_2}z", "x1/ytwo wordsz"},
      {"$AB", "$AB"},
      {"$NOPE", "$NOPE"},
      {"${NOPE}", "${NOPE}"},
      {"$", "$"},
      {"a$", "a$"},
      {"${A", "${A"},
      {"$$A", "$1"},
      {"$1", "$1"},
      {"${}", "${}"},
      {"[$EMPTY]", "[]"},
      {"$A$A", "11"},
      {"${A}}", "1}"},
      {"no words", "no words"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.word);
    spec.command = {row.word};
    spec.form = CommandForm::expand;
    CHECK(rank_command(spec, variables) == std::vector<std::string>{row.expanded});
    spec.form = CommandForm::exec;
    CHECK(rank_command(spec, variables) == std::vector<std::string>{row.word});
  }
}

TEST_CASE("a text for the shell goes to bash, or to sh where there is no bash") {
  TempDir dir;
  RunSpec spec;
  spec.form = CommandForm::shell;
  spec.command = {"echo $A"};
  const Variables bare = {{"PATH", dir.path().string()}};
  CHECK(rank_command(spec, bare) == std::vector<std::string>{"sh", "-c", "echo $A"});
  REQUIRE(write_file(dir.path() / "bash", "#!/bin/sh\n", 0755, Durable::no));
  CHECK(rank_command(spec, bare) == std::vector<std::string>{"bash", "-c", "echo $A"});
}

TEST_CASE("on a cluster a rank has its node's variables, not the submitter's") {
  Assignment a = assignment();
  a.spec.target = "lab";
  const auto variables = rank_environment(
      a, {},
      {.work = "/node/run-1.1/work",
       .node_variables = {{"PATH", "/node/bin"}, {"SLURMD_NODENAME", "n1"}, {"COLOR", "x"}}});
  CHECK(variables.at("PATH") == "/node/bin");
  CHECK(variables.at("SLURMD_NODENAME") == "n1");
  CHECK(!variables.contains("HOME"));
  CHECK(variables.at("COLOR") == "blue");  // What the job declares wins.
  CHECK(fs::path(variables.at("TRAINYARD_PROGRAM")) == self_path().value());
  CHECK(variables.at("TRAINYARD_PACKAGES") == "/node/.packages");
  CHECK(!rank_environment(assignment(), {}, {}).contains("TRAINYARD_PROGRAM"));
}
