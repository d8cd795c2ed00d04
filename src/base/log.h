#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/fd.h"
#include "base/guarded.h"

namespace trainyard {

// One field of a line of our own log.
struct LogField {
  std::string_view key;
  std::string value;
  bool number = false;

  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
  LogField(std::string_view k, std::integral auto v)
      : key(k), value(std::to_string(v)), number(true) {}
};

// Our own log: one JSON object a line, {"at":…,"level":…,"event":…,fields}. `event` is a few
// constant words. Secrets are never handed in; a value that looks like one of our tokens is masked
// anyway. Thread-safe.
class Log {
 public:
  virtual ~Log() = default;
  void info(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write("info", event, fields);
  }
  void warn(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write("warn", event, fields);
  }
  void error(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write("error", event, fields);
  }

 private:
  virtual void write(std::string_view level, std::string_view event,
                     std::initializer_list<LogField> fields) = 0;
};

// Says nothing; for tests.
class NullLog : public Log {
  void write(std::string_view, std::string_view, std::initializer_list<LogField>) override {}
};

// Appends to a file; past `size_max` it becomes FILE.1, that FILE.2, and so on up to `kept`.
struct FileLogOptions {
  std::filesystem::path path;
  uint64_t size_max = 16 * 1024 * 1024;
  int kept = 4;
};
std::unique_ptr<Log> open_file_log(const Clock& clock, FileLogOptions options);

// The line a Log writes, without its newline: tested by itself.
std::string format_log_line(WallTime at, std::string_view level, std::string_view event,
                            std::initializer_list<LogField> fields);

}  // namespace trainyard
