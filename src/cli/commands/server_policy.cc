// What each role may ask of the machines that build and run environments.
#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"

namespace trainyard::cli {
namespace {

constexpr Option kPolicySet[] = {
    {"--role", Takes::value, "ROLE", "Whose policy (default: submitter)."},
    {"--host-path", Takes::value, "PATH[:ro]",
     "A path of a run's machine that containers may mount; again for more, '' for none."},
    {"--image-folder", Takes::value, "DIR",
     "A folder of the server's machine that images may be taken from; again for more."},
    {"--capability", Takes::value, "NAME", "One that --cap-add may name; again for more."},
    {"--device", Takes::value, "PATH",
     "One that --device may name, or 'gpus' for --gpus all; again for more."},
    {"--network", Takes::value, "NAME", "One that --network may name; again for more."},
    {"--user", Takes::value, "USER", "One that --user may name: root; again for more."},
};

constexpr std::pair<const char*, const char*> kPolicyKeys[] = {
    {"host-path", "hostPaths"}, {"image-folder", "imageFolders"}, {"capability", "capabilities"},
    {"device", "devices"},      {"network", "networks"},          {"user", "users"},
};

std::string policy_cell(const Json& policy, const char* key) {
  std::vector<std::string> words;
  for (const Json& word : wire::member(policy, key)) {
    if (word.is_string()) words.push_back(word.get<std::string>());
  }
  return words.empty() ? "-" : join(words, " ");
}

View policy_view() {
  return {.table =
              [](const Json& value) {
                Table table{{"ROLE", "HOST PATHS", "IMAGE FOLDERS", "CAPABILITIES", "DEVICES",
                             "NETWORKS", "USERS"},
                            {}};
                const auto add = [&](const Json& policy) {
                  std::vector<std::string> row = {cell_of(policy, "role")};
                  for (const auto& [option, key] : kPolicyKeys) {
                    row.push_back(policy_cell(policy, key));
                  }
                  table.rows.push_back(std::move(row));
                };
                if (value.is_object()) {
                  add(value);
                } else {
                  for (const Json& policy : value) add(policy);
                }
                return table;
              },
          .text = {}};
}

// Each option that is given replaces its list; a value may be several words.
Json policy_changes(const Args& args) {
  Json changes = Json::object();
  for (const auto& [option, key] : kPolicyKeys) {
    if (!args.has(option)) continue;
    Json list = Json::array();
    for (const std::string& value : args.values(option)) {
      if (!value.empty()) list.push_back(value);
    }
    changes[key] = std::move(list);
  }
  return changes;
}

}  // namespace

constinit const std::span<const Option> kServerPolicySetOptions = kPolicySet;

Result<int> server_policy_show(Context& context) {
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json policies, api->policies());
  TRY(context.print(policies, policy_view()));
  return kExitOk;
}

Result<int> server_policy_set(Context& context) {
  const Args& args = context.args();
  const Json changes = policy_changes(args);
  if (changes.empty()) {
    return fail(ErrorKind::invalid, "nothing to set", "As in: --host-path /data");
  }
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json policy,
          api->set_policy(args.has("role") ? args.value("role") : "submitter", changes));
  TRY(context.print(policy, policy_view()));
  return kExitOk;
}

}  // namespace trainyard::cli
