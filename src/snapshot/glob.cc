#include "snapshot/glob.h"

#include <algorithm>
#include <array>
#include <optional>

namespace trainyard::snapshot {
namespace {

using Set = std::bitset<256>;
constexpr size_t kSmall = 64;  // Tokens of a pattern that needs no memory to be matched.

bool is_upper(unsigned c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(unsigned c) { return c >= 'a' && c <= 'z'; }
bool is_digit(unsigned c) { return c >= '0' && c <= '9'; }
bool is_alpha(unsigned c) { return is_upper(c) || is_lower(c); }
bool is_alnum(unsigned c) { return is_alpha(c) || is_digit(c); }
bool is_blank(unsigned c) { return c == ' ' || c == '\t'; }
// Git's own: no vertical tab, no form feed.
bool is_space(unsigned c) { return is_blank(c) || c == '\n' || c == '\r'; }
bool is_cntrl(unsigned c) { return c < 0x20 || c == 0x7f; }
bool is_print(unsigned c) { return c >= 0x20 && c < 0x7f; }
bool is_graph(unsigned c) { return is_print(c) && !is_space(c); }
bool is_punct(unsigned c) { return is_graph(c) && !is_alnum(c); }
bool is_xdigit(unsigned c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

constexpr std::pair<std::string_view, bool (*)(unsigned)> kClasses[] = {
    {"alnum", is_alnum}, {"alpha", is_alpha}, {"blank", is_blank}, {"cntrl", is_cntrl},
    {"digit", is_digit}, {"graph", is_graph}, {"lower", is_lower}, {"print", is_print},
    {"punct", is_punct}, {"space", is_space}, {"upper", is_upper}, {"xdigit", is_xdigit},
};

bool add_class(std::string_view name, Set& set) {
  for (const auto& [known, holds] : kClasses) {
    if (known != name) continue;
    for (unsigned c = 0; c < 256; ++c) {
      if (holds(c)) set.set(c);
    }
    return true;
  }
  return false;
}

unsigned byte_at(std::string_view text, size_t at) { return static_cast<unsigned char>(text[at]); }

}  // namespace

Glob::Glob(std::string_view pattern) {
  for (size_t at = 0; at < pattern.size();) {
    const char c = pattern[at];
    if (c == '*') {
      add_stars(pattern, at);
    } else if (c == '?') {
      Set set;
      set.set().reset('/');
      tokens_.push_back({Kind::set, 0, static_cast<uint32_t>(sets_.size())});
      sets_.push_back(set);
      ++at;
    } else if (c == '[') {
      broken_ = broken_ || !add_set(pattern, at);
      if (broken_) return;
    } else {
      if (c == '\\' && ++at == pattern.size()) {
        broken_ = true;
        return;
      }
      tokens_.push_back({Kind::byte, pattern[at], 0});
      ++at;
    }
  }
}

void Glob::add_stars(std::string_view pattern, size_t& at) {
  const size_t first = at;
  while (at < pattern.size() && pattern[at] == '*') ++at;
  const std::string_view rest = pattern.substr(at);
  const bool alone_before = first == 0 || pattern[first - 1] == '/';
  const bool alone_after = rest.empty() || rest[0] == '/' || rest.starts_with("\\/");
  if (at - first < 2 || !alone_before || !alone_after) {
    tokens_.push_back({Kind::star, 0, 0});
  } else if (rest.starts_with("/")) {
    tokens_.push_back({Kind::any_folders, 0, 0});
    ++at;
  } else {
    tokens_.push_back({Kind::any, 0, 0});
  }
}

// From '[' to its ']'. False when it is never closed or names a class that does not exist.
bool Glob::add_set(std::string_view pattern, size_t& at) {
  Set set;
  ++at;
  const bool negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (negated) ++at;
  std::optional<unsigned> previous;  // Where a range may begin.
  for (const size_t start = at;; ++at) {
    if (at >= pattern.size()) return false;
    unsigned c = byte_at(pattern, at);
    if (c == ']' && at != start) break;
    if (c == '-' && previous && at + 1 < pattern.size() && pattern[at + 1] != ']') {
      c = byte_at(pattern, ++at);
      if (c == '\\') {
        if (++at >= pattern.size()) return false;
        c = byte_at(pattern, at);
      }
      for (unsigned in = *previous; in <= c; ++in) set.set(in);
      previous.reset();
      continue;
    }
    if (c == '[' && pattern.substr(at + 1).starts_with(':')) {
      const size_t end = pattern.find(']', at + 2);
      if (end == pattern.npos) return false;
      if (end > at + 2 && pattern[end - 1] == ':') {
        if (!add_class(pattern.substr(at + 2, end - at - 3), set)) return false;
        at = end;
        previous.reset();
        continue;
      }
    }
    if (c == '\\') {
      if (++at >= pattern.size()) return false;
      c = byte_at(pattern, at);
    }
    set.set(c);
    previous = c;
  }
  ++at;
  if (negated) set.flip();
  set.reset('/');
  tokens_.push_back({Kind::set, 0, static_cast<uint32_t>(sets_.size())});
  sets_.push_back(set);
  return true;
}

bool Glob::takes(const Token& token, char c) const {
  return token.kind == Kind::byte ? token.byte == c
                                  : sets_[token.set][static_cast<unsigned char>(c)];
}

bool Glob::matches(std::string_view text) const {
  if (broken_) return false;
  if (tokens_.empty()) return text.empty();
  // Most names fail here: "*.py[co]" wants one of two letters at the end.
  const Token& last = tokens_.back();
  if (last.kind < Kind::star && (text.empty() || !takes(last, text.back()))) return false;
  return follow(text);
}

// Follows all ways through the pattern at once: `now[i]` says that the text so far brings us before
// token i. Trying one way after the other would take exponential time for a few stars.
bool Glob::follow(std::string_view text) const {
  const size_t count = tokens_.size();
  std::array<char, 3 * kSmall> small{};
  std::vector<char> large(count < kSmall ? 0 : 3 * (count + 1));
  char* now = large.empty() ? small.data() : large.data();
  char* next = now + count + 1;
  // any_folders has two places: before it (all of it may match nothing) and inside it.
  char* const inside = next + count + 1;
  const auto skip_empty = [&](char* places) {
    for (size_t i = 0; i < count; ++i) {
      if (places[i] != 0 && tokens_[i].kind >= Kind::star) places[i + 1] = 1;
    }
  };
  now[0] = 1;
  skip_empty(now);
  for (const char c : text) {
    std::fill(next, next + count + 1, '\0');
    bool alive = false;
    for (size_t i = 0; i < count; ++i) {
      const Token& token = tokens_[i];
      const bool here = now[i] != 0;
      switch (token.kind) {
        case Kind::byte:
        case Kind::set:
          if (here && takes(token, c)) next[i + 1] = 1;
          break;
        case Kind::star:
          if (here && c != '/') next[i] = 1;
          break;
        case Kind::any:
          if (here) next[i] = 1;
          break;
        case Kind::any_folders:
          if (here) inside[i] = 1;
          if (inside[i] != 0 && c == '/') next[i + 1] = 1;
          alive = alive || inside[i] != 0;
          break;
      }
    }
    skip_empty(next);
    std::swap(now, next);
    if (!alive && std::find(now, now + count + 1, 1) == now + count + 1) return false;
  }
  return now[count] != 0;
}

}  // namespace trainyard::snapshot
