#include "dialects/environment_file.h"

#include "base/file.h"
#include "base/text.h"
#include "dialects/job.h"
#include "dialects/runconfig_environment.h"
#include "dialects/scalar.h"

namespace trainyard::dialects {
namespace {

constexpr std::string_view kFilePrefix = "file:";

bool looks_like_file(std::string_view text) {
  return text.starts_with("./") || text.starts_with("../") ||
         (text.find(':') == std::string_view::npos &&
          (text.ends_with(".yml") || text.ends_with(".yaml")));
}

// One map of image, conda_file and build.
class EnvironmentReader {
 public:
  EnvironmentReader(const Document& document, const Node& map, fs::path folder, Findings& findings,
                    EnvironmentDraft& into)
      : document_(document),
        map_(map),
        folder_(std::move(folder)),
        findings_(findings),
        into_(into) {}

  void read() {
    Environment& environment = into_.environment;
    environment.recipe.image = text("image");
    const Node* build = at(map_, "build");
    if (!environment.recipe.image.empty()) environment.recipe.kind = EnvironmentKind::container;
    if (build != nullptr) read_build(*build);
    into_.description = text("description");
    variables();
    packages();
  }

 private:
  std::string text(std::string_view key) const {
    const Node* node = at(map_, key);
    return node != nullptr && node->is_scalar() ? node->text : "";
  }

  void read_build(const Node& build) {
    if (!into_.environment.recipe.image.empty()) {
      return error(build, "build: there is an image too; keep one of them");
    }
    if (!build.is_map()) return;
    Recipe& recipe = into_.environment.recipe;
    recipe.kind = EnvironmentKind::container;
    const Node* path = at(build, "path");
    if (path == nullptr || !path->is_scalar()) return error(build, "build.path: is missing");
    const Node* named = at(build, "dockerfile_path");
    recipe.dockerfile = named != nullptr ? named->text : std::string(kDockerfile);
    if (folder_.empty()) return;
    into_.build = (folder_ / path->text).lexically_normal();
    std::error_code ignored;
    if (!fs::is_directory(into_.build, ignored)) {
      return error(*path, "build.path: '" + path->text + "' is no folder of " + folder_.string());
    }
    if (!is_file(into_.build / recipe.dockerfile)) {
      error(named != nullptr ? *named : *path,
            "build: there is no '" + recipe.dockerfile + "' in " + into_.build.string());
    }
  }

  void variables() {
    const Node* map = at(map_, "environment_variables");
    if (map == nullptr || !map->is_map()) return;
    for (const Node& variable : map->children) {
      into_.environment.variables[variable.key] = variable.text;
    }
  }

  void packages() {
    const Node* conda = at(map_, "conda_file");
    const Node* requirements = at(map_, "requirements");
    const bool built = at(map_, "build") != nullptr;
    if (built && (conda != nullptr || requirements != nullptr)) {
      return error(conda != nullptr ? *conda : *requirements,
                   "packages and build together: install them in the Dockerfile");
    }
    if (conda != nullptr && conda->is_map()) {
      said(add_conda(document_, *conda, into_.environment, warnings_));
    } else if (conda != nullptr && conda->is_scalar()) {
      add_file(*conda, "conda_file", add_conda);
    }
    if (requirements != nullptr && requirements->is_scalar()) {
      add_file(*requirements, "requirements", add_requirements);
    }
  }

  void add_file(const Node& node, const std::string& key,
                Status (*add)(const fs::path&, Environment&, Warnings&)) {
    if (folder_.empty()) return;
    std::string_view given = node.text;
    if (given.starts_with(kFilePrefix)) given.remove_prefix(kFilePrefix.size());
    const fs::path file = (folder_ / given).lexically_normal();
    if (!is_file(file)) {
      return error(node,
                   key + ": there is no file '" + std::string(given) + "' in " + folder_.string());
    }
    said(add(file, into_.environment, warnings_));
  }

  void said(const Status& status) {
    for (std::string& warning : warnings_) {
      findings_.push_back({Severity::warning, "", std::move(warning), {}});
    }
    warnings_.clear();
    if (status) return;
    findings_.push_back({Severity::error, "", status.error().message, status.error().hint});
  }
  void error(const Node& node, std::string message) {
    findings_.push_back({Severity::error,
                         document_.place(node.key_line != 0 ? node.key_line : node.line),
                         "environment: " + message,
                         {}});
  }

  const Document& document_;
  const Node& map_;
  const fs::path folder_;
  Findings& findings_;
  EnvironmentDraft& into_;
  Warnings warnings_;
};

// Keys against the table of a job's `environment`.
void read_map(const Document& document, const Node& map, const fs::path& folder, Findings& findings,
              EnvironmentDraft& into) {
  EnvironmentReader(document, map, folder, findings, into).read();
  const Environment& environment = into.environment;
  if (environment.recipe != Recipe{} || has_errors(findings)) return;
  // A name alone is one of the registry's.
  const Node* name = at(map, "name");
  if (name == nullptr || !name->is_scalar()) return;
  into.environment.name = name->text;
  const Node* version = at(map, "version");
  if (version != nullptr) into.environment.version = version->text;
}

void read_other_file(const Document& document, const Node& value, const fs::path& file,
                     Findings& findings, EnvironmentDraft& into) {
  const std::string place = document.place(value.key_line != 0 ? value.key_line : value.line);
  if (!is_file(file)) {
    findings.push_back({Severity::error, place,
                        "environment: there is no file '" + file.string() + "'",
                        "The path is from the folder of the file that names it."});
    return;
  }
  const auto other = read_document(file);
  if (!other) {
    findings.push_back({Severity::error, "", other.error().message, other.error().hint});
    return;
  }
  if (!other->root.is_map()) {
    findings.push_back({Severity::error, other->place(1), "must be a map of keys and values", {}});
    return;
  }
  job_keys().check(*other, other->root, findings, "environment");
  read_map(*other, other->root, file.parent_path(), findings, into);
}

}  // namespace

bool names_file(std::string_view environment) {
  return environment.starts_with(kFilePrefix) || looks_like_file(environment);
}

void read_environment(const Document& document, const Node& value, const fs::path& folder,
                      Findings& findings, EnvironmentDraft& into) {
  if (value.is_map()) return read_map(document, value, folder, findings, into);
  if (!value.is_scalar() || value.text.empty() || value.text == "system") return;
  std::string_view text = value.text;
  const bool file = text.starts_with(kFilePrefix);
  if (file) text.remove_prefix(kFilePrefix.size());
  if (file || looks_like_file(text)) {
    if (folder.empty()) return;
    return read_other_file(document, value, (folder / text).lexically_normal(), findings, into);
  }
  const auto name = parse_environment_name(text);
  if (!name) {
    findings.push_back(
        {Severity::error, document.place(value.key_line), name.error().message, name.error().hint});
    return;
  }
  into.environment.name = name->name;
  into.environment.version = name->version;
}

Result<EnvironmentDraft> load_environment_file(const fs::path& file, Warnings& warnings) {
  TRY_SET(const Document document, read_document(file));
  Findings findings;
  EnvironmentDraft draft;
  if (!document.root.is_map()) {
    return fail(ErrorKind::invalid, document.place(1) + ": must be a map of keys and values");
  }
  job_keys().check(document, document.root, findings, "environment");
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  EnvironmentReader(document, document.root, folder, findings, draft).read();
  const auto text = [&](std::string_view key) {
    const Node* node = at(document.root, key);
    return node != nullptr && node->is_scalar() ? node->text : std::string();
  };
  if (has_errors(findings)) return std::unexpected(as_error(findings));
  warnings = warnings_of(findings);
  if (draft.environment.recipe == Recipe{}) {
    return fail(ErrorKind::invalid, file.string() + ": says nothing of what is in it",
                "Give it an image, a conda_file, requirements or a build.");
  }
  draft.environment.name = text("name");
  draft.environment.version = text("version");
  return draft;
}

Result<EnvironmentDraft> load_environment_folder(const fs::path& folder, Warnings& warnings) {
  const fs::path file = folder / kEnvironmentJson;
  if (!is_file(file)) {
    return fail(ErrorKind::not_found, "there is no " + file.string(),
                "Make one with: trainyard environment scaffold -n NAME -d " + folder.string());
  }
  Sources sources;
  sources.main.file = file.string();
  TRY_SET(sources.environment, read_document(file));
  Findings findings;
  if (!sources.environment->root.is_map()) {
    return fail(ErrorKind::invalid,
                sources.environment->place(1) + ": must be a map of keys and values");
  }
  runconfig_keys().spell(*sources.environment, findings, "environment");
  sources.whole.kind = Node::Kind::map;
  Node below = sources.environment->root;
  below.key = "environment";
  sources.whole.children = {std::move(below)};
  runconfig_keys().check(*sources.environment, sources.whole, findings, "environment");
  EnvironmentDraft draft;
  interpret_environment(sources, {folder}, findings, draft);
  const Node& root = sources.environment->root;
  if (const Node* map = at(root, "environmentVariables"); map != nullptr && map->is_map()) {
    for (const Node& variable : map->children) {
      draft.environment.variables[variable.key] = variable.text;
    }
  }
  if (has_errors(findings)) return std::unexpected(as_error(findings));
  warnings = warnings_of(findings);
  const Node* name = at(root, "name");
  draft.environment.name = name != nullptr ? name->text : "";
  // A new version is the server's to give: what was downloaded and changed is registered again.
  draft.environment.version.clear();
  return draft;
}

}  // namespace trainyard::dialects
