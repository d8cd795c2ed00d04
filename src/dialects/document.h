#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace trainyard::dialects {

// One value of a file that a user wrote, with its place. What a plain text means (a number, yes or
// no) is left to who reads it: see scalar.h.
struct Node {
  enum class Kind { null, scalar, list, map };

  Kind kind = Kind::null;
  std::string text;     // Of a scalar, without its quotes.
  bool quoted = false;  // In quotes or a block: a text, whatever it looks like.
  bool block = false;   // Written after '|': its lines are lines of the file.
  // From 1. A line below 0 is no place in the file: -1 is the first of the document's overrides.
  int line = 0;
  int column = 0;
  std::string key;  // In a map.
  int key_line = 0;
  std::vector<Node> children;  // Of a list or a map, in the file's order.

  bool is_null() const { return kind == Kind::null; }
  bool is_scalar() const { return kind == Kind::scalar; }
  bool is_list() const { return kind == Kind::list; }
  bool is_map() const { return kind == Kind::map; }
  // A member of a map; nullptr when there is none, or when this is no map.
  const Node* find(std::string_view name) const;
  Node* find(std::string_view name);
};

// A whole file. Aliases are expanded, merge keys (<<) merged, no map has a key twice.
struct Document {
  std::string file;  // As it is shown.
  Node root;
  std::vector<std::string> overrides;  // What --set changed: see overrides.h.

  // "job.yml:12", or "--set inputs.lr=0.1".
  std::string place(int line) const;
};

// YAML 1.1 or JSON. Every fault is `invalid`, "FILE:LINE: …" with the column: what does not parse,
// more than one document, a key given twice, an anchor within itself, and what is beyond the limits
// at the top of document.cc (a file's size, depth, aliases that multiply).
Result<Document> parse_document(std::string_view text, std::string file);
// The size is looked at before the file is read.
Result<Document> read_document(const fs::path& file);

}  // namespace trainyard::dialects
