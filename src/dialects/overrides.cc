#include "dialects/overrides.h"

#include <string>
#include <utility>

#include "base/text.h"

namespace trainyard::dialects {
namespace {

constexpr size_t kOverridesMax = 1000;  // Of one command line.

std::unexpected<Error> refuse(std::string_view assignment, std::string_view why) {
  return fail(ErrorKind::invalid,
              "--set " + to_utf8(assignment.substr(0, 200)) + ": " + std::string(why),
              "Write it as in: --set inputs.lr=0.1");
}

void move_to(Node& node, int line) {
  node.line = line;
  node.key_line = line;
  node.column = 0;
  node.block = false;
  for (Node& child : node.children) move_to(child, line);
}

// As YAML would read it; what YAML cannot read is a text, as in: --set command=echo: hi.
Result<Node> value_of(std::string_view text, int line) {
  Node node;
  const std::string_view body = trim(text);
  const bool structured = body.starts_with('{') || body.starts_with('[') || body.starts_with('"') ||
                          body.starts_with('\'');
  if (structured) {
    TRY_SET(Document value, parse_document(text, "value"));
    node = std::move(value.root);
  } else if (!body.empty() && body != "~" && body != "null") {
    node.kind = Node::Kind::scalar;
    node.text = std::string(text);
  }
  move_to(node, line);
  return node;
}

// The member to go on with, made when it is not there; nullptr when there can be none.
Node* step_into(Node& node, const std::string& part, int line) {
  if (node.is_list()) {
    const auto index = parse_int(part, "place");
    const bool within = index && *index >= 0 && *index < static_cast<int64_t>(node.children.size());
    return within ? &node.children[static_cast<size_t>(*index)] : nullptr;
  }
  if (node.is_null()) {
    node.kind = Node::Kind::map;
    node.line = line;
  }
  if (!node.is_map()) return nullptr;
  if (Node* found = node.find(part)) return found;
  Node made;
  made.key = part;
  made.key_line = line;
  made.line = line;
  node.children.push_back(std::move(made));
  return &node.children.back();
}

}  // namespace

Status apply_override(Document& document, std::string_view assignment) {
  constexpr size_t kDepthMax = 16;
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) return refuse(assignment, "there is no '='");
  if (to_utf8(assignment) != assignment || assignment.find('\0') != std::string_view::npos) {
    return refuse(assignment, "is not UTF-8");
  }
  const std::vector<std::string> path = split(trim(assignment.substr(0, equals)), '.');
  if (path.size() > kDepthMax) return refuse(assignment, "the path is too long");
  if (document.overrides.size() >= kOverridesMax) return refuse(assignment, "too many of them");

  const int line = -static_cast<int>(document.overrides.size()) - 1;
  auto value = value_of(assignment.substr(equals + 1), line);
  if (!value) return refuse(assignment, value.error().message);
  Node* node = &document.root;
  for (const std::string& part : path) {
    if (part.empty()) return refuse(assignment, "a part of the path is empty");
    node = step_into(*node, part, line);
    if (node == nullptr) return refuse(assignment, "there is no '" + part + "' to set");
  }
  value->key = node->key;
  *node = *std::move(value);
  document.overrides.emplace_back(assignment);
  return {};
}

}  // namespace trainyard::dialects
