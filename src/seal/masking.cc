#include "seal/masking.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "seal/forms.h"

namespace trainyard::seal {
namespace {

constexpr std::string_view kHidden = "***";
constexpr size_t kWindowMax = 255;  // A shift is a byte.

}  // namespace

void cover(std::string& text, const std::vector<std::string>& forms) {
  for (const std::string& form : forms) {
    for (size_t at = text.find(form); at != std::string::npos; at = text.find(form, at)) {
      text.replace(at, form.size(), form.size(), '*');
    }
  }
}

// Looks for all forms at once. Where nothing has begun, windows of the shortest form's length are
// skipped by their last two bytes (Wu and Manber); where something may have, an automaton goes on
// byte by byte (Aho and Corasick), whose state says how many last bytes are still undecided. Its
// nodes have lists of children: a table each would be 1 kB for every byte of every form.
class Mask::Table {
 public:
  explicit Table(const std::vector<std::string>& forms) {
    nodes_.emplace_back();
    for (const std::string& form : forms) add(form);
    link();
    build_shifts(forms);
  }

  // The next place from `at` on where a form may begin; `size - window + 1` or later if none does
  // before that.
  size_t skip(std::string_view text, size_t at) const {
    const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
    const size_t size = text.size();
    while (at + window_ <= size) {
      const size_t last = at + window_ - 1;
      const uint8_t shift = shifts_[static_cast<size_t>(bytes[last - 1]) << 8 | bytes[last]];
      if (shift == 0) return at;
      at += shift;
    }
    return std::min(at, size);
  }

  uint32_t step(uint32_t state, uint8_t byte) const {
    while (state != 0) {
      for (uint32_t child = nodes_[state].child; child != 0; child = nodes_[child].sibling) {
        if (nodes_[child].byte == byte) return child;
      }
      state = nodes_[state].fail;
    }
    return first_[byte];
  }

  // How many last bytes begin a form.
  size_t depth(uint32_t state) const { return nodes_[state].depth; }
  // How many last bytes are a form; 0: none.
  size_t match(uint32_t state) const { return nodes_[state].match; }

 private:
  struct Node {
    uint32_t child = 0;    // The first.
    uint32_t sibling = 0;  // The next child of the same parent.
    uint32_t fail = 0;     // The longest true end of this node's text that begins a form too.
    uint32_t depth = 0;
    uint32_t match = 0;
    uint8_t byte = 0;
  };

  uint32_t child_of(uint32_t parent, uint8_t byte) const {
    if (parent == 0) return first_[byte];
    uint32_t child = nodes_[parent].child;
    while (child != 0 && nodes_[child].byte != byte) child = nodes_[child].sibling;
    return child;
  }

  void add(const std::string& form) {
    uint32_t node = 0;
    for (const char c : form) {
      const auto byte = static_cast<uint8_t>(c);
      uint32_t next = child_of(node, byte);
      if (next == 0) {
        next = static_cast<uint32_t>(nodes_.size());
        nodes_.push_back(
            {.sibling = nodes_[node].child, .depth = nodes_[node].depth + 1, .byte = byte});
        nodes_[node].child = next;
        if (node == 0) first_[byte] = next;
      }
      node = next;
    }
    nodes_[node].match = nodes_[node].depth;
  }

  // Breadth first: a node's fail is nearer to the root than the node.
  void link() {
    std::vector<uint32_t> queue = {0};
    for (size_t i = 0; i < queue.size(); ++i) {
      const uint32_t parent = queue[i];
      for (uint32_t node = nodes_[parent].child; node != 0; node = nodes_[node].sibling) {
        if (parent != 0) nodes_[node].fail = step(nodes_[parent].fail, nodes_[node].byte);
        if (nodes_[node].match == 0) nodes_[node].match = nodes_[nodes_[node].fail].match;
        queue.push_back(node);
      }
    }
  }

  void build_shifts(const std::vector<std::string>& forms) {
    window_ = kWindowMax;
    for (const std::string& form : forms) window_ = std::min(window_, form.size());
    ENSURE(window_ >= 2);
    shifts_.assign(1 << 16, static_cast<uint8_t>(window_ - 1));
    for (const std::string& form : forms) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(form.data());
      for (size_t last = 1; last < window_; ++last) {
        uint8_t& shift = shifts_[static_cast<size_t>(bytes[last - 1]) << 8 | bytes[last]];
        shift = std::min(shift, static_cast<uint8_t>(window_ - 1 - last));
      }
    }
  }

  std::vector<Node> nodes_;            // The first is the root.
  std::array<uint32_t, 256> first_{};  // The root's children.
  std::vector<uint8_t> shifts_;        // By two bytes.
  size_t window_ = 0;
};

Mask::Mask(const std::vector<std::string>& values) {
  const std::vector<std::string> forms = forms_of(values);
  if (!forms.empty()) table_ = std::make_shared<const Table>(forms);
}

std::string_view Mask::feed(std::string_view chunk) {
  if (!table_) return chunk;
  const size_t before = held_.size();
  size_t at = 0;
  while (at < chunk.size()) {
    if (state_ == 0) {
      at = table_->skip(chunk, at);
      if (at == chunk.size()) break;
    }
    state_ = table_->step(state_, static_cast<uint8_t>(chunk[at++]));
    if (const size_t match = table_->match(state_); match > 0) {
      const size_t end = before + at;
      cover(end - std::min(match, end), end);  // What it reaches beyond was hidden and is shown.
    }
  }
  // Decided is what no value can reach back to any more, and what is hidden already.
  const size_t end = before + chunk.size();
  size_t limit = end - std::min(table_->depth(state_), end);
  for (const Run& run : covered_) {
    if (run.from <= limit) limit = std::max(limit, run.to);
  }
  return show(chunk, limit);
}

std::string_view Mask::flush() {
  state_ = 0;
  return table_ ? show({}, held_.size()) : std::string_view();
}

// Matches come by their ends, so that a new one can only reach over the last ones.
void Mask::cover(size_t from, size_t to) {
  while (!covered_.empty() && covered_.back().to >= from) {
    from = std::min(from, covered_.back().from);
    covered_.pop_back();
  }
  covered_.push_back({from, to});
}

// Shows held_ and `chunk` up to `limit`, counted over both, and holds the rest.
std::string_view Mask::show(std::string_view chunk, size_t limit) {
  const size_t size = held_.size() + chunk.size();
  if (held_.empty() && covered_.empty()) {
    if (limit > 0) in_run_ = false;
    held_.assign(chunk.substr(limit));
    return chunk.substr(0, limit);
  }
  shown_.clear();
  size_t at = 0;
  size_t done = 0;
  for (; done < covered_.size() && covered_[done].to <= limit; ++done) {
    append(chunk, at, covered_[done].from);
    if (covered_[done].from > at || !in_run_) shown_ += kHidden;
    in_run_ = true;
    at = covered_[done].to;
  }
  append(chunk, at, limit);
  if (limit > at) in_run_ = false;

  covered_.erase(covered_.begin(), covered_.begin() + static_cast<ptrdiff_t>(done));
  for (Run& run : covered_) {
    run.from -= limit;
    run.to -= limit;
  }
  if (limit >= held_.size()) {
    held_.assign(chunk.substr(limit - held_.size()));
  } else {
    held_.erase(0, limit);
    held_ += chunk;
  }
  ENSURE(held_.size() == size - limit);
  return shown_;
}

void Mask::append(std::string_view chunk, size_t from, size_t to) {
  if (const size_t held = std::min(to, held_.size()); from < held) {
    shown_.append(held_, from, held - from);
    from = held;
  }
  if (from < to) shown_ += chunk.substr(from - held_.size(), to - from);
}

}  // namespace trainyard::seal
