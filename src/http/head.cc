#include "http/head.h"

#include "base/check.h"

namespace trainyard::http {

namespace {

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 302:
      return "Found";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 416:
      return "Range Not Satisfiable";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    case 507:
      return "Insufficient Storage";
    default:
      return "Status";
  }
}

// A value may hold a user's words: a line break in it would begin a header of the user's making.
void append_value(std::string& out, std::string_view value) {
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? ' ' : c;
  }
}

}  // namespace

std::string format_head(const Response& response, const HeadContext& context) {
  std::string out;
  out.reserve(256);
  out += "HTTP/1.1 ";
  out += std::to_string(response.status);
  out += ' ';
  out += reason_of(response.status);
  out += "\r\n";
  bool length_given = false;
  for (const auto& [name, value] : response.headers) {
    if (name == "connection" || name == "transfer-encoding") continue;
    if (name == "content-length") {
      if (!context.head_only) continue;
      length_given = true;
    }
    append_value(out, name);
    out += ": ";
    append_value(out, value);
    out += "\r\n";
  }
  if (!length_given && may_have_body(response.status)) {
    out += "content-length: ";
    out += std::to_string(response.file ? response.file->size : response.body.size());
    out += "\r\n";
  }
  if (context.close) {
    out += "connection: close\r\n";
  } else if (!context.http11) {
    out += "connection: keep-alive\r\n";
  }
  out += "\r\n";
  return out;
}

bool may_have_body(int status) { return status != 204 && status != 304 && status >= 200; }

int status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid:
      return 400;
    case ErrorKind::denied:
      return 403;
    case ErrorKind::not_found:
      return 404;
    case ErrorKind::conflict:
      return 409;
    case ErrorKind::unavailable:
      return 503;
    case ErrorKind::no_space:
      return 507;
    case ErrorKind::cancelled:
      return 499;
    case ErrorKind::internal:
      return 500;
  }
  ENSURE(false);
}

}  // namespace trainyard::http
