#include "api/collector.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "api/test_yard.h"
#include "store/garbage.h"

// Garbage collection beside the rest of the server.
namespace trainyard::api {
namespace {

struct Code {
  std::string file;
  std::string text;

  Digest blob() const { return sha256(file); }
  Digest tree() const { return sha256(text); }
};

Code code_of(const std::string& bytes) {
  snapshot::Tree tree;
  tree.entries.push_back({.path = "a.py", .size = bytes.size(), .digest = sha256(bytes)});
  return {bytes, snapshot::encode(tree)};
}

struct Collecting : Yard {
  explicit Collecting(const CollectorOptions& options = {}) : collector(*house, options) {
    house->collector = &collector;
  }
  ~Collecting() { collector.stop(); }

  Code keep(const std::string& bytes) {
    Code code = code_of(bytes);
    REQUIRE(blobs->put(code.blob(), code.file).has_value());
    REQUIRE(blobs->put(code.tree(), code.text).has_value());
    REQUIRE(blobs->sync().has_value());
    return code;
  }
  Result<control::Submitted> send_run(const std::string& id, const Code& code) {
    RunSpec spec;
    spec.experiment = "e";
    spec.command = {"true"};
    spec.snapshot = code.tree().hex();
    return control->submit({RunId{id}, spec, "owner"});
  }
  fs::path path(const Digest& digest) const {
    return home.blobs() / digest.hex().substr(0, 2) / digest.hex().substr(2);
  }
  bool there(const Digest& digest) const { return fs::exists(path(digest)); }
  // As if nobody had touched anything for two days.
  void age_files() const {
    for (const auto& entry : fs::recursive_directory_iterator(home.root())) age(entry.path());
  }
  static void age(const fs::path& file) {
    timespec old{};
    clock_gettime(CLOCK_REALTIME, &old);
    old.tv_sec -= 2 * 24 * 3600;
    const timespec times[] = {old, old};
    REQUIRE(::utimensat(AT_FDCWD, file.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0);
  }
  void change(const std::string& sql) {
    REQUIRE(store->write(Durable::yes, [&](db::Transaction& transaction) -> Status {
      TRY(transaction.run(sql));
      return {};
    }));
  }
  int64_t count(const std::string& table) {
    int64_t found = -1;
    REQUIRE(store->read([&](db::Db& db) -> Status {
      TRY_SET(db::Statement row, db.query("SELECT COUNT(*) FROM " + table));
      TRY(row.next());
      found = row.integer(0);
      return {};
    }));
    return found;
  }
  void age_snapshots() { change("UPDATE snapshots SET verified = verified - 172800000000"); }
  // Its row and nothing else, as a deletion that was cut short leaves it.
  void lose(const std::string& id) { change("DELETE FROM runs WHERE id = '" + id + "'"); }

  Json collect(Collector::Mode mode = Collector::Mode::remove) {
    auto report = collector.collect(mode, {});
    REQUIRE_MESSAGE(report.has_value(), report.error().message);
    return *report;
  }

  Collector collector;
};

}  // namespace

TEST_CASE("what runs refer to stays, garbage goes, and what is young waits") {
  Collecting yard;
  const Code used = yard.keep("used");
  const Code garbage = yard.keep("garbage");
  REQUIRE(yard.send_run("calm-finch-1", used));
  yard.age_files();
  const Code young = yard.keep("young");

  const Json looked = yard.collect(Collector::Mode::dry_run);
  CHECK(looked["removedBlobs"] == 2);
  CHECK(yard.there(garbage.blob()));

  const Json report = yard.collect();
  CHECK_MESSAGE(report["removedBlobs"] == 2, report.dump());
  CHECK(report["youngBlobs"] == 2);
  CHECK(report["removedBytes"] == garbage.file.size() + garbage.text.size());
  for (const Code& code : {used, young}) {
    CHECK(yard.there(code.blob()));
    CHECK(yard.there(code.tree()));
  }
  CHECK(!yard.there(garbage.blob()));
  CHECK(!yard.there(garbage.tree()));
}

TEST_CASE("outputs of runs and of attempts, and build contexts of environments stay") {
  Collecting yard;
  const Code outputs = yard.keep("outputs");
  const Code earlier = yard.keep("of the attempt before");
  const Code context = yard.keep("context");
  const RunId run = yard.submit("calm-finch-2");
  yard.place(run);
  yard.finish(run);
  yard.change("UPDATE runs SET outputs = '" + outputs.tree().hex() + "'");
  yard.change("UPDATE attempts SET outcome = '{\"outputs\": \"" + earlier.tree().hex() + "\"}'");
  yard.change(
      "INSERT INTO environments (workspace_id, name, version, environment, fingerprint, "
      "description, archived, created_by, created) VALUES (1, 'e', '1', "
      "'{\"recipe\": {\"context\": \"" +
      context.tree().hex() + "\"}}', '', '', 0, 'owner', 1)");
  yard.age_files();
  CHECK(yard.collect()["removedBlobs"] == 0);
  for (const Code& code : {outputs, earlier, context}) CHECK(yard.there(code.blob()));
}

TEST_CASE("a snapshot whose run is gone is forgotten, and its next submission is asked for it") {
  Collecting yard;
  const Code code = yard.keep("code");
  REQUIRE(yard.send_run("calm-finch-3", code));
  yard.lose("calm-finch-3");
  yard.age_files();
  // Submitted within the grace period: later submissions still rely on it.
  CHECK(yard.collect()["forgottenSnapshots"] == 0);
  CHECK(yard.there(code.blob()));
  REQUIRE(yard.send_run("calm-finch-4", code));
  yard.lose("calm-finch-4");
  yard.age_snapshots();
  CHECK(yard.collect()["forgottenSnapshots"] == 1);
  CHECK(!yard.there(code.blob()));
  const auto refused = yard.send_run("calm-finch-5", code);
  REQUIRE(!refused);
  CHECK(refused.error().kind == ErrorKind::not_found);
  yard.keep("code");
  CHECK(yard.send_run("calm-finch-5", code));
}

TEST_CASE("a submission looks again when its snapshot is forgotten between look and commit") {
  Collecting yard;
  const Code code = yard.keep("code");
  REQUIRE(yard.send_run("calm-finch-6", code));
  // The look finds the row; before the commit a collection takes row and blobs.
  std::atomic<bool> armed = true;
  const auto take = [&](db::Transaction& transaction) -> Status {
    TRY(transaction.run("DELETE FROM runs WHERE id = 'calm-finch-6'"));
    TRY(transaction.run("DELETE FROM snapshots"));
    return {};
  };
  std::thread other;
  REQUIRE(yard.store->write(Durable::no, [&](db::Transaction& transaction) -> Status {
    // This transaction is open while the submission looks; its own commit waits behind it.
    if (armed.exchange(false)) {
      other = std::thread(
          [&] { CHECK(yard.send_run("calm-finch-7", code).error().kind == ErrorKind::not_found); });
      // Until it has looked: it then waits for the writer.
      yard.clock.sleep_until(yard.clock.steady() + milliseconds(200), {});
    }
    REQUIRE(fs::remove(yard.path(code.blob())));
    return take(transaction);
  }));
  other.join();
}

TEST_CASE("a tree of which a file is gone counts as missing, so that clients send it again") {
  Collecting yard;
  const Code code = yard.keep("code");
  http::Client client = yard.over_socket();
  const auto missing = [&] {
    const Json body = {{"digests", {code.tree().hex()}}};
    return json_of(
        send(client, http::Method::post, "/api/v1/blobs/missing", wire::dump(body)))["missing"];
  };
  CHECK(missing().empty());
  REQUIRE(fs::remove(yard.path(code.blob())));
  CHECK(missing().size() == 1);
}

TEST_CASE("files of a tree that a client was told is here outlive a collection") {
  Collecting yard;
  const Code code = yard.keep("code");
  yard.age_files();
  http::Client client = yard.over_socket();
  const Json body = {{"digests", {code.tree().hex()}}};
  REQUIRE(send(client, http::Method::post, "/api/v1/blobs/missing", wire::dump(body)).status ==
          200);
  CHECK(yard.collect()["removedBlobs"] == 0);
  CHECK(yard.there(code.blob()));
  CHECK(yard.send_run("calm-finch-8", code));
}

TEST_CASE("nothing that came since a run began to hand in its outputs is removed") {
  Collecting yard;
  const RunId run = yard.submit("calm-finch-9");
  yard.place(run);
  const Code outputs = yard.keep("outputs that no row names yet");
  yard.age_files();
  yard.change("UPDATE attempts SET phase = 'finalizing', placed = placed - 259200000000");
  for (const std::string status : {"Finalizing", "CancelRequested"}) {
    yard.change("UPDATE runs SET status = '" + status + "'");
    CHECK(yard.collect()["removedBlobs"] == 0);
    CHECK(yard.there(outputs.blob()));
  }
  yard.change("UPDATE attempts SET phase = 'running'");
  CHECK(yard.collect()["removedBlobs"] == 2);
}

TEST_CASE("a damaged tree keeps every blob, and the rest is collected") {
  Collecting yard;
  const Code used = yard.keep("used");
  const Code garbage = yard.keep("garbage");
  REQUIRE(yard.send_run("calm-finch-10", used));
  yard.submit("calm-finch-13");
  REQUIRE(make_dirs(yard.home.runs() / "calm-finch-13"));
  yard.lose("calm-finch-13");
  // No tree at all, and one that is another's: its text can be read, and names another blob.
  const std::string other = read_file(yard.path(garbage.tree())).value();
  for (const std::string& damage : {std::string("rotten"), other}) {
    REQUIRE(write_file(yard.path(used.tree()), damage));
    yard.age_files();
    CHECK(yard.collect(Collector::Mode::dry_run)["damagedTrees"] == 1);
  }
  Json report = yard.collect();
  CHECK(report["damagedTrees"] == 1);
  CHECK(report["removedBlobs"] == 0);
  CHECK(report["removedFolders"] == 1);
  for (const Code& code : {used, garbage}) CHECK(yard.there(code.blob()));

  yard.lose("calm-finch-10");
  yard.age_snapshots();
  report = yard.collect();
  CHECK(report["damagedTrees"] == 0);
  CHECK(!yard.there(garbage.blob()));
}

TEST_CASE("a missing tree under files of an interactive run does not stop a collection") {
  Collecting yard;
  const Code garbage = yard.keep("garbage");
  const Code handed_in = yard.keep("handed in");
  yard.submit("calm-finch-14");
  yard.change("UPDATE runs SET outputs = '" + sha256("never sent").hex() + "'");
  yard.change("INSERT INTO pending_outputs (run, path, digest, size) SELECT number, 'a', '" +
              handed_in.blob().hex() + "', 9 FROM runs");
  yard.age_files();
  for (const auto mode : {Collector::Mode::dry_run, Collector::Mode::remove}) {
    const Json report = yard.collect(mode);
    CHECK(report["missingTrees"] == 1);
    CHECK(report["removedBlobs"] == 3);
    // It is in no tree yet.
    CHECK(yard.count("pending_outputs") == 1);
  }
  CHECK(yard.there(handed_in.blob()));
  CHECK(!yard.there(garbage.blob()));
}

TEST_CASE("a purge gives way to a check, and goes on after it") {
  Collecting yard({.every = seconds(0), .busy_retry = milliseconds(20)});
  http::Client client = yard.over_socket();
  constexpr int kRuns = 200;
  for (int i = 0; i < kRuns; ++i) {
    const RunId run = yard.submit("calm-finch-" + std::to_string(i));
    yard.place(run);
    yard.finish(run);
  }
  yard.change("UPDATE runs SET deleted = 1");
  const auto wait_for = [&](auto&& reached) {
    const SteadyTime end = yard.clock.steady() + seconds(60);
    while (!reached() && yard.clock.steady() < end) {
      yard.clock.sleep_until(yard.clock.steady() + milliseconds(1), {});
    }
    REQUIRE(reached());
  };
  yard.collector.start();
  wait_for([&] { return yard.count("runs") < kRuns; });
  REQUIRE(send(client, http::Method::post, "/api/v1/server/check", "{}").status == 200);
  CHECK(yard.count("runs") > 0);
  wait_for([&] { return yard.count("runs") == 0; });

  // One that finds a backup under way is not forgotten either.
  const RunId last = yard.submit("calm-finch-last");
  yard.place(last);
  yard.finish(last);
  {
    const std::lock_guard backup(yard.house->upkeep);
    REQUIRE(send(client, http::Method::del, "/api/v1/runs/calm-finch-last?now=1").status == 200);
    yard.clock.sleep_until(yard.clock.steady() + milliseconds(50), {});
    CHECK(yard.count("runs") == 1);
  }
  wait_for([&] { return yard.count("runs") == 0; });
}

TEST_CASE("folders of runs that are gone are removed") {
  Collecting yard;
  const RunId kept = yard.submit("calm-finch-11");
  yard.submit("calm-finch-12");
  for (const char* id : {"calm-finch-11", "calm-finch-12"}) {
    REQUIRE(make_dirs(yard.home.runs() / id / "files"));
    REQUIRE(make_dirs(yard.home.node() / (std::string(id) + ".1")));
  }
  yard.lose("calm-finch-12");
  CHECK(yard.collect()["removedFolders"] == 0);  // Too young.
  yard.age_files();
  CHECK(yard.collect()["removedFolders"] == 2);
  CHECK(fs::exists(yard.home.run(kept)));
  CHECK(fs::exists(yard.home.node() / "calm-finch-11.1"));
  CHECK(!fs::exists(yard.home.runs() / "calm-finch-12"));
  CHECK(!fs::exists(yard.home.node() / "calm-finch-12.1"));
}

TEST_CASE("a pinned tree stays though nothing refers to it") {
  Collecting yard;
  const Code code = yard.keep("an environment");
  yard.house->pins.pin(code.tree().hex(), yard.clock.steady() + std::chrono::hours(1));
  yard.age_files();
  CHECK(yard.collect()["removedBlobs"] == 0);
  yard.house->pins.pin(code.tree().hex(), yard.clock.steady());
  CHECK(yard.collect()["removedBlobs"] == 2);
}

TEST_CASE("an admin asks for a collection and reads its report; none runs beside a backup") {
  Collecting yard({.every = seconds(0)});
  yard.collector.start();
  yard.keep("garbage");
  yard.age_files();
  http::Client client = yard.over_socket();
  {
    const std::lock_guard backup(yard.house->upkeep);
    CHECK(send(client, http::Method::post, "/api/v1/server/gc", "{}").status == 409);
  }
  REQUIRE(send(client, http::Method::post, "/api/v1/server/gc", R"({"dryRun": true})").status ==
          202);
  Json state;
  do {
    state = json_of(fetch(client, "/api/v1/server/gc"));
  } while (state["running"] == true);
  CHECK(state["report"]["removedBlobs"] == 2);
  CHECK(state["error"].is_null());
}

TEST_CASE("collections come by themselves") {
  Collecting yard({.every = seconds(3600), .first = seconds(0)});
  const Code code = yard.keep("garbage");
  yard.age_files();
  yard.collector.start();
  const SteadyTime end = yard.clock.steady() + seconds(30);
  while (yard.there(code.tree()) && yard.clock.steady() < end) {
    yard.clock.sleep_until(yard.clock.steady() + milliseconds(5), {});
  }
  CHECK(!yard.there(code.tree()));
}

}  // namespace trainyard::api
