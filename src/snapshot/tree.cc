#include "snapshot/tree.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/file.h"

namespace trainyard::snapshot {
namespace {

constexpr std::string_view kFirstLine = "trainyard-tree 1\n";
constexpr size_t kTargetMax = 4095;  // As symlink(2) has it.

// file\tDIGEST\tSIZE\tPATH, exec\t…, link\tPATH\tTARGET, folder\tPATH.
constexpr std::pair<EntryKind, std::string_view> kWords[] = {
    {EntryKind::file, "file"},
    {EntryKind::executable, "exec"},
    {EntryKind::symlink, "link"},
    {EntryKind::folder, "folder"},
};

bool holds_bytes(EntryKind kind) {
  return kind == EntryKind::file || kind == EntryKind::executable;
}

// Everything but printable ASCII is \xHH, so that the text is ASCII and splits at tabs and newlines
// whatever names hold.
void append_escaped(std::string& text, std::string_view name) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '\\') {
      text.push_back(c);
    } else {
      const char escaped[] = {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
      text.append(escaped, sizeof escaped);
    }
  }
}

void append_line(std::string& text, const Entry& entry) {
  for (const auto& [kind, word] : kWords) {
    if (kind == entry.kind) text.append(word);
  }
  if (holds_bytes(entry.kind)) {
    text.append("\t").append(entry.digest.hex()).append("\t").append(std::to_string(entry.size));
  }
  text.push_back('\t');
  append_escaped(text, entry.path);
  if (entry.kind == EntryKind::symlink) {
    text.push_back('\t');
    append_escaped(text, entry.target);
  }
  text.push_back('\n');
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// False when a backslash is not followed by xHH. What else encode() would not write is found by
// comparing its line.
bool unescape(std::string_view text, std::string& name) {
  name.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      name.push_back(text[i]);
      continue;
    }
    if (text.size() - i < 4 || text[i + 1] != 'x') return false;
    const int high = hex_value(text[i + 2]);
    const int low = hex_value(text[i + 3]);
    if (high < 0 || low < 0) return false;
    name.push_back(static_cast<char>(high * 16 + low));
    i += 3;
  }
  return true;
}

std::string_view next_field(std::string_view& line) {
  const size_t end = std::min(line.find('\t'), line.size());
  const std::string_view field = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return field;
}

Result<Entry> parse_line(std::string_view line) {
  Entry entry;
  const std::string_view word = next_field(line);
  const auto* known = std::find_if(std::begin(kWords), std::end(kWords),
                                   [&](const auto& pair) { return pair.second == word; });
  if (known == std::end(kWords)) return fail(ErrorKind::invalid, "no such kind of entry");
  entry.kind = known->first;
  if (holds_bytes(entry.kind)) {
    TRY_SET(entry.digest, Digest::from_hex(next_field(line)));
    const std::string_view size = next_field(line);
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), entry.size);
    if (error != std::errc() || end != size.data() + size.size()) {
      return fail(ErrorKind::invalid, "not a size");
    }
  }
  if (!unescape(next_field(line), entry.path)) return fail(ErrorKind::invalid, "a bad escape");
  if (!unescape(next_field(line), entry.target)) return fail(ErrorKind::invalid, "a bad escape");
  return entry;
}

Status check_entry(const Entry& entry) {
  TRY(check_relative_path(entry.path));
  if (entry.kind != EntryKind::symlink) return {};
  if (entry.target.empty() || entry.target.size() > kTargetMax ||
      entry.target.find('\0') != std::string::npos) {
    return fail(ErrorKind::invalid, "not the target of a symlink");
  }
  return {};
}

bool by_path(const Entry& entry, std::string_view path) { return entry.path < path; }

// Whether a file, symlink or empty folder stands where entries[i] needs a folder: writing below it
// would go through it.
bool has_entry_above(const std::vector<Entry>& entries, size_t i) {
  const std::string_view path = entries[i].path;
  const std::string_view before = i == 0 ? std::string_view() : entries[i - 1].path;
  for (size_t slash = path.find('/'); slash != path.npos; slash = path.find('/', slash + 1)) {
    // What it shares with the entry before was looked at there.
    if (before.starts_with(path.substr(0, slash + 1))) continue;
    const std::string_view parent = path.substr(0, slash);
    const auto found = std::lower_bound(entries.begin(), entries.end(), parent, by_path);
    if (found != entries.end() && found->path == parent) return true;
  }
  return false;
}

}  // namespace

uint64_t Tree::bytes() const {
  uint64_t sum = 0;
  for (const Entry& entry : entries) sum += entry.size;
  return sum;
}

size_t Tree::files() const {
  return static_cast<size_t>(std::count_if(
      entries.begin(), entries.end(), [](const Entry& entry) { return holds_bytes(entry.kind); }));
}

std::string encode(const Tree& tree) {
  std::string text(kFirstLine);
  text.reserve(text.size() + tree.entries.size() * 128);
  for (const Entry& entry : tree.entries) append_line(text, entry);
  return text;
}

Result<Tree> decode(std::string_view text) {
  const auto refuse = [](size_t line, std::string_view why) {
    return fail(ErrorKind::invalid, "tree, line " + std::to_string(line) + ": " + std::string(why));
  };
  if (!text.starts_with(kFirstLine)) return refuse(1, "not a tree of a version known here");
  text.remove_prefix(kFirstLine.size());
  Tree tree;
  std::string again;
  for (size_t number = 2; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    if (end == text.npos) return refuse(number, "it is cut off");
    auto entry = parse_line(text.substr(0, end));
    if (!entry) return refuse(number, entry.error().message);
    again.clear();
    append_line(again, *entry);
    if (again != text.substr(0, end + 1)) return refuse(number, "not as it would be written");
    text.remove_prefix(end + 1);
    tree.entries.push_back(*std::move(entry));
  }
  TRY(check(tree));
  return tree;
}

Status check(const Tree& tree) {
  for (size_t i = 0; i < tree.entries.size(); ++i) {
    const auto refuse = [&](std::string_view why) {
      return fail(ErrorKind::invalid,
                  "tree, line " + std::to_string(i + 2) + ": " + std::string(why));
    };
    if (Status fine = check_entry(tree.entries[i]); !fine) return refuse(fine.error().message);
    if (i > 0 && tree.entries[i - 1].path >= tree.entries[i].path) {
      return refuse("not in order, or twice");
    }
  }
  for (size_t i = 0; i < tree.entries.size(); ++i) {
    if (has_entry_above(tree.entries, i)) {
      return fail(ErrorKind::invalid,
                  "tree, line " + std::to_string(i + 2) + ": an entry above it is not a folder");
    }
  }
  return {};
}

}  // namespace trainyard::snapshot
