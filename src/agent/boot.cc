#include "agent/boot.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/command.h"
#include "base/hash.h"
#include "base/text.h"

namespace trainyard::agent {
namespace {

constexpr milliseconds kCommandMax{30'000};

// As systemd reads a word of ExecStart: quoted, '%' and '$' doubled.
std::string unit_word(const std::string& word) {
  std::string text = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
    if (c == '%' || c == '$') text += c;
  }
  return text + "\"";
}

// For sh, in a crontab: there '%' ends the command unless it is escaped.
std::string cron_word(const std::string& word) {
  std::string text = "'";
  for (const char c : word) {
    if (c == '\'') {
      text += "'\\''";
    } else if (c == '%') {
      text += "'\\%'";
    } else {
      text += c;
    }
  }
  return text + "'";
}

// One a server: a machine may work for several.
std::string unit_name(const BootPlan& plan) {
  return "trainyard-node-" + sha256(plan.server + plan.home.string()).hex().substr(0, 8) +
         ".service";
}

bool has_systemd() {
  std::error_code ignored;
  return fs::is_directory("/run/systemd/system", ignored) && !find_program("systemctl").empty();
}

fs::path unit_folder() {
  if (::geteuid() == 0) return "/etc/systemd/system";
  const char* home = std::getenv("HOME");
  return fs::path(home != nullptr ? home : "/") / ".config/systemd/user";
}

Status systemctl(std::vector<std::string> words) {
  std::vector<std::string> command = {"systemctl"};
  if (::geteuid() != 0) command.emplace_back("--user");
  command.insert(command.end(), words.begin(), words.end());
  TRY(output_of(std::move(command), kCommandMax));
  return {};
}

Result<Booted> start_by_systemd(const BootPlan& plan) {
  const std::string name = unit_name(plan);
  const fs::path file = unit_folder() / name;
  TRY(make_dirs(file.parent_path()));
  TRY(write_file(file, unit_text(plan)));
  TRY_WITHIN("systemctl", systemctl({"daemon-reload"}));
  TRY_WITHIN("systemctl", systemctl({"enable", "--now", name}));
  std::string words = "systemd starts it at boot: " + file.string();
  if (::geteuid() != 0) words += "; for that without a login: loginctl enable-linger";
  return Booted{words, true};
}

// The user's table without our line, and with `line` at its end if it is not empty.
Status change_crontab(const BootPlan& plan, const std::string& line) {
  const std::string before = output_of({"crontab", "-l"}, kCommandMax).value_or("");
  std::string table;
  for (const std::string& kept : split(before, '\n')) {
    if (kept != cron_line(plan) && !(kept.empty() && table.empty())) table += kept + "\n";
  }
  while (table.ends_with("\n\n")) table.pop_back();
  if (!line.empty()) table += line + "\n";
  if (table == before) return {};
  const TempDir folder;
  const fs::path file = folder.path() / "crontab";
  TRY(write_file(file, table, 0600));
  TRY(output_of({"crontab", file.string()}, kCommandMax));
  return {};
}

}  // namespace

std::string unit_text(const BootPlan& plan) {
  return "[Unit]\n"
         "Description=Trainyard: runs of " +
         plan.server +
         " on this machine\n"
         "After=network-online.target\n"
         "Wants=network-online.target\n"
         "\n"
         "[Service]\n"
         "ExecStart=" +
         unit_word(plan.binary.string()) + " node run --home " + unit_word(plan.home.string()) +
         " --server " + unit_word(plan.server) +
         "\n"
         "# Supervisors and what they carry live on, and the next daemon takes them up.\n"
         "KillMode=process\n"
         "Restart=always\n"
         "RestartSec=5\n"
         "\n"
         "[Install]\n"
         "WantedBy=" +
         (::geteuid() == 0 ? "multi-user.target" : "default.target") + "\n";
}

std::string cron_line(const BootPlan& plan) {
  return "@reboot " + cron_word(plan.binary.string()) + " node run --home " +
         cron_word(plan.home.string()) + " --server " + cron_word(plan.server);
}

Result<Booted> start_at_boot(const BootPlan& plan) {
  if (has_systemd()) return start_by_systemd(plan);
  if (!find_program("crontab").empty()) {
    TRY_WITHIN("crontab", change_crontab(plan, cron_line(plan)));
    return Booted{"cron starts it at boot: " + cron_line(plan), false};
  }
  return fail(ErrorKind::unavailable, "neither systemd nor cron is on this machine",
              "Have it started at boot by what is, as: " + plan.binary.string() +
                  " node run --home " + plan.home.string() + " --server " + plan.server);
}

Status forget_boot(const BootPlan& plan) {
  const fs::path file = unit_folder() / unit_name(plan);
  std::error_code ignored;
  if (has_systemd() && fs::exists(file, ignored)) {
    TRY_WITHIN("systemctl", systemctl({"disable", "--now", unit_name(plan)}));
    TRY(remove_tree(file));
    TRY_WITHIN("systemctl", systemctl({"daemon-reload"}));
  }
  if (!find_program("crontab").empty()) TRY_WITHIN("crontab", change_crontab(plan, {}));
  return {};
}

}  // namespace trainyard::agent
