#include "container/unpack_skopeo.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/command.h"
#include "base/fd.h"
#include "base/process.h"
#include "base/text.h"
#include "wire/json.h"

namespace trainyard::container {
namespace {

constexpr int kLookEveryMs = 200;  // Whether it is wanted no more.

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    unsigned group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (size_t k = 0; k < 4; ++k) {
      text += i + k > bytes.size() ? '=' : kDigits[group >> (18 - 6 * k) & 63];
    }
  }
  return text;
}

// The registry of "docker://HOST/…".
std::string host_of(const std::string& source) {
  const std::string rest = source.substr(source.find("//") + 2);
  return rest.substr(0, rest.find('/'));
}

bool is_loopback(const std::string& host) {
  const std::string name = host.substr(0, host.find(':'));
  return name == "localhost" || name.starts_with("127.");
}

// One that skopeo failed for: "time=… level=fatal msg=\"initializing source …: reason\"".
std::string reason_of(const std::string& line) {
  const size_t at = line.find("msg=");
  std::string text = at == std::string::npos ? line : line.substr(at + 4);
  if (text.starts_with('"') && text.ends_with('"') && text.size() > 1) {
    text = text.substr(1, text.size() - 2);
  }
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    plain += text[i];
  }
  return plain;
}

Error explain(const std::string& name, const std::string& last) {
  const std::string reason = reason_of(last);
  const auto says = [&](std::string_view words) { return reason.find(words) != std::string::npos; };
  const std::string message = "image " + name + ": " + reason;
  if (says("manifest unknown") || says("name unknown")) return {ErrorKind::not_found, message, {}};
  if (says("unauthorized") || says("denied") || says("authentication required")) {
    return {ErrorKind::denied, message, "Check the registry's user name and password."};
  }
  if (says("no space left")) return {ErrorKind::no_space, message, "Free some space."};
  if (says("invalid reference")) return {ErrorKind::invalid, message, {}};
  return {ErrorKind::unavailable, message, {}};
}

// Tells every line of what a program prints; the last one stays.
Result<std::string> read_lines(int fd, pid_t pid, const UnpackOptions& options) {
  std::string text;
  std::string last;
  char piece[4096];
  for (;;) {
    pollfd waiting{fd, POLLIN, 0};
    const int ready = poll(&waiting, 1, kLookEveryMs);
    if (options.stopped()) {
      kill(pid, SIGKILL);
      return fail(ErrorKind::cancelled, "it is not wanted any more");
    }
    if (ready <= 0) continue;
    const ssize_t got = read(fd, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(piece, static_cast<size_t>(got));
    for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      last = text.substr(0, end);
      text.erase(0, end + 1);
      if (options.line) options.line(last);
    }
  }
  return text.empty() ? last : text;
}

// By a file: everybody sees a program's words.
Status add_password(std::vector<std::string>& words, const std::string& source,
                    const Credentials& credentials, const fs::path& file) {
  if (credentials.username.empty()) return {};
  const std::string secret = credentials.username + ":" + credentials.password;
  const wire::Json auth{{"auths", {{host_of(source), {{"auth", base64(secret)}}}}}};
  words.push_back("--authfile=" + file.string());
  return write_file(file, wire::dump(auth), 0600);
}

// The last line that it prints.
Result<std::string> run_skopeo(const std::string& name, std::vector<std::string> words,
                               const UnpackOptions& options) {
  const fs::path skopeo = find_program("skopeo");
  if (skopeo.empty()) {
    return fail(ErrorKind::unavailable,
                "there is neither a container engine nor skopeo to fetch the image " + name,
                "Start docker or podman, or install the package skopeo.");
  }
  words.insert(words.begin(), {skopeo, "--insecure-policy"});
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "make a pipe");
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  TRY_SET(const pid_t pid, spawn_unwatched({.command = words,
                                            .environment = {},
                                            .folder = {},
                                            .stdout_fd = writing.get(),
                                            .stderr_fd = writing.get(),
                                            .kept_fds = {}}));
  writing.reset();
  Result<std::string> last = read_lines(reading.get(), pid, options);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (last && status != 0) return std::unexpected(explain(name, *last));
  return last;
}

}  // namespace

std::string skopeo_source(const std::string& name) {
  const size_t slash = name.find('/');
  const std::string first = name.substr(0, slash);
  const bool has_host = slash != std::string::npos &&
                        (first == "localhost" || first.find_first_of(".:") != std::string::npos);
  if (has_host) return "docker://" + name;
  return "docker://docker.io/" + (slash == std::string::npos ? "library/" + name : name);
}

Status fetch_by_skopeo(const std::string& name, const fs::path& layout,
                       const UnpackOptions& options) {
  const std::string source = skopeo_source(name);
  std::vector<std::string> words{"copy"};
  if (is_loopback(host_of(source))) words.emplace_back("--src-tls-verify=false");
  TRY(add_password(words, source, options.credentials, layout.string() + ".auth"));
  words.push_back(source);
  words.push_back("oci:" + layout.string() + ":image");
  TRY(run_skopeo(name, std::move(words), options));
  return {};
}

Result<std::string> digest_by_skopeo(const std::string& name, const Credentials& credentials,
                                     const fs::path& auth, milliseconds timeout) {
  const std::string source = skopeo_source(name);
  std::vector<std::string> words{"inspect", "--no-tags", "--format={{.Digest}}"};
  if (is_loopback(host_of(source))) words.emplace_back("--tls-verify=false");
  TRY(make_dirs(auth.parent_path(), 0700));
  TRY(add_password(words, source, credentials, auth));
  words.push_back(source);
  MonotoneClock clock;
  UnpackOptions options;
  options.stopped = [&, until = clock.steady() + timeout] { return clock.steady() > until; };
  auto said = run_skopeo(name, std::move(words), options);
  std::error_code none;
  fs::remove(auth, none);
  if (!said && said.error().kind == ErrorKind::cancelled) {
    return fail(ErrorKind::unavailable, "it did not answer in time");
  }
  if (said && !said->starts_with("sha256:")) {
    return fail(ErrorKind::unavailable, "skopeo says '" + *said + "'");
  }
  return said;
}

}  // namespace trainyard::container
