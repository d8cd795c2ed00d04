#include "store/reserve.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>

#include "base/fake_clock.h"
#include "store/history.h"
#include "store/store.h"

using namespace trainyard;
using store::Reserve;

namespace {

// A disk of our own, small enough to fill; only root may make one.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& size) {
    mounted_ = ::mount("tmpfs", dir_.path().c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(dir_.path().c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  const fs::path& path() const { return dir_.path(); }

  void fill() {
    const auto file = open_file(dir_.path() / "filler", O_WRONLY | O_CREAT | O_APPEND);
    REQUIRE(file);
    for (const size_t size : {size_t{1} << 20, size_t{1} << 12}) {
      while (write_all(file->get(), std::string(size, 'x'), "filler")) {
      }
    }
  }
  void clear() { fs::remove(dir_.path() / "filler"); }

 private:
  TempDir dir_;
  bool mounted_ = false;
};

}  // namespace

TEST_CASE("a reserve is made, given up once, and taken back when there is room") {
  TempDir dir;
  const fs::path file = dir.path() / "reserve";
  Reserve reserve(file, 1 << 20);
  CHECK(fs::file_size(file) == 1 << 20);
  CHECK(reserve.check());
  CHECK(reserve.give_up());
  CHECK(!fs::exists(file));
  CHECK(!reserve.give_up());
  CHECK(reserve.check());
  CHECK(fs::file_size(file) == 1 << 20);
}

TEST_CASE("without a reserve nothing is refused and nothing given up") {
  Reserve reserve("");
  CHECK(reserve.check());
  CHECK(!reserve.give_up());
}

TEST_CASE("a reserve that does not fit is not taken") {
  TempDir dir;
  Reserve reserve(dir.path() / "reserve", int64_t{1} << 60);
  CHECK(!fs::exists(dir.path() / "reserve"));
  const Status status = reserve.check();
  REQUIRE(!status);
  CHECK(status.error().kind == ErrorKind::no_space);
}

TEST_CASE("on a full disk runs under way are brought to their end and the database stays whole") {
  SmallDisk disk("64m");
  if (!disk.mounted()) {
    MESSAGE("skipped: only root can mount a small disk");
    return;
  }
  FakeClock clock;
  auto opened =
      store::Store::open(disk.path() / "trainyard.db", clock, {.reserve = disk.path() / "reserve"});
  REQUIRE(opened);
  store::Store& store = **opened;
  const auto add = [&](const std::string& id) {
    return store.write(Durable::yes, [&](db::Transaction& t) -> Status {
      TRY(store::add_queued_run(t, RunId{id}, store::plain_spec(), clock.wall()));
      return {};
    });
  };
  REQUIRE(add("run-0"));
  REQUIRE(store.check_space());
  disk.fill();
  // The log of changes has some room of its own; past it the reserve is given up.
  int added = 0;
  while (fs::exists(disk.path() / "reserve") && added < 5000) {
    REQUIRE(add("more-" + std::to_string(added++)));
  }
  CHECK(!fs::exists(disk.path() / "reserve"));
  const Status refused = store.check_space();
  REQUIRE(!refused);
  CHECK(refused.error().kind == ErrorKind::no_space);
  CHECK(store.write(Durable::yes, [&](db::Transaction& t) -> Status {
    TRY_SET(store::RunHead head, store::run_head(t.db(), RunId{"run-0"}));
    head.life.status = RunStatus::failed;
    return store::save_run(t, head);
  }));
  disk.fill();
  Status last;
  for (int i = 0; i < 20'000 && last; ++i) last = add("past-" + std::to_string(i));
  REQUIRE(!last);
  CHECK(last.error().kind == ErrorKind::no_space);
  CHECK(store.check());
  CHECK(store.run(RunId{"run-0"})->life.status == RunStatus::failed);
  disk.clear();
  CHECK(store.check_space());
  CHECK(add("again"));
}
