#include "dialects/keys.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "dialects/scalar.h"

namespace trainyard::dialects {
namespace {

// One key however it is spelled: nodeCount, node_count and NodeCount are "nodecount".
std::string folded(std::string_view key) {
  std::string plain;
  for (const char c : key) {
    if (c == '_') continue;
    plain.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c);
  }
  return plain;
}

std::string joined(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : std::string(path) + "." + std::string(key);
}

bool is_empty(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return true;
    case Node::Kind::scalar:
      return node.text.empty();
    case Node::Kind::list:
      return node.children.empty();
    case Node::Kind::map:
      // A section whose keys are all there and all empty asks for nothing either.
      return std::all_of(node.children.begin(), node.children.end(), is_empty);
  }
  return false;
}

std::string shown(const Node& node) {
  if (node.is_scalar()) return node.text;
  if (!node.is_list()) return {};
  std::vector<std::string> items;
  for (const Node& item : node.children) items.push_back(shown(item));
  return "[" + join(items, ", ") + "]";
}

bool asks_nothing(const Key& key, const Node& node) {
  if (is_empty(node) || key.fallback == "*") return true;
  if (key.fallback.empty()) return false;
  if (node.is_map()) return false;
  const std::string value = folded(shown(node));
  for (const std::string& fallback : split(key.fallback, '|')) {
    if (folded(fallback) == value) return true;
    if (key.type != Type::boolean) continue;
    const auto flag = as_bool(node);
    if (flag && *flag == (fallback == "true")) return true;
  }
  return false;
}

// What the value must be, when it is not; empty when all is well.
std::string_view wrong_type(Type type, const Node& node) {
  if (node.is_null()) return {};
  switch (type) {
    case Type::any:
      return {};
    case Type::text:
      return node.is_scalar() ? "" : "a text";
    case Type::whole:
      return as_int(node) ? "" : "a whole number";
    case Type::number:
      return as_number(node) ? "" : "a number";
    case Type::boolean:
      return as_bool(node) ? "" : "true or false";
    case Type::list:
      return node.is_list() ? "" : "a list";
    case Type::map:
      return node.is_map() ? "" : "a map of keys and values";
    case Type::texts: {
      const bool plain = node.is_list() && std::all_of(node.children.begin(), node.children.end(),
                                                       [](const Node& item) {
                                                         return item.is_scalar() || item.is_null();
                                                       });
      return plain ? "" : "a list of plain values";
    }
  }
  return {};
}

std::string_view type_name(Type type) {
  switch (type) {
    case Type::any:
      return "any";
    case Type::text:
      return "text";
    case Type::whole:
      return "whole number";
    case Type::number:
      return "number";
    case Type::boolean:
      return "true/false";
    case Type::texts:
      return "list of values";
    case Type::list:
      return "list";
    case Type::map:
      return "map";
  }
  return {};
}

std::string_view support_name(Support support) {
  switch (support) {
    case Support::works:
      return "works";
    case Support::no_effect:
      return "no effect";
    case Support::later:
      return "later";
    case Support::refused:
      return "refused";
  }
  return {};
}

}  // namespace

// The keys that may stand at one place. A place that is no more than the way to others ("history"
// of "history.outputCollection") has no row of its own; it must be a map.
struct KeyTable::Level {
  const Key* row = nullptr;
  std::string name;  // As the table spells it.
  std::map<std::string, std::unique_ptr<Level>, std::less<>> members;
  std::unique_ptr<Level> any;  // Under '*'.
  std::vector<std::string> names;

  bool is_leaf() const { return members.empty() && !any; }
};

namespace {

// What the table says of one document.
class Checker {
 public:
  Checker(const Dialect& dialect, const Document& document, const Node& whole, Findings& findings)
      : dialect_(dialect), document_(document), whole_(whole), findings_(findings) {}

  void members(const Node& map, const KeyTable::Level& level, const std::string& path) {
    for (const Node& child : map.children) {
      const std::string below = joined(path, child.key);
      const auto found = level.members.find(spelled(child.key));
      if (found != level.members.end()) {
        member(child, *found->second, below);
      } else if (level.any) {
        member(child, *level.any, below);
      } else {
        unknown(child, level, path);
      }
    }
  }

 private:
  void member(const Node& node, const KeyTable::Level& level, const std::string& path) {
    if (level.row != nullptr && !row_allows(node, *level.row, path)) return;
    if (level.is_leaf() || node.is_null()) return;
    if (node.is_map()) return members(node, level, path);
    if (level.row == nullptr) error(node, path + ": must be a map of keys and values");
  }

  // Says what is to be said; false when there is no need to look into the value.
  bool row_allows(const Node& node, const Key& row, const std::string& path) {
    const bool moot = !row.condition.empty() && !dialect_.holds(row.condition, whole_);
    if (moot || row.support == Support::no_effect) {
      if ((moot && row.quiet) || asks_nothing(row, node)) return false;
      warning(node, path + ": has no effect " +
                        (moot ? "unless " + std::string(row.condition)
                              : "(" + std::string(row.meaning) + ")"));
      return false;
    }
    if (const std::string_view must = wrong_type(row.type, node); !must.empty()) {
      error(node, path + ": must be " + std::string(must));
      return false;
    }
    const bool refused = row.support == Support::refused;
    if ((refused || row.support == Support::later) && !asks_nothing(row, node)) {
      error(node,
            path + (refused ? ": has no meaning here (" : ": comes with a later version (") +
                std::string(row.meaning) + ")",
            std::string(row.hint));
      return false;
    }
    return row.support == Support::works;
  }

  void unknown(const Node& node, const KeyTable::Level& level, const std::string& path) {
    constexpr int kUnknownMax = 20;  // Looking for the nearest costs, and nobody reads on.
    unknown_ += 1;
    if (unknown_ > kUnknownMax) {
      if (unknown_ == kUnknownMax + 1) warning(node, "more unknown keys follow");
      return;
    }
    std::string message = "unknown key '" + node.key.substr(0, 80) + "'";
    if (!path.empty()) message += " in " + path;
    const std::string near = meant(node.key, level);
    if (!near.empty()) message += "; did you mean '" + near + "'?";
    warning(node, std::move(message));
  }

  // The nearest key at this place, or the same key at another one.
  std::string meant(const std::string& key, const KeyTable::Level& level) const {
    if (std::string near = nearest(key, level.names); !near.empty()) return near;
    for (const Key& row : dialect_.keys) {
      const size_t dot = row.path.rfind('.');
      if (dot != row.path.npos && folded(row.path.substr(dot + 1)) == folded(key)) {
        return std::string(row.path);
      }
    }
    return {};
  }

  std::string spelled(const std::string& key) const {
    return dialect_.spelling == Dialect::Spelling::free ? folded(key) : key;
  }

  void error(const Node& node, std::string message, std::string hint = {}) {
    findings_.push_back(
        {Severity::error, document_.place(node.key_line), std::move(message), std::move(hint)});
  }
  void warning(const Node& node, std::string message) {
    findings_.push_back(
        {Severity::warning, document_.place(node.key_line), std::move(message), {}});
  }

  const Dialect& dialect_;
  const Document& document_;
  const Node& whole_;
  Findings& findings_;
  int unknown_ = 0;
};

void rename(Document& document, Node& map, const KeyTable::Level& level, Findings& findings) {
  std::map<std::string, int> seen;
  for (Node& child : map.children) {
    const KeyTable::Level* below = level.any.get();
    if (const auto found = level.members.find(folded(child.key)); found != level.members.end()) {
      below = found->second.get();
      child.key = below->name;
      const auto [first, fresh] = seen.emplace(child.key, child.key_line);
      if (!fresh) {
        findings.push_back(
            {Severity::error,
             document.place(child.key_line),
             child.key + ": is given twice, first on line " + std::to_string(first->second),
             {}});
      }
    }
    if (below != nullptr && child.is_map()) rename(document, child, *below, findings);
  }
}

}  // namespace

KeyTable::KeyTable(const Dialect& dialect) : dialect_(dialect), top_(std::make_unique<Level>()) {
  const bool free = dialect.spelling == Dialect::Spelling::free;
  for (const Key& row : dialect.keys) {
    Level* level = top_.get();
    for (const std::string& part : split(row.path, '.')) {
      auto& next = part == "*" ? level->any : level->members[free ? folded(part) : part];
      if (!next) {
        next = std::make_unique<Level>();
        next->name = part;
        if (part != "*") level->names.push_back(part);
      }
      level = next.get();
    }
    ENSURE(level->row == nullptr);
    level->row = &row;
  }
}

KeyTable::~KeyTable() = default;

const KeyTable::Level& KeyTable::level_at(std::string_view path) const {
  const bool free = dialect_.spelling == Dialect::Spelling::free;
  const Level* level = top_.get();
  if (path.empty()) return *level;
  for (const std::string& part : split(path, '.')) {
    const auto found = level->members.find(free ? folded(part) : part);
    ENSURE(found != level->members.end());
    level = found->second.get();
  }
  return *level;
}

void KeyTable::spell(Document& document, Findings& findings, std::string_view below) const {
  if (dialect_.spelling != Dialect::Spelling::free || !document.root.is_map()) return;
  rename(document, document.root, level_at(below), findings);
}

void KeyTable::check(const Document& document, const Node& whole, Findings& findings,
                     std::string_view below) const {
  if (!document.root.is_map()) return;
  Checker(dialect_, document, whole, findings)
      .members(document.root, level_at(below), std::string(below));
}

std::string KeyTable::markdown() const {
  std::string text = "| key | type | default | state | meaning |\n|---|---|---|---|---|\n";
  for (const Key& row : dialect_.keys) {
    std::string fallback(row.fallback.substr(0, row.fallback.find('|')));
    if (fallback == "*") fallback.clear();
    if (!fallback.empty()) fallback = "`" + fallback + "`";
    std::string meaning(row.meaning);
    if (!row.condition.empty()) {
      meaning += (meaning.empty() ? "only if " : "; only if ") + std::string(row.condition);
    }
    text += "| `" + std::string(row.path) + "` | " + std::string(type_name(row.type)) + " | " +
            fallback + " | " + std::string(support_name(row.support)) + " | " + meaning + " |\n";
  }
  return text;
}

const Node* at(const Node& root, std::string_view path) {
  const Node* node = &root;
  for (const std::string& part : split(path, '.')) {
    node = node->find(part);
    if (node == nullptr) return nullptr;
  }
  return node->is_null() ? nullptr : node;
}

}  // namespace trainyard::dialects
