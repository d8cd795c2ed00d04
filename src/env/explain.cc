#include "env/explain.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/text.h"
#include "model/requirement.h"

namespace trainyard::env {
namespace {

// Shortens the output of a build: its first line says what failed, its last lines why.
constexpr size_t kHeadMax = 300;
constexpr size_t kTailMax = 900;
constexpr size_t kLinesShown = 20;  // Of one that does not say where its error begins.

constexpr auto kDiskFull =
    std::to_array<std::string_view>({"No space left on device", "os error 28", "Errno 28",
                                     "Disk quota exceeded", "os error 122", "Errno 122"});
constexpr auto kCertificate =
    std::to_array<std::string_view>({"CERTIFICATE_VERIFY_FAILED", "invalid peer certificate",
                                     "UnknownIssuer", "SSL certificate problem"});
constexpr auto kNoNetwork = std::to_array<std::string_view>(
    {"dns error", "tcp connect error", "error sending request", "operation timed out",
     "Connection refused", "Network is unreachable", "Name or service not known",
     "Temporary failure in name resolution", "Failed to establish a new connection",
     "Cannot connect to proxy", "Max retries exceeded", "Read timed out", "ConnectTimeoutError",
     "network connectivity is disabled", "Could not resolve host", "Connection reset by peer",
     "tunnel error"});

bool holds_any(const std::vector<std::string>& printed, std::span<const std::string_view> marks) {
  return std::ranges::any_of(printed, [&](const std::string& line) {
    return std::ranges::any_of(
        marks, [&](std::string_view mark) { return line.find(mark) != std::string::npos; });
  });
}

bool begins_error(std::string_view line) {
  line = trim(line);
  return line.starts_with("error:") || line.starts_with("ERROR:") || line.starts_with("×") ||
         line.starts_with("critical ") || line.starts_with("error ") || line.ends_with("Error:");
}

// Cut between words: they are for people.
std::string shortened(const std::string& words) {
  if (words.size() <= kHeadMax + kTailMax) return words;
  const std::string head = words.substr(0, words.rfind(' ', kHeadMax));
  const size_t tail = words.find(' ', words.size() - kTailMax);
  return to_utf8(head) + " […]" + to_utf8(words.substr(std::min(tail, words.size())));
}

// Its error without the drawing around it, as one paragraph. pip says ERROR on many lines, uv once.
std::string own_words(const std::vector<std::string>& printed) {
  auto first = std::ranges::find_if(printed, begins_error);
  const bool marked = first != printed.end();
  if (!marked) {
    const size_t shown = std::min(printed.size(), kLinesShown);
    first = printed.end() - static_cast<std::ptrdiff_t>(shown);
  }
  std::string words;
  for (; first != printed.end(); ++first) {
    std::string_view line = trim(*first);
    bool begins = !marked;  // Without marks every line is a sentence of its own.
    for (const std::string_view mark :
         {"ERROR:", "error:", "cause:", "×", "╰─▶", "├─▶", "│", "hint:", "Caused by:"}) {
      if (!line.starts_with(mark)) continue;
      line = trim(line.substr(mark.size()));
      begins = begins || mark != "│";
    }
    if (line.empty() || words.ends_with(line)) continue;
    const bool open =
        !words.empty() && std::string_view(".:;,").find(words.back()) == std::string_view::npos;
    if (!words.empty()) words += begins && open ? ": " : " ";
    words += line;
  }
  return shortened(words);
}

bool is_word_char(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; }

// Whether a package is named, as a word of its own.
bool names(const std::string& plain, const std::string& package) {
  for (size_t at = plain.find(package); at != std::string::npos; at = plain.find(package, at + 1)) {
    const size_t end = at + package.size();
    if ((at == 0 || !is_word_char(plain[at - 1])) &&
        (end >= plain.size() || !is_word_char(plain[end]))) {
      return true;
    }
  }
  return false;
}

// "requirements.txt:3: nosuch==1"
std::vector<std::string> lines_named(const std::string& words,
                                     const std::vector<std::string>& requirements) {
  std::string plain;
  for (const char c : words) {
    plain += c == '_' ? '-' : static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  std::vector<std::string> found;
  for (const std::string& line : requirements) {
    const Requirement requirement = parse_requirement(line);
    const std::string& sought = requirement.name.empty() ? requirement.text : requirement.name;
    const bool named =
        requirement.name.empty() ? words.find(sought) != std::string::npos : names(plain, sought);
    if (sought.empty() || !named) continue;
    found.push_back(requirement.place.empty() ? "the line '" + requirement.text + "'"
                                              : requirement.place + ": " + requirement.text);
  }
  return found;
}

}  // namespace

Error explain_failure(std::string_view program, int exit_code,
                      const std::vector<std::string>& printed,
                      const std::vector<std::string>& requirements) {
  const std::string name(program);
  std::string words = own_words(printed);
  if (words.empty()) words = "ended with exit code " + std::to_string(exit_code);
  if (holds_any(printed, kDiskFull)) {
    return {ErrorKind::no_space, name + ": no space left on the disk: " + words,
            "Free some space where the home and its cache are, then run it again."};
  }
  if (holds_any(printed, kCertificate)) {
    return {ErrorKind::unavailable, name + ": the index's certificate is not trusted: " + words,
            "Name the authority's file in SSL_CERT_FILE (and PIP_CERT) of the server."};
  }
  if (holds_any(printed, kNoNetwork)) {
    return {ErrorKind::unavailable, name + ": the package index cannot be reached: " + words,
            "Set HTTPS_PROXY for the server, or PIP_INDEX_URL to an index it reaches, or name one "
            "in the file: --index-url URL, or --find-links FOLDER with --no-index."};
  }
  const std::vector<std::string> lines = lines_named(words, requirements);
  if (lines.empty()) return {ErrorKind::invalid, name + ": " + words, {}};
  return {ErrorKind::invalid, lines.front() + ": " + words,
          lines.size() == 1 ? std::string()
                            : "Named too: " + join(std::span(lines).subspan(1), "; ") + "."};
}

}  // namespace trainyard::env
