#include "base/log.h"

#include <fcntl.h>
#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"

namespace trainyard {
namespace {

// Shorter than any secret we make (base/id.h: 52), long enough for no word to be taken for one.
constexpr size_t kSecretLengthMin = 16;
constexpr size_t kPrefixLength = 4;  // "tyu_"

bool is_token_prefix(std::string_view text) {
  return text.size() >= kPrefixLength && text[0] == 't' && text[1] == 'y' && text[2] >= 'a' &&
         text[2] <= 'z' && text[3] == '_';
}

// "Bearer tyu_x7k2…" -> "Bearer tyu_***"
std::string mask_tokens(std::string_view text) {
  std::string masked;
  while (!text.empty()) {
    if (is_token_prefix(text)) {
      size_t end = kPrefixLength;
      while (end < text.size() &&
             ((text[end] >= 'a' && text[end] <= 'z') || (text[end] >= '0' && text[end] <= '9'))) {
        ++end;
      }
      if (end - kPrefixLength >= kSecretLengthMin) {
        masked.append(text.substr(0, kPrefixLength)).append("***");
        text.remove_prefix(end);
        continue;
      }
    }
    masked.push_back(text.front());
    text.remove_prefix(1);
  }
  return masked;
}

// By hand: JSON's library stands two floors up, and this is all that is needed of it.
void append_json_string(std::string& line, std::string_view text) {
  line.push_back('"');
  for (const char c : to_utf8(mask_tokens(text))) {
    switch (c) {
      case '"':
        line.append("\\\"");
        break;
      case '\\':
        line.append("\\\\");
        break;
      case '\n':
        line.append("\\n");
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
          line.append(fmt::format("\\u{:04x}", static_cast<unsigned>(c)));
        } else {
          line.push_back(c);
        }
    }
  }
  line.push_back('"');
}

class FileLog : public Log {
 public:
  FileLog(const Clock& clock, FileLogOptions options)
      : clock_(clock), options_(std::move(options)) {}

 private:
  struct File {
    Fd fd;
    uint64_t size = 0;
  };

  void write(std::string_view level, std::string_view event,
             std::initializer_list<LogField> fields) override {
    const std::string line = format_log_line(clock_.wall(), level, event, fields) + "\n";
    file_.with([&](File& file) {
      if (file.fd && file.size + line.size() > options_.size_max && file.size > 0) {
        file.fd.reset();
        rotate();
      }
      if (!file.fd) open(file);
      // A log that cannot be written, on a full disk say, must not stop the work; the file is
      // opened anew with the next line.
      if (!file.fd) return;
      if (write_all(file.fd.get(), line, "log")) {
        file.size += line.size();
      } else {
        file.fd.reset();
      }
    });
  }

  void open(File& file) {
    if (!make_dirs(options_.path.parent_path(), 0700)) return;
    auto opened = open_file(options_.path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (!opened) return;
    file.fd = *std::move(opened);
    file.size = file_size(file.fd.get(), "log").value_or(0);
  }

  void rotate() {
    std::error_code ignored;
    for (int i = options_.kept; i > 0; --i) fs::rename(name(i - 1), name(i), ignored);
    if (options_.kept <= 0) fs::remove(options_.path, ignored);
  }

  fs::path name(int age) const {
    return age == 0 ? options_.path : fs::path(options_.path.string() + "." + std::to_string(age));
  }

  const Clock& clock_;
  const FileLogOptions options_;
  Guarded<File> file_;
};

}  // namespace

std::unique_ptr<Log> open_file_log(const Clock& clock, FileLogOptions options) {
  return std::make_unique<FileLog>(clock, std::move(options));
}

std::string format_log_line(WallTime at, std::string_view level, std::string_view event,
                            std::initializer_list<LogField> fields) {
  std::string line = R"({"at":")" + format_time(at) + R"(","level":")";
  line.append(level).append(R"(","event":)");
  append_json_string(line, event);
  for (const LogField& field : fields) {
    line.push_back(',');
    append_json_string(line, field.key);
    line.push_back(':');
    if (field.number) {
      line.append(field.value);
    } else {
      append_json_string(line, field.value);
    }
  }
  line.push_back('}');
  return line;
}

}  // namespace trainyard
