#include "http/message.h"

#include "base/check.h"

namespace trainyard::http {

namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.' || c == '~';
}

// Forms and most client libraries write a space in a query as '+'.
Result<std::string> decode_query(std::string_view text) {
  std::string spaced(text);
  for (char& c : spaced) {
    if (c == '+') c = ' ';
  }
  return decode_url(spaced);
}

// "http://host:port/path" -> "/path": what a client behind a proxy sends.
std::string_view without_origin(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    const size_t slash = target.find_first_of("/?", scheme.size());
    return slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  return target;
}

std::string_view find_or(const std::map<std::string, std::string, std::less<>>& in,
                         std::string_view name, std::string_view otherwise) {
  const auto found = in.find(name);
  return found == in.end() ? otherwise : std::string_view(found->second);
}

}  // namespace

std::string_view to_string(Method method) {
  switch (method) {
    case Method::get:
      return "GET";
    case Method::head:
      return "HEAD";
    case Method::put:
      return "PUT";
    case Method::post:
      return "POST";
    case Method::patch:
      return "PATCH";
    case Method::del:
      return "DELETE";
  }
  ENSURE(false);
}

std::string encode_url(std::string_view text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (is_unreserved(c)) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

Result<std::string> decode_url(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return fail(ErrorKind::invalid, "a '%' in the URL is not followed by two hex digits");
      }
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    // No name of ours has one, and what comes after it would be lost in a system call.
    if (c == '\0') return fail(ErrorKind::invalid, "a NUL in the URL");
    out += c;
  }
  return out;
}

Result<Target> parse_target(std::string_view target) {
  target = without_origin(target);
  Target out;
  const size_t question = target.find('?');
  out.path = target.substr(0, question);
  if (out.path.empty()) out.path = "/";
  if (out.path.front() != '/') return fail(ErrorKind::invalid, "the URL's path has no leading '/'");
  if (question == std::string_view::npos) return out;

  std::string_view rest = target.substr(question + 1);
  while (!rest.empty()) {
    const size_t end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    TRY_SET(std::string key, decode_query(pair.substr(0, equals)));
    TRY_SET(std::string value, equals == std::string_view::npos
                                   ? Result<std::string>(std::string())
                                   : decode_query(pair.substr(equals + 1)));
    out.query.insert_or_assign(std::move(key), std::move(value));
  }
  return out;
}

std::string_view Request::header(std::string_view name) const { return find_or(headers, name, {}); }

std::string_view Request::param(std::string_view name) const {
  const auto found = params.find(name);
  ENSURE(found != params.end());
  return found->second;
}

std::string_view Request::query_or(std::string_view name, std::string_view otherwise) const {
  return find_or(query, name, otherwise);
}

Response Response::json(std::string body, int status) {
  Response response;
  response.status = status;
  response.headers["content-type"] = "application/json";
  response.body = std::move(body);
  return response;
}

Response Response::text(std::string body, int status) {
  Response response;
  response.status = status;
  response.headers["content-type"] = "text/plain; charset=utf-8";
  response.body = std::move(body);
  return response;
}

Response Response::parked(std::string key, SteadyTime until) {
  Response response;
  response.wait = Wait{std::move(key), until};
  return response;
}

}  // namespace trainyard::http
