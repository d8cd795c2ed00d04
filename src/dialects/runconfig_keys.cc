// The table of a .runconfig's keys; docs/dialects/runconfig.md shows it.
#include <algorithm>
#include <array>
#include <cctype>

#include "dialects/key_words.h"
#include "dialects/runconfig.h"
#include "dialects/scalar.h"

namespace trainyard::dialects {
namespace {

constexpr std::string_view kDocker = "docker is on";
constexpr std::string_view kManaged = "userManagedDependencies is false";
constexpr std::string_view kMpi = "communicator is Mpi";
constexpr std::string_view kPytorch = "communicator is Nccl or Gloo";
constexpr std::string_view kTensorflow = "communicator is ParameterServer";
constexpr std::string_view kParallel = "communicator is ParallelTask";
constexpr std::string_view kSpark = "framework is PySpark";
constexpr std::string_view kOwnCluster = "target is amlcompute";
constexpr std::string_view kContainerInstance = "target is containerinstance";

constexpr std::string_view kData = "datasets and datastores";

constexpr auto kRunconfigKeys = std::to_array<Key>({
    {"script", kText, kWorks, "",
     "the script, from the source folder; without one or a `command`, an image runs its own"},
    {"arguments", kTexts, kWorks, "", "for the script; `$VAR` is replaced on the node"},
    {"command", kAny, kWorks, "", "instead of `script`: a text for the shell, or a list of words"},
    {"target", kText, kWorks, "local", "where it runs"},
    {"framework", kText, kWorks, "Python",
     "Python, PyTorch, TensorFlow, CNTK or PythonMpi; PySpark comes later"},
    {"communicator", kText, kWorks, "None",
     "None; Nccl or Gloo for PyTorch's ranks; Mpi (OpenMpi, IntelMpi); ParameterServer for "
     "TensorFlow's"},
    {"autoPrepareEnvironment", kBool, kNoEffect, "true|false", "deprecated"},
    {"prepareEnvironment", kBool, kNoEffect, "true|false", "deprecated"},
    {"maxRunDurationSeconds", kWhole, kWorks, "", "the time limit"},
    {"nodeCount", kWhole, kWorks, "1", "nodes"},
    {"priority", kWhole, kWorks, "", "below 0 is low, 0 normal, above 0 high"},
    {"jobName", kText, kWorks, "", "the run's display name"},
    {"environmentVariables", kMap, kWorks, "", "variables of the run; win over the environment's"},
    {"environmentVariables.*", kText, kWorks, "", ""},
    {"environment.name", kText, kWorks, "default-environment",
     "a registered or curated environment, if nothing else is said of it"},
    {"environment.version", kText, kWorks, "", "which version of it; none: the latest"},
    {"environment.environmentVariables", kMap, kWorks, "", "variables of the run"},
    {"environment.environmentVariables.*", kText, kWorks, "", ""},
    {"environment.python.userManagedDependencies", kBool, kWorks, "false",
     "true: the interpreter below, as it is"},
    {"environment.python.interpreterPath", kText, kWorks, "python",
     "the interpreter, if `userManagedDependencies` is true; else it is `python`"},
    {"environment.python.condaDependenciesFile", kText, kWorks, "",
     "a conda file of packages to install, from the project", kManaged, "", true},
    {"environment.python.condaDependencies", kAny, kWorks, "", "the same, written here", kManaged,
     "", true},
    {"environment.python.requirementsFile", kText, kWorks, "",
     "our own: a requirements file of packages to install", kManaged, "", true},
    {"environment.python.baseCondaEnvironment", kText, kWorks, "",
     "an environment of conda's on this machine: its Python, its packages, and yours upon them"},
    {"environment.docker.enabled", kBool, kWorks, "false", "true: the run is in a container"},
    {"environment.docker.baseImage", kText, kWorks, "*", "the image", kDocker},
    {"environment.docker.baseDockerfile", kText, kWorks, "*",
     "in its place a Dockerfile: its text, or its path", kDocker},
    {"environment.docker.buildContext.location", kText, kWorks, "*",
     "a folder with a Dockerfile, which the image is built from", kDocker},
    {"environment.docker.buildContext.dockerfilePath", kText, kWorks, "*",
     "the Dockerfile in it; else `Dockerfile`", kDocker},
    {"environment.docker.buildContext.locationType", kText, kNoEffect, "*",
     "a folder is one of this machine", kDocker},
    {"environment.docker.sharedVolumes", kBool, kNoEffect, "true|false", "found by itself", kDocker,
     "", true},
    {"environment.docker.gpuSupport", kBool, kNoEffect, "true|false", "found by itself", kDocker},
    {"environment.docker.shmSize", kText, kWorks, "*", "the size of /dev/shm", kDocker},
    {"environment.docker.arguments", kTexts, kWorks, "",
     "as `docker run` takes them; without docker, `-v` binds folders for the run alone"},
    {"environment.docker.baseImageRegistry.address", kText, kWorks, "*",
     "where an image comes from whose name has no registry", kDocker},
    {"environment.docker.baseImageRegistry.username", kText, kWorks, "*", "who asks there",
     kDocker},
    {"environment.docker.baseImageRegistry.password", kText, kWorks, "*",
     "sealed at once, and shown nowhere", kDocker},
    {"environment.docker.baseImageRegistry.secret", kText, kWorks, "*",
     "our own: the secret that is the password", kDocker},
    {"environment.docker.baseImageRegistry.registryIdentity", kAny, kRefused, "",
     "an identity that Azure manages", kDocker,
     "Give username and password: the password is sealed. Or keep it with `trainyard secret set` "
     "and name it under baseImageRegistry.secret."},
    {"environment.docker.platform", kAny, kNoEffect, "*", "found by itself", kDocker},
    {"environment.docker.preparation.commandLine", kText, kWorks, "",
     "a text for the shell, once on each node before the ranks, in the container", kDocker},
    {"environment.spark", kMap, kNoEffect, "*", kNotHere, kSpark},
    {"environment.databricks", kMap, kNoEffect, "", kNotHere},
    {"environment.inferencingStackVersion", kText, kNoEffect, "latest", kNotHere},
    {"environment.r", kAny, kNoEffect, "", kNotHere},
    {"docker.useDocker", kBool, kWorks, "false",
     "true: the run is in a container; wins over `environment.docker.enabled`"},
    {"docker.sharedVolumes", kBool, kNoEffect, "true|false", "found by itself", kDocker, "", true},
    {"docker.arguments", kTexts, kWorks, "", "in the place of `environment.docker.arguments`"},
    {"docker.shmSize", kText, kWorks, "*", "in the place of `environment.docker.shmSize`", kDocker},
    {"history.outputCollection", kBool, kWorks, "true", "false: `outputs/` is not kept"},
    {"history.snapshotProject", kBool, kNoEffect, "true", "the code of a run is always kept"},
    {"history.directoriesToWatch", kTexts, kLater, "[logs]|[./logs]",
     "watched folders beside `logs`"},
    {"history.enableMLflowTracking", kBool, kNoEffect, "true|false", kNotHere},
    {"history.ambientAuthentication", kMap, kNoEffect, "", kNotHere},
    {"spark.configuration", kMap, kNoEffect, "*", kNotHere, kSpark},
    {"hdi.yarnDeployMode", kText, kNoEffect, "cluster|None", kNotHere},
    {"tensorflow.workerCount", kWhole, kWorks, "1",
     "workers on all nodes together; none: one on each", kTensorflow},
    {"tensorflow.parameterServerCount", kWhole, kWorks, "1",
     "parameter servers on all nodes together", kTensorflow},
    {"mpi.processCountPerNode", kWhole, kWorks, "1", "ranks on each node", kMpi},
    {"mpi.nodeCount", kWhole, kWorks, "1", "nodes, if `nodeCount` does not say", kMpi},
    {"pytorch.communicationBackend", kText, kNoEffect, "nccl|gloo", "the script chooses it"},
    {"pytorch.processCount", kWhole, kWorks, "1", "ranks on all nodes together; none: one on each",
     kPytorch},
    {"pytorch.nodeCount", kWhole, kWorks, "1", "nodes, if `nodeCount` does not say", kPytorch},
    {"paralleltask.maxRetriesPerWorker", kWhole, kLater, "0", "parallel tasks", kParallel},
    {"paralleltask.workerCountPerNode", kWhole, kLater, "1", "parallel tasks", kParallel},
    {"paralleltask.terminalExitCodes", kList, kLater, "", "parallel tasks", kParallel},
    {"paralleltask.configuration", kMap, kLater, "", "parallel tasks", kParallel},
    {"data", kMap, kLater, "", kData},
    {"dataReferences", kMap, kLater, "", kData},
    {"outputData", kMap, kLater, "", kData},
    {"datacaches", kList, kNoEffect, "", "a preview of another service"},
    {"sourceDirectoryDataStore", kText, kNoEffect, "", "the server keeps the code"},
    {"amlcompute", kMap, kLater, "*", "a cluster of the run's own", kOwnCluster},
    {"kubernetescompute.instanceType", kText, kNoEffect, "", kNotHere},
    {"batchAi.nodeCount", kWhole, kNoEffect, "0|1", kNotHere},
    {"containerInstance", kMap, kLater, "*", "container instances", kContainerInstance},
    {"exposedPorts", kList, kLater, "", "ports of containers"},
    {"credentialPassthrough", kBool, kNoEffect, "false", "there are no credentials to pass on"},
    {"applicationEndpoints", kMap, kLater, "", "interactive services"},
    {"argumentVector", kTexts, kWorks, "", "2018: `script` and `arguments` in one list"},
    {"condaDependenciesFile", kText, kWorks, "", "2018: `environment.python.condaDependenciesFile`",
     kManaged, "", true},
    {"sparkDependenciesFile", kText, kNoEffect, "*", kNotHere, kSpark},
    {"trackedRun", kBool, kNoEffect, "true", "every run is kept"},
});

bool is_word(const Node& root, std::string_view path,
             std::initializer_list<std::string_view> words) {
  const Node* node = at(root, path);
  if (node == nullptr || !node->is_scalar()) return false;
  const auto same = [&](std::string_view word) {
    return std::equal(word.begin(), word.end(), node->text.begin(), node->text.end(),
                      [](char a, char b) { return std::tolower(a) == std::tolower(b); });
  };
  return std::any_of(words.begin(), words.end(), same);
}

bool is_on(const Node& root, std::string_view path) {
  const Node* node = at(root, path);
  return node != nullptr && as_bool(*node) == true;
}

bool runconfig_holds(std::string_view condition, const Node& root) {
  if (condition == kDocker) {
    const bool newer = at(root, "docker.useDocker") != nullptr;
    return is_on(root, newer ? "docker.useDocker" : "environment.docker.enabled");
  }
  if (condition == kManaged) return !is_on(root, "environment.python.userManagedDependencies");
  if (condition == kMpi) return is_word(root, "communicator", {"mpi", "openmpi", "intelmpi"});
  if (condition == kPytorch) return is_word(root, "communicator", {"nccl", "gloo"});
  if (condition == kTensorflow) return is_word(root, "communicator", {"parameterserver"});
  if (condition == kParallel) return is_word(root, "communicator", {"paralleltask"});
  if (condition == kSpark) return is_word(root, "framework", {"pyspark", "pysparkinteractive"});
  if (condition == kOwnCluster) return is_word(root, "target", {"amlcompute"});
  return is_word(root, "target", {"containerinstance"});
}

constexpr Dialect kRunconfigDialect = {"runconfig", kRunconfigKeys, Dialect::Spelling::free,
                                       runconfig_holds};

}  // namespace

const KeyTable& runconfig_keys() {
  static const KeyTable table(kRunconfigDialect);
  return table;
}

}  // namespace trainyard::dialects
