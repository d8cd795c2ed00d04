#include <unistd.h>

#include <atomic>
#include <fstream>

#include "base/hash.h"
#include "http/test_server.h"

namespace trainyard::http {

namespace {

struct Taken {
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> largest{0};
  std::atomic<int> sinks{0};
  std::atomic<int> finished{0};
  std::atomic<uint64_t> fail_after{~uint64_t{0}};
  Hasher hasher;
};

class CountingSink : public BodySink {
 public:
  explicit CountingSink(Taken& taken) : taken_(taken) { ++taken_.sinks; }
  ~CountingSink() override { --taken_.sinks; }
  Status write(std::string_view bytes) override {
    taken_.bytes += bytes.size();
    taken_.largest = std::max<uint64_t>(taken_.largest, bytes.size());
    taken_.hasher.add(bytes);
    if (taken_.bytes > taken_.fail_after) return fail(ErrorKind::no_space, "the disk is full");
    return {};
  }

 private:
  Taken& taken_;
};

UploadHandler uploader(Taken& taken) {
  return [&taken](const Request& request) -> std::variant<Upload, Response> {
    if (request.header("x-no") == "1") return Response::text("no", 403);
    return Upload{std::make_unique<CountingSink>(taken), [&taken](const Request& r) {
                    ++taken.finished;
                    CHECK(r.body.empty());
                    return Response::text(taken.hasher.finish().hex());
                  }};
  };
}

uint64_t resident_bytes() {
  uint64_t size = 0;
  uint64_t resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

ClientRequest from_source(uint64_t size) {
  ClientRequest request;
  request.method = Method::post;
  request.target = "/up";
  request.source_size = size;
  request.source = [at = uint64_t{0}](char* buffer, size_t room) mutable -> Result<size_t> {
    const size_t n = std::min<size_t>(room, 200'000);
    for (size_t i = 0; i < n; ++i) buffer[i] = static_cast<char>((at + i) / 1000);
    at += n;
    return n;
  };
  return request;
}

std::string expected_digest(uint64_t size) {
  ClientRequest same = from_source(size);
  Hasher hasher;
  std::string piece(200'000, '\0');
  for (uint64_t left = size; left > 0;) {
    const size_t n = same.source(piece.data(), std::min<uint64_t>(left, piece.size())).value();
    hasher.add(std::string_view(piece).substr(0, n));
    left -= n;
  }
  return hasher.finish().hex();
}

}  // namespace

TEST_CASE("an upload of 200 MB goes through a little memory") {
  constexpr uint64_t kSize = 200'000'000;
  Taken taken;
  TestServer test;
  test.on_upload("/up", uploader(taken));
  test.start();
  const std::string digest = expected_digest(kSize);
  for (const Address& address : {test.on_unix(), test.on_tcp()}) {
    Client client(address, "");
    taken.bytes = 0;
    const uint64_t before = resident_bytes();
    const Response response = client.send(from_source(kSize)).value();
    CHECK(resident_bytes() < before + 32 * 1024 * 1024);
    CHECK(response.status == 200);
    CHECK(response.body == digest);
    CHECK(taken.bytes == kSize);
    CHECK(taken.largest <= 256 * 1024);
  }
  CHECK(eventually([&] { return taken.sinks == 0; }));
}

TEST_CASE("an empty upload and one in chunks are finished too") {
  Taken taken;
  TestServer test;
  test.on_upload("/up", uploader(taken));
  test.start();
  Client client = test.client();
  CHECK(post(client, "/up", "").value().body == sha256("").hex());
  RawClient raw(test);
  for (const char c : std::string_view("POST /up HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
                                       "3\r\nabc\r\n2;x=1\r\nde\r\n0\r\n\r\n")) {
    raw.send({&c, 1});
  }
  CHECK(raw.read(sha256("abcde").hex()).starts_with("HTTP/1.1 200"));
  raw.send(
      "POST /up HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcPOST /up HTTP/1.1\r\n"
      "Content-Length: 2\r\nConnection: close\r\n\r\nde");
  const std::string both = raw.read();
  CHECK(both.find(sha256("abc").hex()) != std::string::npos);
  CHECK(both.find(sha256("de").hex()) != std::string::npos);
}

TEST_CASE("an upload can be refused at its headers, without its body") {
  Taken taken;
  TestServer test;
  test.on_upload("/up", uploader(taken));
  test.start();
  Client client = test.client();
  ClientRequest request = from_source(2'000'000'000);
  request.headers["x-no"] = "1";
  const auto start = steady_clock::now();
  const Response response = client.send(request).value();
  CHECK(response.status == 403);
  CHECK(response.body == "no");
  CHECK(elapsed_since(start) < milliseconds(5000));
  CHECK(taken.bytes == 0);
}

TEST_CASE("a sink that fails ends the upload with its error") {
  Taken taken;
  taken.fail_after = 1'000'000;
  TestServer test;
  test.on_upload("/up", uploader(taken));
  test.start();
  Client client = test.client();
  const Response response = client.send(from_source(2'000'000'000)).value();
  CHECK(response.status == 507);
  CHECK(response.body == "no_space: the disk is full");
  CHECK(taken.finished == 0);
  CHECK(eventually([&] { return taken.sinks == 0; }));
}

TEST_CASE("an upload whose client goes away is not finished") {
  Taken taken;
  TestServer test;
  test.on_upload("/up", uploader(taken));
  test.start();
  RawClient raw(test);
  raw.send("POST /up HTTP/1.1\r\nContent-Length: 1000\r\n\r\nabc");
  CHECK(eventually([&] { return taken.bytes == 3; }));
  raw.close();
  CHECK(eventually([&] { return taken.sinks == 0; }));
  CHECK(taken.finished == 0);
  CHECK(eventually([&] { return test.server->counts().connections_open == 0; }));
}

TEST_CASE("a client that asks is told to go on, and one that may not is told so instead") {
  Taken taken;
  TestServer test;
  test.on_upload("/up", uploader(taken));
  test.on(Method::post, "/small", [](const Request& r) { return Response::text(r.body); }, 10);
  test.start();
  for (const char* target : {"/up", "/small"}) {
    RawClient raw(test);
    raw.send("POST " + std::string(target) +
             " HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    CHECK(raw.read("\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
    raw.send("abc");
    CHECK(raw.read("\r\n\r\n").starts_with("HTTP/1.1 200"));
  }
  RawClient raw(test);
  raw.send("POST /small HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n");
  CHECK(raw.read("\r\n\r\n").starts_with("HTTP/1.1 413"));
}

TEST_CASE("a hundred uploads at once keep apart") {
  TestServer test;
  std::atomic<int> good{0};
  Taken taken[100];
  test.on_upload("/up/{n}", [&](const Request& r) {
    return uploader(taken[std::stoi(std::string(r.param("n")))])(r);
  });
  test.start();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 100; ++i) {
    threads.emplace_back([&, i] {
      Client client = i % 2 == 0 ? test.client() : test.tcp_client();
      const uint64_t size = 300'000 + static_cast<uint64_t>(i) * 7919;
      ClientRequest request = from_source(size);
      request.target = "/up/" + std::to_string(i);
      const auto response = client.send(request);
      if (response && response->body == expected_digest(size)) ++good;
    });
  }
  threads.clear();
  CHECK(good == 100);
}

}  // namespace trainyard::http
