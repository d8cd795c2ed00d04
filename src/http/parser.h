#pragma once

#include <functional>
#include <memory>

#include "http/message.h"

namespace trainyard::http {

// What has been read of one message. The parsers below are Beast's behind a plain face: they are
// fed bytes as they come, and never keep a body.
class Parser {
 public:
  virtual ~Parser() = default;

  // Takes what it can from the front of `bytes`, and says how much; the caller offers the rest
  // again with what comes behind it. Stops behind the headers, so that the caller can say first
  // what becomes of the body.
  virtual size_t put(std::string_view bytes) = 0;
  // The peer has closed its end; true when the message is whole by that.
  virtual bool put_end() = 0;

  virtual bool header_done() const = 0;
  virtual bool done() const = 0;
  // 0 while all is well; else the status to refuse the message with: 400, 431.
  virtual int refused() const = 0;
  virtual bool keep_alive() const = 0;
  virtual bool has_body() const = 0;
  virtual std::optional<uint64_t> content_length() const = 0;

  // Takes the body's pieces. False: it wants no more, put() returns at once and takes nothing more.
  std::function<bool(std::string_view)> on_body;

  std::optional<Method> method;  // Of a request; absent: one that we do not know.
  std::string target;            // Of a request.
  int status = 0;                // Of a response.
  bool http11 = false;
  Headers headers;  // Those of equal name joined by commas.
};

std::unique_ptr<Parser> make_request_parser(size_t header_bytes_max);

enum class Body { expected, none };  // none: the answer to a HEAD.
std::unique_ptr<Parser> make_response_parser(size_t header_bytes_max, Body body);

}  // namespace trainyard::http
