// Computes made and changed, in the words of either generation.
#include <cstdlib>

#include "cli/commands/commands.h"
#include "cli/compute_options.h"
#include "cli/compute_view.h"
#include "cli/exit.h"
#include "dialects/compute.h"

namespace trainyard::cli {
namespace {

constexpr std::string_view kOfAzure = "Taken from scripts for Azure; without meaning here.";

constexpr Option kCreateOptions[] = {
    {"--name -n", Takes::value, "TEXT", "Its name; else the file's."},
    {"--file -f", Takes::value, "FILE", "A compute file; options win over it."},
    {"--set", Takes::list, "K=V", "Put this in the place of what the file says: max_instances=4"},
    {"--type -t", Takes::value, "TYPE", "amlcompute: a cluster; there is no other."},
    {"--engine", Takes::value, "NAME",
     "slurm, or local: slots of the server's machine; else what it has."},
    {"--no-wait", Takes::nothing, "", "Taken from scripts for Azure; it takes no time here."},
    {"--location -l", Takes::value, "PLACE", kOfAzure},
    {"--tags --description", Takes::list, "TEXT", kOfAzure},
    {"--vnet-name --subnet", Takes::value, "TEXT", kOfAzure},
    {"--admin-username --admin-password --ssh-key-value", Takes::value, "TEXT", kOfAzure},
    {"--identity-type --user-assigned-identities", Takes::list, "TEXT", kOfAzure},
};
constexpr Option kFirstCreateOptions[] = {
    {"--name -n", Takes::value, "TEXT", "Its name."},
    {"--engine", Takes::value, "NAME",
     "slurm, or local: slots of the server's machine; else what it has."},
    {"--no-wait", Takes::nothing, "", "Taken from scripts for Azure; it takes no time here."},
    {"--location -l", Takes::value, "PLACE", kOfAzure},
    {"--tags --tag --description", Takes::list, "TEXT", kOfAzure},
    {"--vnet-name --vnet-resourcegroup-name --subnet-name", Takes::value, "TEXT", kOfAzure},
    {"--admin-username --admin-user-password --admin-user-ssh-key", Takes::value, "TEXT", kOfAzure},
    {"--remote-login-port-public-access", Takes::value, "WORD", kOfAzure},
    {"--identity-type --assign-identity", Takes::list, "TEXT", kOfAzure},
};
constexpr Option kUpdateOptions[] = {
    {"--name -n", Takes::value, "NAME", "The compute."},
    {"--set", Takes::list, "K=V", "Change what a compute file calls so: max_instances=4"},
    {"--no-wait", Takes::nothing, "", "Taken from scripts for Azure; it takes no time here."},
};

// What people may think they have got: said, not only left out.
void warn_of_azure(const Context& context) {
  const Args& args = context.args();
  const auto warn = [&](std::string_view key, std::string_view why) {
    if (args.knows(key) && args.has(key)) context.warn(why);
  };
  warn("tags", "tags and description of a compute are not kept");
  warn("vnet-name", "the network is the cluster's own; what is said of one has no effect");
  warn("admin-username",
       "accounts on nodes are the cluster's own; what is said of one has no effect");
  warn("remote-login-port-public-access", "how nodes are reached is the cluster's own; no effect");
  warn("identity-type", "a run is whoever submitted it; what is said of identities has no effect");
}

Status check_type(const Args& args) {
  if (!args.knows("type") || !args.has("type") || args.value("type") == "amlcompute") return {};
  return fail(ErrorKind::invalid, "type '" + args.value("type") + "' is not made here",
              "Types: amlcompute, a cluster.");
}

Result<ComputeSpec> read_file_of(const Context& context, ComputeSpec spec) {
  const Args& args = context.args();
  const bool has_file = args.knows("file") && args.has("file");
  if (!has_file && !args.has("set")) return spec;
  dialects::ComputeAsk ask{.file = {}, .sets = args.values("set")};
  if (has_file) ask.file = args.value("file");
  TRY_SET(dialects::ComputeFile found, dialects::load_compute(ask, std::move(spec)));
  for (const std::string& warning : found.warnings) context.warn(warning);
  return std::move(found.spec);
}

// Slurm's own file as it is here; that of a login machine is that machine's business.
std::string slurm_conf(const ComputeSpec& spec) {
  const char* file = std::getenv("SLURM_CONF");
  if (file == nullptr || *file == '\0' || !spec.ssh.empty()) return {};
  std::error_code ignored;
  return fs::absolute(file, ignored).lexically_normal();
}

Result<ComputeSpec> finish_spec(const Context& context, ComputeSpec spec) {
  const Args& args = context.args();
  TRY_SET(spec, with_settings(args, std::move(spec)));
  if (args.has("name") || !args.words().empty()) {
    TRY_SET(spec.name, chosen_compute(context));
  }
  if (spec.name.empty()) {
    return fail(ErrorKind::invalid, "the compute has no name", "Give one with -n NAME.");
  }
  if (args.has("engine")) spec.engine = args.value("engine");
  if (spec.engine != "local") spec.slurm_conf = slurm_conf(spec);
  // Without one the server chooses it: whether there is Slurm is seen there.
  ComputeSpec checked = spec;
  if (checked.engine.empty()) checked.engine = "slurm";
  TRY(check_compute(checked));
  return spec;
}

// Another of that name with other settings: the second generation is told so, the first changes
// those that are given.
enum class IfOther { refuse, update };

Result<Json> create_or_update(const Context& context, client::Api& api,
                              const std::string& workspace, const ComputeSpec& spec) {
  Result<Json> made = api.create_compute(workspace, spec);
  if (made || made.error().kind != ErrorKind::conflict) return made;
  const Result<Json> there = api.compute(workspace, spec.name);
  if (!there) return made;
  TRY_SET(const ComputeSpec before, wire::decode_compute_spec(*there));
  TRY_SET(ComputeSpec after, with_settings(context.args(), before));
  if (context.args().has("engine")) after.engine = context.args().value("engine");
  const Json changes = changes_between(before, after);
  return changes.empty() ? there : api.change_compute(workspace, spec.name, changes);
}

Result<int> create(Context& context, const ComputeSpec& spec, IfOther if_other) {
  warn_of_azure(context);
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json compute, if_other == IfOther::update
                                  ? create_or_update(context, *api, workspace, spec)
                                  : api->create_compute(workspace, spec));
  if (const std::string trouble = cell_of(compute, "trouble"); !trouble.empty()) {
    context.warn(trouble + ". The compute is made; runs wait until it answers.");
  }
  TRY(context.print(shaped_compute(context, compute), compute_view(compute)));
  return kExitOk;
}

}  // namespace

constinit const std::span<const Option> kComputeCreateOptions = kCreateOptions;
constinit const std::span<const Option> kComputetargetCreateOptions = kFirstCreateOptions;
constinit const std::span<const Option> kComputeUpdateOptions = kUpdateOptions;

Result<int> compute_create(Context& context) {
  constexpr int64_t kIdleSeconds = 120;
  TRY(check_type(context.args()));
  ComputeSpec spec{.engine = "", .idle_seconds = kIdleSeconds};
  TRY_SET(spec, read_file_of(context, std::move(spec)));
  TRY_SET(spec, finish_spec(context, std::move(spec)));
  return create(context, spec, IfOther::refuse);
}

Result<int> computetarget_create_amlcompute(Context& context) {
  constexpr int64_t kIdleSeconds = 1800;
  for (const std::string_view needed : {"vm-size", "max-nodes"}) {
    if (context.args().has(needed)) continue;
    return fail(ErrorKind::invalid, "--" + std::string(needed) + " is missing",
                "As in: trainyard computetarget create amlcompute -n NAME -s STANDARD_D3_V2 "
                "--max-nodes 4");
  }
  TRY_SET(const ComputeSpec spec,
          finish_spec(context, ComputeSpec{.engine = "", .idle_seconds = kIdleSeconds}));
  return create(context, spec, IfOther::update);
}

Result<int> compute_update(Context& context) {
  const Args& args = context.args();
  TRY_SET(const std::string name, chosen_compute(context));
  if (!has_settings(args) && !args.has("set")) {
    return fail(ErrorKind::invalid, "nothing to change", "As in: --max-nodes 8");
  }
  // What is wrong by itself is found before anybody is asked.
  TRY(with_settings(args, {}));
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(Json compute, api->compute(workspace, name));
  TRY_SET(const ComputeSpec before, wire::decode_compute_spec(compute));
  TRY_SET(ComputeSpec after, read_file_of(context, before));
  TRY_SET(after, with_settings(args, std::move(after)));
  const Json changes = changes_between(before, after);
  if (!changes.empty()) {
    TRY_SET(compute, api->change_compute(workspace, name, changes));
  }
  TRY(context.print(shaped_compute(context, compute), compute_view(compute)));
  return kExitOk;
}

}  // namespace trainyard::cli
