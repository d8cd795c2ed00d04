#include <fcntl.h>

#include "api/backup.h"
#include "api/check.h"
#include "api/lock.h"
#include "api/test_yard.h"
#include "base/process.h"
#include "db/db.h"

// Backup, restore, check and the lock.
namespace trainyard::api {
namespace {

struct Kept {
  std::string code = "print('precious')";
  std::string tree_text;
  RunId run{"calm-finch-2"};
};

// A finished run with code, console in both outputs and a log file.
Kept fill(Yard& yard) {
  Kept kept;
  snapshot::Tree tree;
  tree.entries.push_back({.path = "a.py", .size = kept.code.size(), .digest = sha256(kept.code)});
  kept.tree_text = snapshot::encode(tree);
  REQUIRE(yard.blobs->put(sha256(kept.code), kept.code).has_value());
  REQUIRE(yard.blobs->put(sha256(kept.tree_text), kept.tree_text).has_value());
  REQUIRE(yard.blobs->sync().has_value());
  RunSpec spec;
  spec.experiment = "e";
  spec.command = {"true"};
  spec.snapshot = sha256(kept.tree_text).hex();
  REQUIRE(yard.control->submit({kept.run, spec, "owner"}).has_value());
  yard.place(kept.run);
  const logs::Piece pieces[] = {{logs::Stream::out, "said\n"}, {logs::Stream::err, "moaned\n"}};
  REQUIRE(yard.logs->append({kept.run, 1}, 0, 0, pieces).has_value());
  const auto file = yard.store->file(kept.run, "logs/x").value();
  REQUIRE(yard.logs->append_file(kept.run, file.number, 0, "logged", logs::LogStore::Reset::no)
              .has_value());
  yard.finish(kept.run);
  return kept;
}

Json check(Yard& yard, CheckDepth depth) {
  return check_parts({*yard.store, *yard.blobs, *yard.logs}, depth).value();
}

fs::path blob_path(const Home& home, const Digest& digest) {
  for (const auto& entry : fs::recursive_directory_iterator(home.blobs())) {
    if (!entry.is_regular_file()) continue;
    std::string name = entry.path().lexically_relative(home.blobs()).string();
    std::erase(name, '/');
    if (name == digest.hex()) return entry.path();
  }
  FAIL("the blob has no file");
  return {};
}

TEST_CASE("a backup restored in a new home is whole") {
  Yard yard;
  const Kept kept = fill(yard);
  const fs::path folder = yard.dir.path() / "backup";
  REQUIRE(make_dirs(yard.home.environments() / "locks"));
  REQUIRE(write_file(yard.home.environments() / "locks" / "hash", "pear==2.5\n"));
  const Json manifest = backup_to({yard.home, *yard.store, yard.clock}, folder).value();
  CHECK(manifest["blobs"] == 2);
  CHECK(manifest["format"] == 1);

  const Home second(yard.dir.path() / "second");
  REQUIRE(restore(folder, second).has_value());
  const Json found = check_home(second, yard.clock, CheckDepth::content).value();
  CHECK_MESSAGE(found["ok"] == true, found.dump());
  CHECK(found["runs"] == 1);
  CHECK(found["blobs"] == 2);
  CHECK(read_file(second.environments() / "locks" / "hash").value() == "pear==2.5\n");
  logs::LogStore logs(second);
  CHECK(logs.read(kept.run, 0, logs::View::out, 0, 100)->bytes == "said\n");
  const auto store = store::Store::open(second.database(), yard.clock).value();
  CHECK(store->run(kept.run).value().life.status == RunStatus::completed);

  CHECK(restore(folder, second).error().kind == ErrorKind::conflict);
  CHECK(backup_to({yard.home, *yard.store, yard.clock}, folder).error().kind ==
        ErrorKind::conflict);
}

TEST_CASE("a backup names the key of its secrets apart, or leaves it out and says so") {
  Yard yard;
  REQUIRE(yard.house->box());
  REQUIRE(yard.store->write(Durable::yes, [](db::Transaction& transaction) -> Status {
    TRY(
        transaction.run("INSERT INTO secrets (workspace_id, name, sealed, created_by, created, "
                        "changed) VALUES (1, 'password', 'x', 'owner', 1, 1)"));
    return {};
  }));
  const BackupParts parts{yard.home, *yard.store, yard.clock};
  const fs::path with = yard.dir.path() / "with";
  const Json named = backup_to(parts, with).value();
  CHECK(named["keyFile"] == "secrets.key");
  CHECK(named["secrets"] == 1);

  const fs::path without = yard.dir.path() / "without";
  const Json manifest = backup_to(parts, without, KeyFile::leave_out).value();
  CHECK(manifest["keyFile"].is_null());
  CHECK(!fs::exists(without / "secrets.key"));

  const Home second(yard.dir.path() / "second");
  const Json restored = restore(without, second).value();
  CHECK(restored["missingKey"] == true);
  CHECK(!fs::exists(second.secrets_key()));

  const Home third(yard.dir.path() / "third");
  REQUIRE(write_file(yard.dir.path() / "wrong", std::string(32, 'k'), 0600));
  CHECK(restore(without, third, yard.dir.path() / "wrong").error().kind == ErrorKind::invalid);
  CHECK(restore(without, third, yard.dir.path() / "none").error().kind == ErrorKind::not_found);
  CHECK(restore(without, third, yard.home.secrets_key()).value()["missingKey"] == false);
  CHECK(read_file(third.secrets_key()).value() == read_file(yard.home.secrets_key()).value());
}

TEST_CASE("a backup that is not whole, of another format or in the home is refused") {
  Yard yard;
  fill(yard);
  const BackupParts parts{yard.home, *yard.store, yard.clock};
  CHECK(backup_to(parts, yard.home.root() / "backup").error().kind == ErrorKind::invalid);
  CHECK(backup_to(parts, "backup").error().kind == ErrorKind::invalid);
  const fs::path folder = yard.dir.path() / "backup";
  REQUIRE(backup_to(parts, folder).has_value());
  const Home second(yard.dir.path() / "second");
  REQUIRE(write_file(folder / "manifest.json", R"({"format": 99})").has_value());
  CHECK(restore(folder, second).error().kind == ErrorKind::conflict);
  fs::remove(folder / "manifest.json");
  CHECK(restore(folder, second).error().kind == ErrorKind::not_found);
  CHECK_FALSE(fs::exists(second.database()));
}

TEST_CASE("a running server's home is neither restored into nor checked from outside") {
  Yard yard;
  fill(yard);
  const fs::path folder = yard.dir.path() / "backup";
  REQUIRE(backup_to({yard.home, *yard.store, yard.clock}, folder).has_value());
  const Home second(yard.dir.path() / "second");
  REQUIRE(prepare_home(second).has_value());
  HomeLock held = HomeLock::take(second).value();
  CHECK(restore(folder, second).error().kind == ErrorKind::conflict);
  HomeLock also = HomeLock::take(yard.home).value();
  CHECK(check_home(yard.home, yard.clock, CheckDepth::presence).error().kind ==
        ErrorKind::conflict);
}

TEST_CASE("check finds a blob that is gone, cut or changed") {
  Yard yard;
  const Kept kept = fill(yard);
  CHECK(check(yard, CheckDepth::content)["ok"] == true);
  const fs::path path = blob_path(yard.home, sha256(kept.code));
  std::string other = kept.code;
  other[0] = 'P';
  fs::permissions(path, fs::perms::owner_all);

  REQUIRE(write_file(path, other).has_value());
  CHECK(check(yard, CheckDepth::presence)["ok"] == true);
  Json found = check(yard, CheckDepth::content);
  CHECK(found["ok"] == false);
  REQUIRE(found["findings"].size() == 1);
  CHECK(found["findings"][0]["name"] == sha256(kept.code).hex());
  CHECK(found["findings"][0]["run"] == kept.run.value);

  REQUIRE(write_file(path, "short").has_value());
  CHECK(check(yard, CheckDepth::presence)["findings"].size() == 1);
  fs::remove(path);
  found = check(yard, CheckDepth::presence);
  CHECK(found["findings"][0]["problem"] == "is missing");
  fs::remove(blob_path(yard.home, sha256(kept.tree_text)));
  found = check(yard, CheckDepth::presence);
  REQUIRE(found["findings"].size() == 1);
  CHECK(found["findings"][0]["name"] == sha256(kept.tree_text).hex());
}

TEST_CASE("check finds a console or a log file that is gone") {
  Yard yard;
  const Kept kept = fill(yard);
  fs::remove(yard.home.run(kept.run) / "console-0.log");
  CHECK(check(yard, CheckDepth::presence)["findings"][0]["what"] == "console");
  fs::remove_all(yard.home.run(kept.run));
  const Json found = check(yard, CheckDepth::presence);
  REQUIRE(found["findings"].size() == 1);
  CHECK(found["findings"][0]["what"] == "log");
  CHECK(found["findings"][0]["name"] == "logs/x");
}

TEST_CASE("a second lock is refused with the first one's process and address") {
  TempDir dir;
  const Home home(dir.path());
  HomeLock first = HomeLock::take(home).value();
  REQUIRE(first.describe(8470, "http://127.0.0.1:8470", WallTime{}).has_value());
  const Result<HomeLock> second = HomeLock::take(home);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().kind == ErrorKind::conflict);
  CHECK(second.error().message.find(std::to_string(::getpid())) != std::string::npos);
  CHECK(second.error().message.find("http://127.0.0.1:8470") != std::string::npos);
  CHECK(read_lock(home).port == 8470);
  CHECK(read_lock(home).host == host_name());
}

TEST_CASE("a lock left by a crash here is taken, one of another host is not") {
  TempDir dir;
  const Home home(dir.path());
  {
    HomeLock crashed = HomeLock::take(home).value();
    REQUIRE(crashed.describe(1, "http://x", WallTime{}).has_value());
  }
  CHECK(read_lock(home).pid == ::getpid());
  {
    CHECK(HomeLock::take(home).has_value());
  }
  const std::string other = R"({"host":"node-7","pid":42,"bootId":"b","port":1,"started":"then"})";
  REQUIRE(write_file(home.lock(), other).has_value());
  const Result<HomeLock> refused = HomeLock::take(home);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("node-7") != std::string::npos);
  CHECK(refused.error().hint.find(home.lock().string()) != std::string::npos);
  // The same machine under another name, as containers have them.
  const Json renamed = {{"host", "node-7"}, {"pid", 42}, {"bootId", boot_id()}};
  REQUIRE(write_file(home.lock(), renamed.dump()).has_value());
  HomeLock taken = HomeLock::take(home).value();
  REQUIRE(taken.describe(1, "http://x", WallTime{}).has_value());
  taken.clear();
  CHECK(read_lock(home).host.empty());
}

}  // namespace
}  // namespace trainyard::api
