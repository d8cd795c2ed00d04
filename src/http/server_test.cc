#include "http/server.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <set>

#include "http/test_server.h"

namespace trainyard::http {

namespace {

Response hello_world(const Request&) { return Response::text("hello"); }

Handler file_handler(const fs::path& path, uint64_t offset, uint64_t size) {
  return [=](const Request&) {
    Response response;
    response.file = FileBody{open_file(path, O_RDONLY).value(), offset, size};
    return response;
  };
}

}  // namespace

TEST_CASE("a request is answered over the Unix socket and over TCP") {
  TestServer test;
  test.on(Method::get, "/who/{name}", [](const Request& request) {
    Response response = Response::json(std::string(request.param("name")) + "," +
                                       std::string(request.query_or("x", "-")) + "," +
                                       std::string(request.header("x-y")) + "," + request.path);
    response.headers["x-peer"] =
        request.peer.unix_socket ? "uid " + std::to_string(request.peer.uid) : request.peer.address;
    return response;
  });
  test.start();
  ClientRequest request;
  request.target = "/who/a%20b?x=1";
  request.headers["x-y"] = "z";
  Client near = test.client();
  const Response one = near.send(request).value();
  CHECK(one.status == 200);
  CHECK(one.body == "a b,1,z,/who/a b");
  CHECK(one.headers.at("content-type") == "application/json");
  CHECK(one.headers.at("x-peer") == "uid " + std::to_string(::getuid()));
  Client far = test.tcp_client();
  CHECK(far.send(request).value().headers.at("x-peer").starts_with("127.0.0.1:"));
  CHECK(test.server->counts().requests == 2);
}

TEST_CASE("an unknown path is 404, a known one with another method 405") {
  TestServer test;
  test.on(Method::get, "/a", hello_world);
  test.start();
  Client client = test.client();
  CHECK(get(client, "/b").value().status == 404);
  CHECK(get(client, "/b").value().body == "not_found: nothing is at /b");
  CHECK(post(client, "/a", "").value().status == 405);
  RawClient raw(test);
  raw.send("OPTIONS /a HTTP/1.1\r\n\r\n");
  CHECK(raw.read("\r\n\r\n").starts_with("HTTP/1.1 405"));
}

TEST_CASE("what is not a request is answered 400, and the connection ends") {
  TestServer test;
  test.on(Method::get, "/{x...}", hello_world);
  test.start();
  for (const char* bad : {"hello\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET /%00 HTTP/1.1\r\n\r\n",
                          "GET /a%zz HTTP/1.1\r\n\r\n", "GET /?x=%0 HTTP/1.1\r\n\r\n",
                          "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n"}) {
    CAPTURE(bad);
    RawClient raw(test);
    raw.send(bad);
    raw.shut_writing();
    CHECK(raw.read().starts_with("HTTP/1.1 400 Bad Request\r\n"));
  }
}

TEST_CASE("headers over the limit are answered 431") {
  TestServer test;
  test.on(Method::get, "/", hello_world);
  test.options.header_bytes_max = 4096;
  test.start();
  RawClient raw(test);
  raw.send("GET / HTTP/1.1\r\nX: " + std::string(5000, 'x'));
  CHECK(raw.read().starts_with("HTTP/1.1 431 "));
  CHECK(test.server->counts().refused == 1);
}

TEST_CASE("a HEAD is answered with the length and without the body") {
  TestServer test;
  write_file(test.dir.path() / "f", std::string(100'000, 'f')).value();
  test.on(Method::get, "/text", hello_world);
  test.on(Method::get, "/file", file_handler(test.dir.path() / "f", 0, 100'000));
  test.on(Method::head, "/known", [](const Request&) {
    Response response;
    response.headers["content-length"] = "12345";
    return response;
  });
  test.start();
  Client client = test.client();
  ClientRequest request;
  request.method = Method::head;
  for (const auto& [target, length] : std::map<std::string, std::string>{
           {"/text", "5"}, {"/file", "100000"}, {"/known", "12345"}}) {
    request.target = target;
    const Response response = client.send(request).value();
    CHECK(response.status == 200);
    CHECK(response.body.empty());
    CHECK(response.headers.at("content-length") == length);
  }
  CHECK(get(client, "/text").value().body == "hello");
}

TEST_CASE("a connection is kept for the next request, unless the client wants it closed") {
  TestServer test;
  test.on(Method::get, "/", hello_world);
  test.start();
  RawClient raw(test);
  raw.send("GET / HTTP/1.1\r\n\r\n");
  const std::string first = raw.read("hello");
  CHECK(first.find("connection:") == std::string::npos);
  raw.send("\r\nGET / HTTP/1.1\r\nConnection: close\r\n\r\n");
  const std::string second = raw.read();
  CHECK(second.find("connection: close\r\n") != std::string::npos);
  CHECK(second.ends_with("hello"));

  RawClient old(test);
  old.send("GET / HTTP/1.0\r\n\r\n");
  CHECK(old.read().ends_with("hello"));
  RawClient old_kept(test);
  old_kept.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  CHECK(old_kept.read("hello").find("connection: keep-alive\r\n") != std::string::npos);
  old_kept.send("GET / HTTP/1.0\r\n\r\n");
  CHECK(old_kept.read().ends_with("hello"));
}

TEST_CASE("requests sent without waiting are answered in order") {
  TestServer test;
  test.on(Method::get, "/{n}",
          [](const Request& r) { return Response::text("<" + std::string(r.param("n")) + ">"); });
  test.on(Method::post, "/", [](const Request& r) { return Response::text("<" + r.body + ">"); });
  test.start();
  std::string all;
  for (int i = 0; i < 500; ++i) all += "GET /" + std::to_string(i) + " HTTP/1.1\r\n\r\n";
  for (int i = 0; i < 500; ++i) all += "GET /un/known HTTP/1.1\r\n\r\n";
  all += "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nok";
  all += "GET /last HTTP/1.1\r\nConnection: close\r\n\r\n";
  RawClient raw(test);
  raw.send(all);
  const std::string answers = raw.read();
  size_t at = 0;
  for (int i = 0; i < 500 && at != std::string::npos; ++i) {
    at = answers.find("<" + std::to_string(i) + ">", at);
  }
  CHECK(at != std::string::npos);
  CHECK(answers.find("<ok>", at) != std::string::npos);
  CHECK(answers.ends_with("<last>"));
}

TEST_CASE("a client that sends one byte at a time is served") {
  TestServer test;
  test.on(Method::post, "/", [](const Request& r) { return Response::text(r.body); });
  test.start();
  RawClient raw(test);
  for (const char c : std::string_view("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello")) {
    raw.send({&c, 1});
  }
  CHECK(raw.read("hello").starts_with("HTTP/1.1 200"));
  for (const char c :
       std::string_view("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
                        "Connection: close\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")) {
    raw.send({&c, 1});
  }
  CHECK(raw.read().ends_with("abcde"));
}

TEST_CASE("a body within the limit comes whole") {
  TestServer test;
  test.on(Method::post, "/", [](const Request& r) { return Response::text(r.body); }, 4 << 20);
  test.start();
  std::string body(4 << 20, 'b');
  for (size_t i = 0; i < body.size(); i += 1000) body[i] = static_cast<char>(i / 1000);
  Client client = test.client();
  CHECK(post(client, "/", body).value().body == body);
  Client far = test.tcp_client();
  CHECK(post(far, "/", body).value().body == body);
}

TEST_CASE("a file is sent by parts, large and small") {
  TestServer test;
  const fs::path path = test.dir.path() / "file";
  std::string bytes;
  for (int i = 0; bytes.size() < (100u << 20); ++i) bytes += std::to_string(i) + ",";
  REQUIRE(write_file(path, bytes));
  test.on(Method::get, "/all", file_handler(path, 0, bytes.size()));
  test.on(Method::get, "/part", file_handler(path, 1000, 70'000));
  test.on(Method::get, "/small", file_handler(path, 5, 10));
  test.on(Method::get, "/none", file_handler(path, 5, 0));
  test.on(Method::get, "/short", file_handler(path, bytes.size() - 5, 10));
  test.on(Method::get, "/cut", file_handler(path, bytes.size() - 100'000, 200'000));
  test.start();
  Client client = test.client();
  CHECK(get(client, "/part").value().body == bytes.substr(1000, 70'000));
  CHECK(get(client, "/small").value().body == bytes.substr(5, 10));
  CHECK(get(client, "/none").value().body.empty());
  CHECK(get(client, "/short").value().status == 500);
  CHECK(get(client, "/cut").error().kind == ErrorKind::unavailable);
  for (const Address& address : {test.on_unix(), test.on_tcp()}) {
    Client far(address, "");
    CHECK(get(far, "/all").value().body == bytes);
    CHECK(get(far, "/small").value().body == bytes.substr(5, 10));
  }
}

TEST_CASE("a handler that throws is a 500, and the next request is served") {
  TestServer test;
  test.on(Method::get, "/bad",
          [](const Request&) -> Response { throw std::runtime_error("secret detail"); });
  test.on(Method::get, "/", hello_world);
  test.start();
  Client client = test.client();
  const Response response = get(client, "/bad").value();
  CHECK(response.status == 500);
  CHECK(response.body.find("secret") == std::string::npos);
  CHECK(get(client, "/").value().status == 200);
}

TEST_CASE("a line break in a handler's header does not make another header") {
  TestServer test;
  test.on(Method::get, "/", [](const Request& r) {
    Response response = Response::text("x");
    response.headers["x-name"] = std::string(r.query_or("n", ""));
    return response;
  });
  test.start();
  Client client = test.client();
  const Response response = get(client, "/?n=a%0D%0Aevil:%201").value();
  CHECK(response.headers.at("x-name") == "a  evil: 1");
  CHECK_FALSE(response.headers.contains("evil"));
}

TEST_CASE("the socket is private, may have a long path, and replaces a dead one") {
  TestServer test;
  fs::path deep = test.dir.path();
  while (deep.string().size() < 150) deep /= "a-folder-with-a-long-name";
  REQUIRE(make_dirs(deep));
  test.options.unix_socket = deep / "socket";
  test.on(Method::get, "/", hello_world);
  const mode_t old = ::umask(0);
  {
    auto dead = listen_unix(test.options.unix_socket);
    REQUIRE(dead.has_value());
  }
  CHECK(fs::exists(test.options.unix_socket));
  test.start();
  ::umask(old);
  struct stat info{};
  REQUIRE(::stat(test.options.unix_socket.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
  Client client = test.client();
  CHECK(get(client, "/").value().body == "hello");

  auto second = Server::start(test.options, test.router, test.clock, test.log, plain_error);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().kind == ErrorKind::conflict);
  CHECK(get(client, "/").value().body == "hello");
  test.server->stop();
  CHECK_FALSE(fs::exists(test.options.unix_socket));
}

TEST_CASE("a file that is no socket, a missing folder and a taken port are errors in words") {
  TestServer test;
  REQUIRE(write_file(test.options.unix_socket, "precious"));
  const auto start = [&] {
    return Server::start(test.options, test.router, test.clock, test.log, plain_error);
  };
  CHECK(start().error().kind == ErrorKind::conflict);
  CHECK(read_file(test.options.unix_socket).value() == "precious");
  test.options.unix_socket = test.dir.path() / "none" / "socket";
  CHECK(start().error().message.find("none/socket") != std::string::npos);
  test.options.unix_socket.clear();
  const auto first = start();
  REQUIRE(first.has_value());
  test.options.port = (*first)->port();
  CHECK(start().error().message.find("Address already in use") != std::string::npos);
}

}  // namespace trainyard::http
