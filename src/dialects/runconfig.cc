#include "dialects/runconfig.h"

#include <optional>

#include "base/id.h"
#include "dialects/runconfig_environment.h"
#include "dialects/runconfig_spec.h"

namespace trainyard::dialects {
namespace {

constexpr std::string_view kEnvironment = "environment";

// ---- the file that `environment` names ----

// Takes the path out of the document, so that the table does not stumble over it.
std::string take_environment_path(Document& main) {
  Node* node = main.root.find(kEnvironment);
  if (node == nullptr || !node->is_scalar()) return {};
  std::string path = std::move(node->text);
  node->text.clear();
  node->kind = Node::Kind::null;
  return path;
}

Result<Document> read_environment(const std::string& path, const fs::path& project,
                                  const Document& main) {
  const fs::path beside = fs::path(main.file).parent_path();
  std::error_code ignored;
  for (const fs::path& folder : {project, beside}) {
    if (fs::exists(folder / path, ignored)) return read_document(folder / path);
  }
  const Node* node = main.root.find(kEnvironment);
  return fail(ErrorKind::invalid,
              main.place(node->key_line) + ": environment: there is no file '" + path + "'",
              "It is looked for in the project and beside the run configuration.");
}

// A conda file in the place of an environment's is one whose packages it has.
bool is_conda(const Document& environment) {
  return environment.root.find("dependencies") != nullptr;
}

Environment conda_of(const Document& environment, Findings& findings) {
  Environment made;
  Warnings warnings;
  const Status added = add_conda(environment, environment.root, made, warnings);
  for (std::string& warning : warnings) {
    findings.push_back({Severity::warning, "", std::move(warning), {}});
  }
  if (!added) {
    findings.push_back({Severity::error, "", added.error().message, added.error().hint});
  }
  return made;
}

// Where files that are named are looked for.
std::vector<fs::path> folders_of(const Sources& sources, const Runconfig& runconfig,
                                 const RunconfigAsk& ask) {
  std::vector<fs::path> folders = {ask.project, runconfig.source, runconfig.file.parent_path()};
  if (sources.environment) folders.push_back(fs::path(sources.environment->file).parent_path());
  return folders;
}

// ---- the whole of it ----

void check_root(const Document& document, Findings& findings) {
  if (document.root.is_map() || document.root.is_null()) return;
  findings.push_back({Severity::error, document.place(1), "must be a map of keys and values", {}});
}

// Spells, composes and checks; interpreting comes next.
void check_sources(Sources& sources, Findings& findings) {
  check_root(sources.main, findings);
  sources.whole = sources.main.root;
  if (sources.environment && !is_conda(*sources.environment)) {
    check_root(*sources.environment, findings);
    runconfig_keys().spell(*sources.environment, findings, kEnvironment);
    Node* place = sources.whole.find(kEnvironment);
    place->kind = sources.environment->root.kind;
    place->children = sources.environment->root.children;
  }
  runconfig_keys().check(sources.main, sources.whole, findings);
  if (!sources.environment || is_conda(*sources.environment)) return;
  runconfig_keys().check(*sources.environment, sources.whole, findings, kEnvironment);
}

void collect_places(const Sources& sources, const Node& node, const std::string& path,
                    std::map<std::string, std::string>& places) {
  for (const Node& child : node.children) {
    const std::string below = path.empty() ? child.key : path + "." + child.key;
    if (child.is_null() || child.key.find('.') != std::string::npos) continue;
    places[below] = sources.place(below);
    if (child.is_map()) collect_places(sources, child, below, places);
  }
}

Status check_script(const Runconfig& runconfig) {
  const std::string& script = runconfig.script;
  const auto place = runconfig.places.find("script");
  const std::string prefix = place == runconfig.places.end() ? "" : place->second + ": ";
  const fs::path path(script);
  const fs::path inside = path.lexically_normal();
  const std::string folder = runconfig.source.lexically_normal().string();
  if (path.is_absolute() || inside.begin()->string() == "..") {
    return fail(ErrorKind::invalid, prefix + "script '" + script + "' is not within " + folder,
                "Give it from the source folder, which is what a run takes along.");
  }
  std::error_code ignored;
  if (fs::is_regular_file(runconfig.source / path, ignored)) return {};
  return fail(ErrorKind::invalid, prefix + "script '" + script + "' is not in " + folder,
              "It is looked for in the source folder: --source-directory, else --path.");
}

Status check_command(const Runconfig& runconfig) {
  if (!runconfig.script.empty()) return check_script(runconfig);
  if (!runconfig.spec.command.empty()) return {};
  // An image has one of its own.
  if (runconfig.spec.environment.recipe.kind == EnvironmentKind::container) return {};
  const std::string file = runconfig.file.empty() ? "" : runconfig.file.string() + ": ";
  return fail(ErrorKind::invalid, file + "says neither script nor command",
              "Put it on the command line: trainyard run submit-script -c NAME train.py");
}

}  // namespace

Result<Runconfig> load_runconfig(const RunconfigAsk& ask) {
  if (!ask.target.empty()) TRY(check_name(ask.target, "target"));
  Runconfig runconfig;
  runconfig.source = ask.source.empty() ? ask.project : ask.source;
  Sources sources;
  Findings findings;
  if (!ask.name.empty()) {
    auto file = find_runconfig(runconfig.source, ask.name);
    // Where the code lies comes first; the project is the other place it may be kept.
    if (!file && file.error().kind == ErrorKind::not_found && !ask.source.empty()) {
      auto other = find_runconfig(ask.project, ask.name);
      if (other || other.error().kind != ErrorKind::not_found) file = std::move(other);
    }
    TRY_SET(runconfig.file, std::move(file));
    TRY_SET(sources.main, read_document(runconfig.file));
    runconfig_keys().spell(sources.main, findings);
    if (const std::string path = take_environment_path(sources.main); !path.empty()) {
      TRY_SET(sources.environment, read_environment(path, ask.project, sources.main));
    }
  }
  check_sources(sources, findings);
  interpret(sources, ask, findings, runconfig);
  EnvironmentDraft draft;
  interpret_environment(sources, folders_of(sources, runconfig, ask), findings, draft);
  runconfig.spec.environment = std::move(draft.environment);
  if (sources.environment && is_conda(*sources.environment)) {
    runconfig.spec.environment = conda_of(*sources.environment, findings);
  }
  runconfig.build = draft.build;
  runconfig.registry_password = draft.password;
  collect_places(sources, sources.whole, "", runconfig.places);
  if (has_errors(findings)) return std::unexpected(as_error(findings));
  runconfig.warnings = warnings_of(findings);
  if (!ask.target.empty()) runconfig.places.erase("target");
  if (!ask.words.empty()) runconfig.places.erase("script");
  TRY(check_command(runconfig));
  return runconfig;
}

Findings validate_runconfig(std::string_view text, std::string file) {
  Findings findings;
  Sources sources;
  auto document = parse_document(text, std::move(file));
  if (!document) {
    findings.push_back({Severity::error, "", document.error().message, document.error().hint});
    return findings;
  }
  sources.main = *std::move(document);
  runconfig_keys().spell(sources.main, findings);
  take_environment_path(sources.main);
  check_sources(sources, findings);
  Runconfig runconfig;
  interpret(sources, {}, findings, runconfig);
  EnvironmentDraft draft;
  interpret_environment(sources, {}, findings, draft);
  return findings;
}

}  // namespace trainyard::dialects
