#include "dialects/conda.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "dialects/findings.h"
#include "dialects/requirements.h"
#include "model/requirement.h"

namespace trainyard::dialects {
namespace {

// "conda-forge::numpy 1.19.*" -> "numpy"
std::string_view name_in(std::string_view text) {
  if (const size_t channel = text.find("::"); channel != std::string_view::npos) {
    text.remove_prefix(channel + 2);
  }
  return text.substr(0, text.find_first_of(" \t=<>!~["));
}

// Of "python=3.8.10=h12_1", "python 3.8.*", "python >=3.8,<3.10": what is asked for.
std::string python_version(std::string_view text) {
  const std::string_view name = name_in(text);
  std::string_view rest = text.substr(text.find(name) + name.size());
  rest = trim(rest);
  while (rest.starts_with('=')) rest = trim(rest.substr(1));
  rest = rest.substr(0, rest.find('=', rest.find_first_of("0123456789")));  // The build's name.
  std::string version(trim(rest));
  if (version.ends_with(".*")) version.resize(version.size() - 2);
  return version;
}

class CondaReader {
 public:
  CondaReader(const Document& document, CondaFile& into, Findings& findings, SentFiles* sent)
      : document_(document),
        into_(into),
        findings_(findings),
        folder_(fs::path(document.file)),
        sent_(sent) {
    folder_ = folder_.parent_path();
  }

  void read() {
    into_.environment.recipe.kind = EnvironmentKind::conda;
    for (const Node& node : document_.root.children) member(node);
    if (document_.root.find("dependencies") == nullptr) {
      findings_.push_back({Severity::error, document_.place(1), "there are no dependencies",
                           "An environment file has a list `dependencies:`."});
    }
    pip_.add_to(into_.environment);
  }

 private:
  void member(const Node& node) {
    if (node.key == "name") {
      into_.name = node.text;
    } else if (node.key == "channels") {
      for (const Node& channel : list(node)) text_into(channel, recipe().channels);
    } else if (node.key == "dependencies") {
      for (const Node& dependency : list(node)) this->dependency(dependency);
    } else if (node.key == "variables") {
      variables(node);
    } else if (node.key == "prefix") {
      return;  // Where it was on somebody's machine; every export has it.
    } else {
      say(Severity::warning, node, "'" + node.key + "' has no effect here");
    }
  }

  const std::vector<Node>& list(const Node& node) {
    if (!node.is_list() && !node.is_null()) say(Severity::error, node, "must be a list");
    static const std::vector<Node> kNone;
    return node.is_list() ? node.children : kNone;
  }

  void text_into(const Node& node, std::vector<std::string>& into) {
    if (node.is_scalar()) {
      into.push_back(node.text);
    } else {
      say(Severity::error, node, "must be a text");
    }
  }

  void dependency(const Node& node) {
    if (node.is_map()) {
      for (const Node& member : node.children) {
        if (member.key == "pip") {
          for (const Node& line : list(member)) pip_line(line);
        } else {
          say(Severity::error, member, "'" + member.key + ":' is no kind of dependency",
              "Dependencies are texts, and one map `pip:` with a list.");
        }
      }
      return;
    }
    if (!node.is_scalar()) return say(Severity::error, node, "must be a text, or a map `pip:`");
    const std::string text(trim(node.text));
    const std::string name = package_name(name_in(text));
    if (name.empty()) return say(Severity::error, node, "'" + text + "' is no package");
    if (name == "python") {
      recipe().python = python_version(text);
    } else if (is_ours(name)) {
      into_.environment.left_out.push_back(text);
    } else if (seen_.insert(text).second) {
      recipe().conda.push_back(with_place(text, document_.place(node.line)));
    }
  }

  void pip_line(const Node& node) {
    if (!node.is_scalar()) return say(Severity::error, node, "must be a text");
    const Status added =
        add_requirement(pip_, node.text, document_.place(node.line), folder_, sent_);
    if (!added) say(Severity::error, node, added.error().message, added.error().hint);
  }

  void variables(const Node& node) {
    if (!node.is_map() && !node.is_null()) {
      return say(Severity::error, node, "must be a map of names and values");
    }
    for (const Node& variable : node.children) {
      if (!variable.is_scalar()) {
        say(Severity::error, variable, variable.key + ": must be a text");
      } else {
        into_.environment.variables[variable.key] = variable.text;
      }
    }
  }

  Recipe& recipe() { return into_.environment.recipe; }

  void say(Severity severity, const Node& node, std::string message, std::string hint = {}) {
    const int line = node.key_line != 0 ? node.key_line : node.line;
    findings_.push_back(
        {severity, document_.place(std::max(1, line)), std::move(message), std::move(hint)});
  }

  const Document& document_;
  CondaFile& into_;
  Findings& findings_;
  fs::path folder_;
  SentFiles* const sent_;
  Requirements pip_;
  std::set<std::string> seen_;
};

}  // namespace

Result<CondaFile> read_conda(const Document& document, SentFiles* sent) {
  CondaFile found;
  Findings findings;
  if (document.root.is_map()) {
    CondaReader(document, found, findings, sent).read();
  } else {
    findings.push_back({Severity::error, document.place(1),
                        document.root.is_null() ? "is empty" : "must be a map of keys and values",
                        "An environment file has `channels:` and `dependencies:`."});
  }
  if (has_errors(findings)) return std::unexpected(as_error(findings));
  found.warnings = warnings_of(findings);
  return found;
}

Result<CondaFile> read_conda(const fs::path& file) {
  TRY_SET(const Document document, read_document(file));
  return read_conda(document);
}

Result<CondaFile> parse_conda(std::string_view text, std::string file) {
  TRY_SET(const Document document, parse_document(text, std::move(file)));
  return read_conda(document);
}

}  // namespace trainyard::dialects
