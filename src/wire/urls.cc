#include "wire/urls.h"

namespace trainyard::wire {
namespace {

// Percent-encodes all but what is safe anywhere in a path; '/' stays.
std::string encode_path(std::string_view path) {
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text;
  for (const char c : path) {
    if (kSafe.find(c) != std::string_view::npos) {
      text.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    text.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
  }
  return text;
}

void put_u32(std::string& out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

uint32_t get_u32(const char* bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

std::string run_url(const RunId& run, std::string_view rest) {
  return std::string(kApi) + "/runs/" + encode_path(run.value) + std::string(rest);
}

std::string attempt_url(const AttemptId& attempt, std::string_view rest) {
  return run_url(attempt.run, "/attempts/" + std::to_string(attempt.number) + std::string(rest));
}

std::string file_url(const RunId& run, std::string_view path) {
  return run_url(run, "/files/" + encode_path(path));
}

std::string file_url(const RunId& run, std::string_view path, uint64_t from, int wait_s) {
  std::string url = file_url(run, path);
  url.append("?from=").append(std::to_string(from));
  if (wait_s > 0) url.append("&wait=").append(std::to_string(wait_s));
  return url;
}

std::string console_head(char stream, uint32_t size) {
  std::string head(1, stream);
  put_u32(head, size);
  return head;
}

ConsoleHead parse_console_head(const char* bytes) { return {bytes[0], get_u32(bytes + 1)}; }

std::string follow_head(const FollowHead& head) {
  std::string text(1, head.kind);
  put_u32(text, head.rank);
  put_u32(text, head.size);
  return text;
}

FollowHead parse_follow_head(const char* bytes) {
  return {bytes[0], get_u32(bytes + 1), get_u32(bytes + 5)};
}

}  // namespace trainyard::wire
