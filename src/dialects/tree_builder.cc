#include "dialects/tree_builder.h"

#include <string_view>

namespace trainyard::dialects {
namespace {

constexpr size_t kDepthMax = 64;  // Nobody nests deeper, and readers may recurse.
// With all copies that aliases make: ten anchors of ten aliases each would be 10^10 nodes.
constexpr size_t kNodesMax = 100'000;
constexpr size_t kBytesMax = 16 * 1024 * 1024;

[[noreturn]] void refuse(Place place, std::string message) {
  throw DocumentFault{place.line, place.column, std::move(message), true};
}

void check_unique(const Node& map) {
  std::unordered_map<std::string_view, int> seen;
  for (const Node& child : map.children) {
    const auto [first, fresh] = seen.emplace(child.key, child.key_line);
    if (fresh) continue;
    refuse({child.key_line, 0},
           "'" + child.key + "' is given twice, first on line " + std::to_string(first->second));
  }
}

}  // namespace

void TreeBuilder::begin(Node::Kind kind, Place place, Anchor anchor) {
  if (open_.size() >= kDepthMax) {
    refuse(place, "nested deeper than " + std::to_string(kDepthMax) + " levels");
  }
  if (wants_key()) refuse(place, "a key must be a plain text");
  Frame frame;
  frame.node.kind = kind;
  frame.node.line = place.line;
  frame.node.column = place.column;
  frame.anchor = anchor;
  count(frame.node, place);
  if (anchor != 0) anchors_open_.insert(anchor);
  open_.push_back(std::move(frame));
}

void TreeBuilder::end() {
  Frame frame = std::move(open_.back());
  open_.pop_back();
  if (frame.node.is_map()) {
    check_unique(frame.node);
    merge(frame);
  }
  anchors_open_.erase(frame.anchor);
  put(std::move(frame.node), frame.anchor);
}

void TreeBuilder::value(Node node, Anchor anchor) {
  const Place place{node.line, node.column};
  if (node.text.find('\0') != std::string::npos) {
    refuse(place, "a text must not hold a NUL byte");
  }
  count(node, place);
  if (!wants_key()) return put(std::move(node), anchor);
  take_key(node);
  if (anchor != 0) anchored_[anchor] = std::move(node);
}

void TreeBuilder::alias(Place place, Anchor anchor) {
  if (anchors_open_.contains(anchor)) {
    refuse(place, "an anchor must not hold itself");
  }
  const auto found = anchored_.find(anchor);
  if (found == anchored_.end()) {
    refuse(place, "there is no such anchor");
  }
  if (wants_key()) return take_key(found->second);
  put(copy(found->second, open_.size(), place), 0);
}

bool TreeBuilder::wants_key() const {
  return !open_.empty() && open_.back().node.is_map() && !open_.back().has_key;
}

void TreeBuilder::take_key(const Node& node) {
  if (!node.is_scalar()) {
    refuse({node.line, node.column}, "a key must be a plain text");
  }
  Frame& frame = open_.back();
  frame.has_key = true;
  frame.merges = node.text == "<<" && !node.quoted;
  frame.key = node.text;
  frame.key_line = node.line;
}

// Into the list or map that is open, or at the top.
void TreeBuilder::put(Node node, Anchor anchor) {
  if (anchor != 0) anchored_[anchor] = copy(node, open_.size(), {node.line, node.column});
  if (open_.empty()) {
    root_ = std::move(node);
    return;
  }
  Frame& frame = open_.back();
  if (frame.node.is_map()) {
    frame.has_key = false;
    node.key = std::move(frame.key);
    node.key_line = frame.key_line;
    if (frame.merges) frame.merge_at = static_cast<int>(frame.node.children.size());
  }
  frame.node.children.push_back(std::move(node));
}

// "<<: *defaults" or "<<: [*a, *b]": members that the map does not have itself; the first wins.
void TreeBuilder::merge(Frame& frame) const {
  if (frame.merge_at < 0) return;
  std::vector<Node>& members = frame.node.children;
  Node from = std::move(members[static_cast<size_t>(frame.merge_at)]);
  members.erase(members.begin() + frame.merge_at);
  std::unordered_set<std::string> known;
  for (const Node& member : members) known.insert(member.key);

  const auto take = [&](Node& map) {
    if (!map.is_map()) {
      refuse({from.key_line, 0}, "<<: must be a map, or a list of maps");
    }
    for (Node& member : map.children) {
      if (known.insert(member.key).second) members.push_back(std::move(member));
    }
  };
  if (!from.is_list()) return take(from);
  for (Node& map : from.children) take(map);
}

Node TreeBuilder::copy(const Node& node, size_t depth, Place place) {
  if (depth >= kDepthMax) {
    refuse(place, "nested deeper than " + std::to_string(kDepthMax) + " levels");
  }
  count(node, place);
  Node twin;
  twin.kind = node.kind;
  twin.text = node.text;
  twin.quoted = node.quoted;
  twin.block = node.block;
  twin.line = node.line;
  twin.column = node.column;
  twin.key = node.key;
  twin.key_line = node.key_line;
  twin.children.reserve(node.children.size());
  for (const Node& child : node.children) twin.children.push_back(copy(child, depth + 1, place));
  return twin;
}

void TreeBuilder::count(const Node& node, Place place) {
  nodes_ += 1;
  bytes_ += node.text.size() + node.key.size();
  if (nodes_ <= kNodesMax && bytes_ <= kBytesMax) return;
  throw DocumentFault{
      place.line, place.column,
      "too much: more than " + std::to_string(kNodesMax) + " values, or aliases that multiply"};
}

}  // namespace trainyard::dialects
