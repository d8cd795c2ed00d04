#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <map>

#include "base/command.h"
#include "base/fd.h"
#include "base/guarded.h"
#include "base/text.h"
#include "gpu/driver.h"

namespace trainyard::gpu {
namespace {

constexpr seconds kAnswerMax{20};  // A machine with eight GPUs and no persistence mode takes 10.
constexpr const char* kLoop = "--loop=5";  // Seconds: as often as a run's usage is looked at.
constexpr int64_t kMebibyte = 1 << 20;

const std::string kFormat = "--format=csv,noheader,nounits";
const std::string kDevices = "--query-gpu=index,uuid,name,memory.total,driver_version";
const std::string kUsage =
    "--query-gpu=index,utilization.gpu,memory.used,power.draw,temperature.gpu";

// The fields of a line; they never hold a comma.
std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields = split(line, ',');
  for (std::string& field : fields) field = trim(field);
  return fields;
}

// -1 for what a device does not tell: "[N/A]", "[Not Supported]".
double figure_of(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 ? number : -1;
}

std::optional<Usage> usage_of(std::string_view line) {
  const std::vector<std::string> fields = fields_of(line);
  if (fields.size() != 5 || figure_of(fields[0]) < 0) return std::nullopt;
  Usage usage{.index = static_cast<int>(figure_of(fields[0]))};
  usage.utilization = figure_of(fields[1]);
  const double used_mb = figure_of(fields[2]);
  if (used_mb >= 0) usage.memory_used_bytes = static_cast<int64_t>(used_mb) * kMebibyte;
  usage.power_watts = figure_of(fields[3]);
  usage.temperature = static_cast<int>(figure_of(fields[4]));
  return usage;
}

// One nvidia-smi that goes on telling: starting it takes up to seconds, and who asks must not wait.
class Watch {
 public:
  Watch() = default;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  std::optional<Usage> usage(int index) {
    if (!std::exchange(asked_, true)) start();
    read();
    const auto found = latest_.find(index);
    return found != latest_.end() ? std::optional(found->second) : std::nullopt;
  }

 private:
  void start() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return;
    said_ = Fd(ends[0]);
    const Fd writing(ends[1]);
    pid_ = start_program({"nvidia-smi", kUsage, kFormat, kLoop}, writing.get()).value_or(0);
  }

  void read() {
    std::array<char, 4096> piece{};
    for (;;) {
      const ssize_t got = ::read(said_.get(), piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      if (got == 0) latest_.clear();  // It has ended: what it said holds no more.
      if (got <= 0) break;
      text_.append(piece.data(), static_cast<size_t>(got));
    }
    for (size_t end = text_.find('\n'); end != std::string::npos; end = text_.find('\n')) {
      if (const auto usage = usage_of(std::string_view(text_).substr(0, end))) {
        latest_.insert_or_assign(usage->index, *usage);
      }
      text_.erase(0, end + 1);
    }
  }

  bool asked_ = false;
  pid_t pid_ = 0;
  Fd said_;
  std::string text_;
  std::map<int, Usage> latest_;
};

class SmiDriver : public Driver {
 public:
  std::string start(std::vector<Device>& devices, std::vector<std::string>& remarks) override {
    const Result<std::string> said = output_of({"nvidia-smi", kDevices, kFormat}, kAnswerMax);
    if (!said && said.error().kind == ErrorKind::not_found) return "there is no nvidia-smi";
    if (!said) return "the NVIDIA driver does not answer: " + said.error().message;
    for (const std::string& line : split(*said, '\n')) {
      if (trim(line).empty()) continue;
      const std::vector<std::string> fields = fields_of(line);
      if (fields.size() != 5 || figure_of(fields[0]) < 0 || figure_of(fields[3]) < 0) {
        remarks.push_back("a GPU is left out: nvidia-smi says of it: " + line);
        continue;
      }
      devices.push_back({.index = static_cast<int>(figure_of(fields[0])),
                         .uuid = fields[1],
                         .name = fields[2],
                         .memory_bytes = static_cast<int64_t>(figure_of(fields[3])) * kMebibyte});
      version_ = fields[4];
    }
    return "";
  }

  // Where it is on, a device does not tell its utilisation; nothing else depends on it here.
  bool in_mig_mode(int) const override { return false; }

  std::optional<Usage> usage(int index) const override {
    return watch_.with([&](Watch& watch) { return watch.usage(index); });
  }

  std::string version() const override { return version_; }

 private:
  std::string version_;
  mutable Guarded<Watch> watch_;
};

}  // namespace

std::unique_ptr<Driver> smi_driver() { return std::make_unique<SmiDriver>(); }

}  // namespace trainyard::gpu
