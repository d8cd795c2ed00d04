// The snapshot's figures without server and command line: capture, store and checkout in this
// process against git, zip and cp on the same tree. Run by bench/snapshot_bench.sh.
#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "base/file.h"
#include "blob/pack.h"
#include "snapshot/capture.h"

using namespace trainyard;

namespace {

constexpr int kFolders = 50;
constexpr int kFilesPerFolder = 100;
constexpr size_t kLarge = 64u << 20;

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "snapshot_bench: %s\n", why.c_str());
  std::exit(1);
}

template <class T>
T must(Result<T> result) {
  if (!result) die(result.error().message);
  return *std::move(result);
}
void must(Status status) {
  if (!status) die(status.error().message);
}

double ms_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

double median_of(std::vector<double> taken) {
  std::sort(taken.begin(), taken.end());
  return taken[taken.size() / 2];
}

double median_ms(int times, const std::function<void(int)>& work) {
  std::vector<double> taken;
  for (int i = 0; i < times; ++i) taken.push_back(ms_of([&] { work(i); }));
  return median_of(taken);
}

// Taken in turns, so that what else the machine does meets both.
struct Pair {
  double ours = 0;
  double theirs = 0;
};
Pair in_turns(int times, const std::function<void(int)>& ours,
              const std::function<void(int)>& theirs) {
  std::vector<double> a;
  std::vector<double> b;
  for (int i = 0; i < times; ++i) {
    b.push_back(ms_of([&] { theirs(i); }));
    a.push_back(ms_of([&] { ours(i); }));
  }
  return {median_of(a), median_of(b)};
}

void shell(const std::string& command) {
  if (std::system((command + " >/dev/null 2>&1").c_str()) != 0) die(command + " failed");
}

void make_tree(const fs::path& tree) {
  std::mt19937 random(1);
  const std::string_view letters = "abcdefgh \n";
  for (int d = 0; d < kFolders; ++d) {
    const fs::path folder = tree / ("pkg" + std::to_string(d));
    must(make_dirs(folder));
    for (int f = 0; f < kFilesPerFolder; ++f) {
      std::string text;
      while (text.size() < 1200) text.push_back(letters[random() % letters.size()]);
      std::string whole;
      for (int i = 0; i < 10; ++i) whole += text;
      must(write_file(folder / ("file" + std::to_string(f) + ".py"), whole));
    }
  }
  std::string noise;
  while (noise.size() < kLarge) {
    const uint32_t word = static_cast<uint32_t>(random());
    noise.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  must(write_file(tree / "weights.bin", noise));
}

// As a server keeps what a client sends, less the socket between them.
void store_all(const snapshot::Captured& captured, const fs::path& tree, blob::Store& store) {
  blob::PackReader reader(store);
  std::string buffer(256 * 1024, '\0');
  for (const snapshot::Entry& entry : captured.tree.entries) {
    if (entry.kind == snapshot::EntryKind::symlink || entry.kind == snapshot::EntryKind::folder)
      continue;
    must(reader.write(blob::pack_head({entry.digest, entry.size})));
    const Fd fd = must(open_file(tree / entry.path, O_RDONLY));
    for (ssize_t got = 0; (got = ::read(fd.get(), buffer.data(), buffer.size())) > 0;) {
      must(reader.write({buffer.data(), static_cast<size_t>(got)}));
    }
  }
  if (!must(reader.finish()).bad.empty()) die("a file changed");
}

int missed = 0;
void row(const char* what, const char* peer, const Pair& pair, double bar) {
  const auto [ours, theirs] = pair;
  const double ratio = ours / theirs;
  std::printf("%-34s %8.1f ms  %-12s %8.1f ms  %5.2fx  <= %.1fx %s\n", what, ours, peer, theirs,
              ratio, bar, ratio <= bar ? "" : "MISSED");
  missed += ratio <= bar ? 0 : 1;
}

void ignored_row(const fs::path& folder) {
  must(make_dirs(folder));
  must(write_file(folder / ".amlignore", "data/\n*.tmp\n"));
  must(write_file(folder / "train.py", "pass\n"));
  const auto take = [&](int) { must(snapshot::capture(folder, {})); };
  take(0);
  const double without = median_ms(15, take);
  for (int d = 0; d < 1000; ++d) {
    const fs::path sub = folder / "data" / std::to_string(d);
    must(make_dirs(sub));
    for (int f = 0; f < 1000; ++f) must(open_file(sub / std::to_string(f), O_CREAT | O_WRONLY));
  }
  const double with = median_ms(15, take);
  std::printf("%-34s %8.2f ms  %-12s %8.2f ms         <= 10 ms %s\n", "1,000,000 ignored files add",
              with - without, "without", without, with - without <= 10 ? "" : "MISSED");
  missed += with - without <= 10 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const TempDir scratch;
  const fs::path top = scratch.path();
  const fs::path tree = top / "tree";
  make_tree(tree);
  shell("sync");
  const snapshot::CaptureOptions options{.cache = top / "cache"};

  const auto numbered = [&](const char* name, int i) {
    return (top / (name + std::to_string(i))).string();
  };
  const std::string in_tree = "cd '" + tree.string() + "' && ";

  snapshot::Captured captured;
  std::unique_ptr<blob::Store> store;
  const Pair first = in_turns(
      3,
      [&](int i) {
        const fs::path root = numbered("store", i);
        store = must(blob::open_folder(root / "blobs", root / "tmp"));
        captured = must(snapshot::capture(tree, {.cache = numbered("cache", i)}));
        store_all(captured, tree, *store);
      },
      [&](int i) { shell(in_tree + "zip -1 -q -r '" + numbered("peer.zip", i) + "' ."); });

  // Its folder is elsewhere: removing it again would slow down ext4, which avoids young inodes.
  const std::string git =
      in_tree + "export GIT_DIR='" + numbered("git", 0) + "' GIT_WORK_TREE=. && git ";
  shell(git + "init -q && git add . && git -c user.name=b -c user.email=b@b commit -q -m x");
  must(snapshot::capture(tree, options));
  const Pair unchanged = in_turns(
      25,
      [&](int) {
        if (must(snapshot::capture(tree, options)).files_hashed > 0)
          die("unchanged files were read");
      },
      [&](int) { shell(git + "status"); });

  const Pair copy = in_turns(
      5,
      [&](int i) {
        must(snapshot::checkout(
            captured.tree, numbered("copy", i),
            [&](const snapshot::Entry& entry) { return store->open(entry.digest); }));
      },
      [&](int i) { shell("cp -r '" + tree.string() + "' '" + numbered("cp", i) + "'"); });
  shell("diff -r '" + tree.string() + "' '" + numbered("copy", 0) + "'");

  row("unchanged capture", "git status", unchanged, 2.0);
  row("first capture, stored and synced", "zip -1", first, 0.5);
  row("checkout", "cp -r", copy, 1.2);
  if (argc > 1 && std::string_view(argv[1]) == "--ignored") ignored_row(top / "ignored");
  return missed > 0 ? 1 : 0;
}
