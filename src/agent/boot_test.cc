#include "agent/boot.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>

namespace trainyard::agent {
namespace {

const BootPlan kPlan{"/opt/train yard/bin/trainyard", "/home/100%/it's", "https://yard:8470"};

TEST_CASE("the unit starts the daemon of that home and server, and spares what it started") {
  const std::string text = unit_text(kPlan);
  CHECK(text.find("ExecStart=\"/opt/train yard/bin/trainyard\" node run --home "
                  "\"/home/100%%/it's\" --server \"https://yard:8470\"\n") != std::string::npos);
  CHECK(text.find("\nKillMode=process\n") != std::string::npos);
  CHECK(text.find("\nRestart=always\n") != std::string::npos);
  CHECK(text.find("TOKEN") == std::string::npos);
}

TEST_CASE("the line of a crontab is one that cron and sh read as it was meant") {
  CHECK(cron_line(kPlan) ==
        "@reboot '/opt/train yard/bin/trainyard' node run --home '/home/100'\\%'/it'\\''s' "
        "--server 'https://yard:8470'");
}

// A crontab that keeps its table beside itself.
struct FakeCron {
  TempDir dir;
  std::string path = getenv("PATH");

  FakeCron() {
    REQUIRE(write_file(dir.path() / "crontab",
                       "#!/bin/sh\nd=$(dirname \"$0\")\n"
                       "if [ \"$1\" = -l ]; then cat \"$d/table\"; else cat \"$1\" > \"$d/table\"; "
                       "fi\n"));
    REQUIRE(chmod((dir.path() / "crontab").c_str(), 0755) == 0);
    setenv("PATH", (dir.path().string() + ":" + path).c_str(), 1);
  }
  ~FakeCron() { setenv("PATH", path.c_str(), 1); }
  std::string table() const { return read_file(dir.path() / "table").value_or(""); }
};

TEST_CASE("a crontab gets our line once, keeps its others, and loses ours when we leave") {
  if (fs::exists("/run/systemd/system")) {
    MESSAGE("skipped: systemd is here, and would be asked instead");
    return;
  }
  FakeCron cron;
  REQUIRE(write_file(cron.dir.path() / "table", "0 3 * * * backup\n"));
  for (int again = 0; again < 2; ++again) {
    const auto booted = start_at_boot(kPlan);
    REQUIRE_MESSAGE(booted.has_value(), booted.error().message);
    CHECK_FALSE(booted->started);
    CHECK(cron.table() == "0 3 * * * backup\n" + cron_line(kPlan) + "\n");
  }
  REQUIRE(forget_boot(kPlan));
  CHECK(cron.table() == "0 3 * * * backup\n");
}

}  // namespace
}  // namespace trainyard::agent
