#include "snapshot/tree.h"

#include <doctest/doctest.h>

#include <random>

namespace trainyard::snapshot {
namespace {

Entry file(std::string path, std::string_view bytes = "x") {
  return {.kind = EntryKind::file,
          .path = std::move(path),
          .size = bytes.size(),
          .digest = sha256(bytes)};
}
Entry link_entry(std::string path, std::string target) {
  return {.kind = EntryKind::symlink, .path = std::move(path), .target = std::move(target)};
}
Entry folder(std::string path) { return {.kind = EntryKind::folder, .path = std::move(path)}; }

constexpr std::string_view kFirst = "trainyard-tree 1\n";
std::string x_line(std::string_view path) {
  return "file\t" + sha256("x").hex() + "\t1\t" + std::string(path) + "\n";
}

}  // namespace

TEST_CASE("a tree's text is a line per entry and comes back the same") {
  Tree tree;
  tree.entries = {file("a"), folder("b"), link_entry("c d", "../x y"), file("e/f", "hello")};
  tree.entries[3].kind = EntryKind::executable;
  CHECK(encode(tree) == std::string(kFirst) + x_line("a") + "folder\tb\nlink\tc d\t../x y\nexec\t" +
                            sha256("hello").hex() + "\t5\te/f\n");
  CHECK(*decode(encode(tree)) == tree);
  CHECK(tree.bytes() == 6);
  CHECK(tree.files() == 2);
}

TEST_CASE("an empty tree has a text") { CHECK(decode(encode(Tree{}))->entries.empty()); }

TEST_CASE("names and targets of any bytes come back the same") {
  std::string all;
  for (int c = 1; c < 256; ++c) {
    if (c != '/') all.push_back(static_cast<char>(c));
  }
  Tree tree;
  tree.entries = {file("\n"), file(" "), file("\\x41"), link_entry(all, "/" + all),
                  file("t\tt/\xff\xfe")};
  std::sort(tree.entries.begin(), tree.entries.end(),
            [](const Entry& a, const Entry& b) { return a.path < b.path; });
  const std::string text = encode(tree);
  CHECK(*decode(text) == tree);
  CHECK(std::count(text.begin(), text.end(), '\n') == 6);
}

TEST_CASE("what encode would not have written is refused with its line") {
  const struct {
    std::string text;
    std::string_view line;
  } table[] = {
      {"", "line 1"},
      {"trainyard-tree 2\n", "line 1"},
      {"trainyard-tree 1", "line 1"},
      {x_line("a"), "line 2"},                // With its first line, but cut:
      {x_line("b") + x_line("a"), "line 3"},  // Order.
      {x_line("a") + x_line("a"), "line 3"},  // Twice.
      {x_line("a") + "\n", "line 3"},         // An empty line.
      {x_line("/a"), "line 2"},
      {x_line("../a"), "line 2"},
      {x_line("a/../b"), "line 2"},
      {x_line("a/./b"), "line 2"},
      {x_line("a//b"), "line 2"},
      {x_line("a/"), "line 2"},
      {x_line(""), "line 2"},
      {x_line("."), "line 2"},
      {x_line("a\\x00"), "line 2"},
      {x_line("\\x61"), "line 2"},  // Needless escape.
      {x_line("\\xFF"), "line 2"},  // Capital digits.
      {x_line("a\\"), "line 2"},
      {x_line("a\\x1"), "line 2"},
      {x_line("\xc3\xa9"), "line 2"},  // Not escaped.
      {x_line("a\tb"), "line 2"},      // A field too many.
      {"file\t" + sha256("x").hex() + "\t01\ta\n", "line 2"},
      {"file\t" + sha256("x").hex() + "\t-1\ta\n", "line 2"},
      {"file\t" + sha256("x").hex() + "\t99999999999999999999\ta\n", "line 2"},
      {"file\t" + sha256("x").hex().substr(1) + "\t1\ta\n", "line 2"},
      {"file\t" + std::string(64, 'G') + "\t1\ta\n", "line 2"},
      {"link\ta\n", "line 2"},
      {"link\ta\t\n", "line 2"},
      {"link\ta\tb\\x00c\n", "line 2"},
      {"link\ta\t" + std::string(5000, 'x') + "\n", "line 2"},
      {"folder\ta\tb\n", "line 2"},
      {"device\ta\n", "line 2"},
      {"file\n", "line 2"},
  };
  for (size_t i = 0; i < std::size(table); ++i) {
    CAPTURE(table[i].text);
    std::string text = i < 3 ? table[i].text : std::string(kFirst) + table[i].text;
    if (i == 3) text.pop_back();
    const auto tree = decode(text);
    REQUIRE(!tree);
    CHECK(tree.error().kind == ErrorKind::invalid);
    CHECK(tree.error().message.find(table[i].line) != std::string::npos);
  }
}

TEST_CASE("nothing may lie below a file, a symlink or an empty folder") {
  const Entry tops[] = {file("a"), link_entry("a", "/etc"), folder("a")};
  for (const Entry& top : tops) {
    for (const char* below : {"a/b", "a/b/c/d"}) {
      Tree tree;
      // "a-b" and "a.b" sort between the two.
      tree.entries = {top, file("a-b"), file("a.b"), file(below)};
      CHECK(!decode(encode(tree)));
      CHECK(!check(tree));
      tree.entries.erase(tree.entries.begin());
      CHECK(decode(encode(tree)));
    }
  }
  Tree deep;
  deep.entries = {file("d/a"), link_entry("d/b", "x"), file("d/b/c")};
  CHECK(!check(deep));
}

TEST_CASE("random changes of a text never crash decode, and what passes is canonical") {
  Tree tree;
  tree.entries = {file("a\n"), folder("b"), link_entry("c", "d"), file("e/f"), file("e/g")};
  const std::string good = encode(tree);
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    const size_t changes = 1 + random() % 3;
    for (size_t i = 0; i < changes; ++i) {
      const size_t at = random() % text.size();
      if (random() % 2 == 0) {
        text[at] = static_cast<char>(random());
      } else {
        text.erase(at, random() % 5);
      }
    }
    if (const auto again = decode(text); again) CHECK(encode(*again) == text);
  }
}

}  // namespace trainyard::snapshot
