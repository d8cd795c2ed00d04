#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dialects/document.h"

namespace trainyard::dialects {

// Why a text is no document. Thrown, because it must get through yaml-cpp; parse_document() turns
// it into an error.
struct DocumentFault {
  int line = 0;
  int column = 0;
  std::string message;
  bool sure = false;  // Another reader of the same text need not be asked.
};

struct Place {
  int line = 0;
  int column = 0;
};

// Makes a tree of what a reader sees, one event after another, and keeps the limits while it grows.
class TreeBuilder {
 public:
  // An anchor's number; 0: none.
  using Anchor = size_t;

  void begin(Node::Kind kind, Place place, Anchor anchor = 0);
  void end();
  // A scalar or null; inside a map every second value is a key.
  void value(Node node, Anchor anchor = 0);
  void alias(Place place, Anchor anchor);

  Node take() { return std::move(root_); }

 private:
  struct Frame {
    Node node;
    Anchor anchor = 0;
    bool has_key = false;
    bool merges = false;  // The key is a plain <<.
    int merge_at = -1;    // The child to merge.
    std::string key;
    int key_line = 0;
  };

  bool wants_key() const;
  void take_key(const Node& node);
  void put(Node node, Anchor anchor);
  void merge(Frame& frame) const;
  Node copy(const Node& node, size_t depth, Place place);
  void count(const Node& node, Place place);

  Node root_;
  std::vector<Frame> open_;
  std::unordered_map<Anchor, Node> anchored_;
  std::unordered_set<Anchor> anchors_open_;
  size_t nodes_ = 0;
  size_t bytes_ = 0;
};

}  // namespace trainyard::dialects
