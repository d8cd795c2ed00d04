// The table of a v2 command job's keys; docs/dialects/job.md shows it.
#include <array>

#include "dialects/job.h"
#include "dialects/key_words.h"

namespace trainyard::dialects {
namespace {

constexpr std::string_view kTensorflowJob = "distribution.type is tensorflow";
constexpr std::string_view kRay = "distribution.type is ray";
constexpr std::string_view kSweeps = "sweeps";
constexpr std::string_view kPipelines = "pipelines";

constexpr auto kJobKeys = std::to_array<Key>({
    {"$schema", kText, kNoEffect, "*", "for editors"},
    {"type", kText, kWorks, "command",
     "`command`; files of other types are refused by their names"},
    {"name", kText, kWorks, "", "the run's id; none: a new one"},
    {"display_name", kText, kWorks, "", "the run's name for the reader"},
    {"experiment_name", kText, kWorks, "",
     "none: the attached one, else the current folder's name"},
    {"description", kText, kWorks, "", "a text, Markdown"},
    {"tags", kMap, kWorks, "", "kept as texts"},
    {"tags.*", kText, kWorks, "", ""},
    {"properties", kMap, kWorks, "", "as tags, but never changed"},
    {"properties.*", kText, kWorks, "", ""},
    {"command", kText, kWorks, "",
     "a text for `bash -c`, with `${{…}}` filled in; an image or a Dockerfile has its own"},
    {"preparation", kText, kWorks, "",
     "our own: a text for the shell, once on each node before the command"},
    {"code", kText, kWorks, "", "the folder to take along, from the job file's own"},
    {"environment", kAny, kWorks, "system",
     "`azureml:NAME:VERSION`, `azureml:NAME@latest`, `NAME`, a registry's URL (by the name in it), "
     "`file:PATH`, `system`; or the keys below"},
    {"environment.image", kText, kWorks, "", "an image"},
    {"environment.conda_file", kAny, kWorks, "",
     "a conda file, its path or its content; with an image: put upon it"},
    {"environment.requirements", kText, kWorks, "", "our own: a requirements file, likewise"},
    {"environment.build.path", kText, kWorks, "",
     "the folder of a Dockerfile, in place of an image"},
    {"environment.build.dockerfile_path", kText, kWorks, "Dockerfile", "the Dockerfile in it"},
    {"environment.environment_variables", kMap, kWorks, "", "our own: variables of its runs"},
    {"environment.environment_variables.*", kText, kWorks, "", ""},
    {"environment.$schema", kText, kNoEffect, "*", "for editors"},
    {"environment.name", kText, kWorks, "*", "alone: a registered or curated environment"},
    {"environment.version", kText, kWorks, "*", "which version of it"},
    {"environment.description", kText, kWorks, "*", "for the reader"},
    {"environment.tags", kMap, kNoEffect, "*", "for the reader"},
    {"environment.properties", kMap, kNoEffect, "*", "for the reader"},
    {"environment.os_type", kText, kNoEffect, "linux", "every node is"},
    {"environment.inference_config", kMap, kNoEffect, "*", kNotHere},
    {"environment_variables", kMap, kWorks, "", "variables of the run, with `${{…}}` filled in"},
    {"environment_variables.*", kText, kWorks, "", ""},
    {"compute", kText, kWorks, "local", "where it runs: `NAME` or `azureml:NAME`"},
    {"distribution.type", kText, kWorks, "", "`pytorch`, `mpi` or `tensorflow`; ray comes later"},
    {"distribution.process_count_per_instance", kWhole, kWorks, "1", "ranks on each node"},
    {"distribution.worker_count", kWhole, kWorks, "",
     "workers on all nodes together; none: one on each", kTensorflowJob},
    {"distribution.parameter_server_count", kWhole, kWorks, "0",
     "parameter servers on all nodes together", kTensorflowJob},
    {"distribution.address", kText, kLater, "*", "Ray", kRay},
    {"distribution.port", kWhole, kLater, "*", "Ray", kRay},
    {"distribution.dashboard_port", kWhole, kLater, "*", "Ray", kRay},
    {"distribution.include_dashboard", Type::boolean, kLater, "*", "Ray", kRay},
    {"distribution.head_node_additional_args", kText, kLater, "*", "Ray", kRay},
    {"distribution.worker_node_additional_args", kText, kLater, "*", "Ray", kRay},
    {"resources.instance_count", kWhole, kWorks, "1", "nodes"},
    {"resources.instance_type", kAny, kNoEffect, "", "the target decides"},
    {"resources.shm_size", kText, kWorks, "", "the size of /dev/shm in a container"},
    {"resources.docker_args", kAny, kWorks, "",
     "as `docker run` takes them, a text or a list; without a container, `-v` binds folders for "
     "the run alone"},
    {"resources.locations", kList, kNoEffect, "", "the target decides"},
    {"resources.max_instance_count", kWhole, kNoEffect, "1", "a run has the nodes it asks for"},
    {"resources.properties", kMap, kNoEffect, "", kNotHere},
    {"resources.cpus", kWhole, kWorks, "1", "our own: CPUs on each node"},
    {"resources.gpus", kWhole, kWorks, "0", "our own: GPUs on each node"},
    {"resources.memory", kText, kWorks, "", "our own: memory on each node, as in `4G`"},
    {"limits.timeout", kWhole, kWorks, "", "seconds, then the run is canceled"},
    {"limits.max_total_trials", kWhole, kLater, "", kSweeps},
    {"limits.max_concurrent_trials", kWhole, kLater, "", kSweeps},
    {"limits.trial_timeout", kWhole, kLater, "", kSweeps},
    {"inputs", kMap, kWorks, "", "parameters of the run"},
    {"inputs.*", kAny, kWorks, "", "a number, true or false, or a text; or the keys below"},
    {"inputs.*.type", kText, kWorks, "",
     "`number`, `integer`, `boolean`, `string`; data comes later"},
    {"inputs.*.value", kText, kWorks, "", "the value"},
    {"inputs.*.default", kText, kWorks, "", "the value, if there is no `value`"},
    {"inputs.*.path", kText, kLater, "*", "data inputs"},
    {"inputs.*.mode", kText, kLater, "*", "data inputs"},
    {"inputs.*.description", kText, kNoEffect, "*", "for the reader"},
    {"inputs.*.optional", Type::boolean, kNoEffect, "*", "a value is needed where it is used"},
    {"inputs.*.min", Type::number, kNoEffect, "", "is not looked at"},
    {"inputs.*.max", Type::number, kNoEffect, "", "is not looked at"},
    {"inputs.*.enum", kList, kNoEffect, "", "is not looked at"},
    {"outputs", kMap, kWorks, "", "named folders and files in `outputs/`"},
    {"outputs.*", kAny, kWorks, "", "empty, or the keys below"},
    {"outputs.*.type", kText, kWorks, "uri_folder", "`uri_file` is a file, all others a folder"},
    {"outputs.*.mode", kText, kNoEffect, "*", "outputs are kept at the end of the run"},
    {"outputs.*.path", kText, kLater, "", "datastores"},
    {"outputs.*.name", kText, kLater, "", "registering an output"},
    {"outputs.*.version", kText, kLater, "", "registering an output"},
    {"outputs.*.description", kText, kNoEffect, "*", "for the reader"},
    {"queue_settings.priority", kText, kWorks, "medium", "`low`, `medium` or `high`"},
    {"queue_settings.job_tier", kText, kNoEffect, "null", "there are no tiers"},
    {"services", kMap, kLater, "", "interactive services"},
    {"identity", kMap, kNoEffect, "", "a run is whoever submitted it"},
    {"component", kAny, kLater, "", kPipelines},
    {"jobs", kMap, kLater, "", kPipelines},
    {"settings", kMap, kLater, "", kPipelines},
    {"trial", kAny, kLater, "", kSweeps},
    {"search_space", kMap, kLater, "", kSweeps},
    {"objective", kMap, kLater, "", kSweeps},
    {"sampling_algorithm", kAny, kLater, "", kSweeps},
    {"early_termination", kMap, kLater, "", kSweeps},
});

bool job_holds(std::string_view condition, const Node& root) {
  const Node* type = at(root, "distribution.type");
  return type != nullptr && condition.ends_with(" " + type->text);
}

constexpr Dialect kJobDialect = {"job", kJobKeys, Dialect::Spelling::exact, job_holds};

}  // namespace

const KeyTable& job_keys() {
  static const KeyTable table(kJobDialect);
  return table;
}

}  // namespace trainyard::dialects
