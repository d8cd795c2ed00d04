#include "container/docker_config.h"

#include <doctest/doctest.h>

namespace trainyard::container {
namespace {

using wire::Json;
using Variables = std::map<std::string, std::string>;

const Here kHere{.account = {.uid = 1000, .gid = 100, .name = {}, .groups = {100, 44}},
                 .shm_bytes = int64_t{4} << 30};

Json config_of(const Plan& plan, const EngineAddress& engine = {},
               const Variables& variables = {}) {
  const auto config = container_config(plan, engine, kHere, variables, Init::no);
  REQUIRE_MESSAGE(config.has_value(), (config ? "" : config.error().message));
  return *config;
}

Plan simple() {
  Plan plan;
  plan.image = "sha256:1";
  plan.command = {"true"};
  plan.mark = "mark";
  return plan;
}

}  // namespace

TEST_CASE("a container is the submitter's, on the machine's network, and keeps no log of its own") {
  const Json config = config_of(simple());
  CHECK(config["User"] == "1000:100");
  CHECK(config["Labels"]["trainyard.mark"] == "mark");
  CHECK(config["HostConfig"]["NetworkMode"] == "host");
  CHECK(config["HostConfig"]["LogConfig"]["Type"] == "none");
  CHECK(config["HostConfig"]["GroupAdd"] == Json::array({"100", "44"}));
  CHECK_FALSE(config["HostConfig"].contains("Init"));
  CHECK_FALSE(config["HostConfig"].contains("Memory"));
  CHECK_FALSE(config.contains("WorkingDir"));
}

TEST_CASE("in an engine of a person's own the person's files stay the person's") {
  const Json docker = config_of(simple(), {.rootless = true});
  CHECK(docker["User"] == "0:0");
  const Json podman = config_of(simple(), {.podman = true, .rootless = true});
  CHECK(podman["User"] == "1000:100");
  CHECK(podman["HostConfig"]["UsernsMode"] == "keep-id");
}

TEST_CASE("a container upon another begins with what that one left") {
  Plan plan = simple();
  CHECK(config_of(plan)["Image"] == "sha256:1");
  plan.upon = "other";
  CHECK(config_of(plan)["Image"] == kept_image("other"));
}

TEST_CASE("limits are the plan's, and memory has no swap beside it") {
  Plan plan = simple();
  plan.memory_bytes = 1 << 30;
  plan.cpus = 3;
  const Json host = config_of(plan)["HostConfig"];
  CHECK(host["Memory"] == 1 << 30);
  CHECK(host["MemorySwap"] == 1 << 30);
  CHECK(host["NanoCpus"] == 3'000'000'000);
}

TEST_CASE("shared memory is the machine's, unless more of it is asked for or one's own") {
  Plan plan = simple();
  Json host = config_of(plan)["HostConfig"];
  CHECK(host["IpcMode"] == "host");
  CHECK_FALSE(host.contains("ShmSize"));
  plan.shm_size = "2g";
  CHECK(config_of(plan)["HostConfig"]["IpcMode"] == "host");
  plan.shm_size = "5g";
  host = config_of(plan)["HostConfig"];
  CHECK(host["ShmSize"] == int64_t{5} << 30);
  CHECK_FALSE(host.contains("IpcMode"));
  plan.arguments = {"--shm-size", "1g", "--ipc", "private"};
  host = config_of(plan)["HostConfig"];
  CHECK(host["ShmSize"] == int64_t{1} << 30);
  CHECK(host["IpcMode"] == "private");
  plan.arguments = {"--ipc", "host"};
  CHECK_FALSE(config_of(plan)["HostConfig"].contains("ShmSize"));
}

TEST_CASE("only variables that are named go inside, and those of mpirun and the mark") {
  Plan plan = simple();
  plan.variables = {"A", "GONE"};
  plan.arguments = {"-e", "B=2", "-e", "C", "-e", "A=mine"};
  const Variables ours = {{"A", "1"},
                          {"C", "3"},
                          {"HIDDEN", "x"},
                          {"OMPI_COMM_WORLD_RANK", "0"},
                          {"TRAINYARD_ATTEMPT_MARK", "m"}};
  CHECK(config_of(plan, {}, ours)["Env"] ==
        Json::array({"A=mine", "B=2", "C=3", "NVIDIA_VISIBLE_DEVICES=void",
                     "OMPI_COMM_WORLD_RANK=0", "TRAINYARD_ATTEMPT_MARK=m"}));
}

TEST_CASE("a person is known inside by name, and root is not told who he is") {
  const auto env = [](unsigned uid, const EngineAddress& engine) {
    Here here = kHere;
    here.account.uid = uid;
    here.account.name = "ada";
    return container_config(simple(), engine, here, {}, Init::no).value()["Env"];
  };
  const Json known = Json::array({"LOGNAME=ada", "NVIDIA_VISIBLE_DEVICES=void", "USER=ada"});
  CHECK(env(1000, {}) == known);
  CHECK(env(1000, {.podman = true, .rootless = true}) == known);
  const Json unknown = Json::array({"NVIDIA_VISIBLE_DEVICES=void"});
  CHECK(env(0, {}) == unknown);
  CHECK(env(1000, {.rootless = true}) == unknown);
}

TEST_CASE("a person's own podman hands on the groups that the person has") {
  const auto config =
      container_config(simple(), {.podman = true, .rootless = true}, kHere, {}, Init::no);
  CHECK(config.value()["HostConfig"]["GroupAdd"] == Json::array({"keep-groups"}));
}

TEST_CASE("what the image says of itself holds though its engine has it as a mere folder") {
  Plan plan = simple();
  plan.config.variables = {"A=image", "B=image=x", "NO_VALUE"};
  plan.config.folder = "/app";
  plan.variables = {"A"};
  const Json config = config_of(plan, {}, {{"A", "run"}});
  CHECK(config["Env"] == Json::array({"A=run", "B=image=x", "NVIDIA_VISIBLE_DEVICES=void"}));
  CHECK(config["WorkingDir"] == "/app");
  plan.folder = "/work";
  CHECK(config_of(plan)["WorkingDir"] == "/work");
  plan.arguments = {"--workdir", "/asked"};
  CHECK(config_of(plan)["WorkingDir"] == "/asked");
}

TEST_CASE("ranks of mpirun have the machine's numbers of processes, and so each its own") {
  const auto host = [](const Variables& ours) {
    return container_config(simple(), {}, kHere, ours, Init::yes).value()["HostConfig"];
  };
  CHECK(host({{"OMPI_COMM_WORLD_RANK", "1"}})["PidMode"] == "host");
  CHECK(host({{"PMIX_RANK", "1"}})["PidMode"] == "host");
  CHECK_FALSE(host({{"PMIX_RANK", "1"}}).contains("Init"));
  CHECK_FALSE(host({{"OMPI_MCA_btl", "self"}, {"RANK", "1"}}).contains("PidMode"));
  CHECK(host({})["Init"] == true);
}

TEST_CASE("a path that the user binds too is the user's") {
  Plan plan = simple();
  plan.binds = {{"/a", "/data", false}, {"/w", "/w", false}};
  plan.arguments = {"-v", "/mine:/data:ro"};
  const Json mounts = config_of(plan)["HostConfig"]["Mounts"];
  REQUIRE(mounts.size() == 2);
  CHECK(mounts[0]["Source"] == "/w");
  CHECK(mounts[1]["Source"] == "/mine");
  CHECK(mounts[1]["ReadOnly"] == true);
}

TEST_CASE("podman is told of both limits that it forgets as soon as one is given") {
  Plan plan = simple();
  CHECK_FALSE(config_of(plan, {.podman = true})["HostConfig"].contains("Ulimits"));
  plan.arguments = {"--ulimit", "memlock=-1"};
  CHECK(config_of(plan)["HostConfig"]["Ulimits"].size() == 1);
  CHECK(config_of(plan, {.podman = true})["HostConfig"]["Ulimits"].size() == 3);
  plan.arguments = {"--ulimit", "nofile=5", "--ulimit", "nproc=6"};
  CHECK(config_of(plan, {.podman = true})["HostConfig"]["Ulimits"].size() == 2);
}

TEST_CASE("GPUs come when they are asked for, and are counted from 0 inside") {
  Plan plan = simple();
  const Variables ours = {{"CUDA_VISIBLE_DEVICES", "2,3"}};
  CHECK_FALSE(config_of(plan, {}, ours)["HostConfig"].contains("DeviceRequests"));
  plan.variables = {"CUDA_VISIBLE_DEVICES"};
  plan.gpus = true;
  Json config = config_of(plan, {}, ours);
  CHECK(config["HostConfig"]["DeviceRequests"][0]["DeviceIDs"] == Json::array({"2", "3"}));
  CHECK(config["Env"] == Json::array({"CUDA_VISIBLE_DEVICES=0,1"}));
  CHECK_FALSE(config["HostConfig"].contains("Devices"));
  config = config_of(plan, {.podman = true}, ours);
  CHECK(config["HostConfig"]["Devices"][1]["PathOnHost"] == "nvidia.com/gpu=3");
  CHECK_FALSE(config["HostConfig"].contains("DeviceRequests"));
  config = config_of(plan, {}, {{"CUDA_VISIBLE_DEVICES", "GPU-1b"}});
  CHECK(config["Env"] == Json::array({"CUDA_VISIBLE_DEVICES=GPU-1b"}));
  plan.gpus = false;
  plan.arguments = {"--gpus", "all"};
  CHECK(config_of(plan)["HostConfig"]["DeviceRequests"][0]["Count"] == -1);
  plan.arguments = {"--gpus", "2"};
  CHECK(config_of(plan)["HostConfig"]["DeviceRequests"][0]["Count"] == 2);
}

}  // namespace trainyard::container
