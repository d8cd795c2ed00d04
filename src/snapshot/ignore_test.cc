#include "snapshot/ignore.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <map>
#include <random>
#include <set>

#include "base/file.h"

namespace trainyard::snapshot {
namespace {

// Folder ("" or "a/b/") -> the text of its ignore file.
using Files = std::map<std::string, std::string>;

// The walk's rule: from the top down, and nothing below an ignored folder.
bool ignored_by_us(const std::map<std::string, IgnoreFile>& files, const std::string& path) {
  std::shared_ptr<const IgnoreLevel> level;
  size_t start = 0;
  for (;;) {
    if (const auto found = files.find(path.substr(0, start)); found != files.end()) {
      level = std::make_shared<IgnoreLevel>(IgnoreLevel{found->second, start, level});
    }
    const size_t slash = path.find('/', start);
    // The last part is a folder where an ignore file lies in or below it.
    const auto below = files.lower_bound(path + "/");
    const bool folder =
        slash != path.npos || (below != files.end() && below->first.starts_with(path + "/"));
    if (is_ignored(level.get(), path.substr(0, slash), folder)) return true;
    if (slash == path.npos) return false;
    start = slash + 1;
  }
}

bool have_git() { return std::system("git --version >/dev/null 2>&1") == 0; }

class GitRepo {
 public:
  GitRepo() { REQUIRE(std::system((git() + "init -q . >/dev/null 2>&1").c_str()) == 0); }

  std::set<std::string> ignored(const Files& files, const std::vector<std::string>& paths) {
    for (const auto& [folder, text] : files) {
      REQUIRE(make_dirs(dir_.path() / folder));
      REQUIRE(write_file(dir_.path() / folder / ".gitignore", text));
    }
    std::string input;
    for (const std::string& path : paths) input.append(path).push_back('\0');
    REQUIRE(write_file(dir_.path() / ".git/paths", input));
    FILE* pipe = popen((git() + "check-ignore --no-index -z --stdin <.git/paths").c_str(), "r");
    std::string output;
    char buffer[65536];
    for (size_t got = 0; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
      output.append(buffer, got);
    const int status = pclose(pipe);
    CHECK((status == 0 || WEXITSTATUS(status) == 1));
    for (const auto& [folder, text] : files) {
      REQUIRE(remove_tree(dir_.path() / folder.substr(0, folder.find('/')) / ".gitignore"));
      if (!folder.empty()) REQUIRE(remove_tree(dir_.path() / folder.substr(0, folder.find('/'))));
    }
    std::set<std::string> found;
    for (size_t at = 0; at < output.size();) {
      const size_t end = output.find('\0', at);
      found.insert(output.substr(at, end - at));
      at = end + 1;
    }
    return found;
  }

 private:
  std::string git() const {
    return "cd '" + dir_.path().string() + "' && HOME=/nonexistent XDG_CONFIG_HOME=/nonexistent " +
           "GIT_CONFIG_NOSYSTEM=1 git ";
  }
  TempDir dir_;
};

void compare(GitRepo& repo, const Files& files, const std::vector<std::string>& paths) {
  const std::set<std::string> theirs = repo.ignored(files, paths);
  std::map<std::string, IgnoreFile> ours;
  for (const auto& [folder, text] : files) ours.emplace(folder, IgnoreFile(text));
  for (const std::string& path : paths) {
    const bool us = ignored_by_us(ours, path);
    if (us == theirs.contains(path)) continue;
    std::string shown;
    for (const auto& [folder, text] : files) {
      if (path.starts_with(folder)) shown += "[" + folder + "]\n" + text + "\n";
    }
    FAIL_CHECK("'", path, "': we say ", std::string(us ? "ignored" : "kept"), ", git not, with\n",
               shown);
  }
}

const std::vector<std::string> kPatterns = {
    "a",
    "/a",
    "a/",
    "/a/",
    "a/b",
    "/a/b",
    "a/b/",
    "*",
    "/*",
    "*/",
    "**",
    "/**",
    "**/",
    "***",
    "*.c",
    "a.*",
    "*a*",
    "a*c",
    "/*.c",
    "a/*",
    "a/*.c",
    "a/*/c",
    "*/b",
    "*/b/",
    "*/*",
    "*/*/*",
    "**/a",
    "**/b/c",
    "a/**",
    "a/**/c",
    "a/**/",
    "**/a/**",
    "a/**/b/**/c",
    "**a",
    "a**",
    "a**/c",
    "a/**c",
    "/**/c",
    "**/**/c",
    "**/*.c",
    "a/***/c",
    "?",
    "??",
    "a/?",
    "?/b",
    "a?c",
    "[ab]",
    "[!a]",
    "[^a]",
    "[a-c]",
    "[c-a]",
    "[a-]",
    "[-a]",
    "[]]",
    "[]-a]",
    "[!]a]",
    "[a",
    "[",
    "[]",
    "[!",
    "[\\]]",
    "[\\a-c]",
    "[a-\\c]",
    "[[:alpha:]]",
    "[[:alpha:]-]",
    "[[:nope:]]",
    "[[:alpha:]",
    "[[:]",
    "[[:a]",
    "[[:]a]",
    "[a[:digit:]]",
    "[[:digit:][:upper:]]",
    "a[/]b",
    "a[!x]b",
    "\\a",
    "\\*",
    "a\\",
    "\\",
    "\\\\",
    "\\[",
    "#a",
    "\\#a",
    "!a",
    "\\!a",
    "!",
    "!!a",
    "a ",
    "a  ",
    "a\\ ",
    "a\\  ",
    "a \\ ",
    " a",
    "a b",
    "a\t",
    "",
    "/",
    "//",
    "///",
    "a//",
    "a//b",
    "//a",
    "./a",
    "a/.",
    "../a",
    ".",
    "..",
    ".*",
    "a/b/c/d",
    "A",
    "\xff",
    "[\xc3-\xff]",
    "a\r",
    "\\/a",
    "a\\/b",
    "**\\/c",
    "*\n!a",
    "*\n!*/",
    "a/\n!a/b",
    "a/*\n!a/b",
    "/*\n!/a\n/a/*\n!/a/b",
    "*\n!*/\n!*.c",
    "!a\na",
    "a\n!a",
    "a/**\n!a/**/\n!a/**/c",
    "# a\na",
    "*.c\n!a.c\na/a.c",
    "a\nb\n!b\n",
};

const std::vector<std::string> kPaths = {
    "a",    "b",     "c",      "d",        "a.c",       "b.c",     "abc",     "ac",      "aXc",
    "a/b",  "a/a",   "a/c",    "a/b/c",    "a/b/a",     "a/x/c",   "a/x/y/c", "a/b/x/c", "b/a",
    "b/c",  "b/b/c", "x/a/y",  "x/b/c",    "x/a/b/c/d", "a.c/x",   "a/a.c",   "a/b/a.c", "x/y/z",
    "]",    "[",     "-",      "[a]",      "[ab]",      ":",       "#a",      "!a",      "!!a",
    "\\",   "\\a",   "a\\",    "*",        "a*",        "**",      "a ",      "a  ",     " a",
    "a b",  "a\t",   "a\r",    ".a",       ".",         "a/.b",    "A",       "1",       "Z",
    "\xff", "\xc3",  "\xc4",   "ab",       "xx",        "a/b/c/d", "a/c/d/e", "abx/c",   "ab/x/c",
    "axb",  "a/xc",  "foo/ac", "[:nope:]", "alpha",     "\n",
};

}  // namespace

TEST_CASE("every pattern of a matrix means what git says, at the top and in a folder") {
  if (!have_git()) {
    MESSAGE("skipped: no git here");
    return;
  }
  GitRepo repo;
  Files files;
  std::vector<std::string> paths;
  for (size_t i = 0; i < kPatterns.size(); ++i) {
    const std::string folder = "p" + std::to_string(i) + "/";
    files[folder] = kPatterns[i] + "\n";
    for (const std::string& path : kPaths) {
      if (path != "." && path[0] != ':') paths.push_back(folder + path);
    }
  }
  compare(repo, files, paths);
  std::vector<std::string> top_paths;
  for (const std::string& path : kPaths) {
    if (path != "." && path[0] != ':') top_paths.push_back(path);
  }
  for (const std::string& pattern : kPatterns) compare(repo, {{"", pattern}}, top_paths);
}

TEST_CASE("random ignore files at several depths mean what git says") {
  if (!have_git()) {
    MESSAGE("skipped: no git here");
    return;
  }
  const char* given = std::getenv("TRAINYARD_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  MESSAGE("TRAINYARD_SEED=", seed);
  std::mt19937 random(seed);
  const auto pick = [&](const std::vector<std::string>& from) {
    return from[random() % from.size()];
  };
  const std::vector<std::string> pieces = {"a",  "a", "b", "c", "*",    "*",    "**",    "/", "/",
                                           "/",  "?", ".", " ", "[ab]", "[!a]", "[a-c]", "[", "]",
                                           "\\", "!", "#", "-", "**/",  "/**/", "/**",   "ab"};
  const std::vector<std::string> names = {"a",    "b",  "c",  "ab", "abc", "a.b", ".a", "a b",
                                          "[ab]", "!a", "#b", "a]", "-",   "ba",  "aab"};
  const auto text = [&] {
    std::string lines;
    for (size_t line = 1 + random() % 4; line > 0; --line) {
      if (random() % 5 == 0) lines += "!";
      for (size_t piece = 1 + random() % 5; piece > 0; --piece) lines += pick(pieces);
      if (random() % 5 == 0) lines += "/";
      lines += random() % 10 == 0 ? "\r\n" : "\n";
    }
    return lines;
  };
  GitRepo repo;
  for (int round = 0; round < 6; ++round) {
    Files files;
    std::vector<std::string> paths;
    if (round % 2 == 1) files[""] = text();
    for (int i = 0; i < 250; ++i) {
      const std::string folder = "p" + std::to_string(i) + "/";
      files[folder] = text();
      if (random() % 3 == 0) files[folder + pick({"a/", "a/b/", "b/"})] = text();
      for (int n = 0; n < 30; ++n) {
        std::string path = folder + pick(names);
        for (size_t depth = random() % 4; depth > 0; --depth) path += "/" + pick(names);
        paths.push_back(path);
      }
    }
    compare(repo, files, paths);
  }
}

TEST_CASE("a byte order mark, CRLF and a last line without an end are taken as git takes them") {
  const IgnoreFile file("\xef\xbb\xbf*.log\r\n\r\nbuild/\r\n!keep.log\r");
  CHECK(file.judge("x.log", false) == Verdict::ignored);
  CHECK(file.judge("build", true) == Verdict::ignored);
  CHECK(file.judge("build", false) == Verdict::none);
  CHECK(file.judge("keep.log", false) == Verdict::kept);
  CHECK(file.judge("\r", false) == Verdict::none);
}

TEST_CASE("a folder's own file wins over those above it") {
  auto top = std::make_shared<IgnoreLevel>(IgnoreLevel{IgnoreFile("*.log\n/sub/x\n"), 0, nullptr});
  const IgnoreLevel sub{IgnoreFile("!keep.log\n/y\n"), 4, top};
  CHECK(is_ignored(&sub, "sub/a.log", false));
  CHECK(!is_ignored(&sub, "sub/keep.log", false));
  CHECK(is_ignored(&sub, "sub/x", false));
  CHECK(is_ignored(&sub, "sub/y", false));
  CHECK(!is_ignored(top.get(), "y", false));
  CHECK(!is_ignored(nullptr, "y", false));
}

TEST_CASE("a pattern full of stars takes no exponential time") {
  std::string pattern;
  for (int i = 0; i < 40; ++i) pattern += "*a**/";
  const IgnoreFile file(pattern + "b\n");
  CHECK(file.judge(std::string(2000, 'a'), false) == Verdict::none);
}

}  // namespace trainyard::snapshot
