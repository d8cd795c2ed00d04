#include <atomic>
#include <latch>
#include <thread>

#include "http/test_server.h"

namespace trainyard::http {

namespace {

// A number that grows, and a route that answers once it is above ?above=.
struct Counter {
  std::atomic<int> value{0};
  std::atomic<int> looks{0};

  Handler handler(TestServer& test, seconds limit) {
    return [this, &test, limit](const Request& request) {
      ++looks;
      const int above = std::stoi(std::string(request.query_or("above", "0")));
      const SteadyTime until = request.arrived + limit;
      if (value > above) return Response::text("value " + std::to_string(value) + ".");
      if (test.clock.steady() >= until) return Response::text("nothing.");
      return Response::parked("counter", until);
    };
  }
};

}  // namespace

TEST_CASE("a parked request is answered when its key is notified") {
  TestServer test;
  Counter counter;
  test.on(Method::get, "/wait", counter.handler(test, seconds(60)));
  test.start();
  RawClient raw(test);
  raw.send("GET /wait HTTP/1.1\r\n\r\n");
  REQUIRE(eventually([&] { return test.server->counts().parked == 1; }));
  test.server->notify("another key");
  counter.value = 1;
  const auto start = steady_clock::now();
  test.server->notify("counter");
  CHECK(raw.read("value 1.").ends_with("value 1."));
  CHECK(elapsed_since(start) < milliseconds(1000));
  CHECK(counter.looks == 2);
  CHECK(test.server->counts().parked == 0);
  // The connection goes on.
  raw.send("GET /wait HTTP/1.1\r\n\r\n");
  CHECK(raw.read("value 1.").ends_with("value 1."));
}

TEST_CASE("a handler that has nothing to say yet is parked again") {
  TestServer test;
  Counter counter;
  test.on(Method::get, "/wait", counter.handler(test, seconds(60)));
  test.start();
  RawClient raw(test);
  raw.send("GET /wait?above=2 HTTP/1.1\r\n\r\n");
  for (int i = 1; i <= 2; ++i) {
    REQUIRE(eventually([&] { return test.server->counts().parked == 1 && counter.looks == i; }));
    counter.value = i;
    test.server->notify("counter");
  }
  REQUIRE(eventually([&] { return test.server->counts().parked == 1 && counter.looks == 3; }));
  counter.value = 3;
  test.server->notify("counter");
  CHECK(raw.read("value 3.").ends_with("value 3."));
}

TEST_CASE("a parked request looks again at its deadline") {
  TestServer test;
  Counter counter;
  test.on(Method::get, "/wait", counter.handler(test, seconds(1)));
  test.start();
  const auto start = steady_clock::now();
  Client client = test.client();
  CHECK(get(client, "/wait").value().body == "nothing.");
  CHECK(elapsed_since(start) >= milliseconds(1000));
  CHECK(elapsed_since(start) < milliseconds(3000));
  CHECK(counter.looks == 2);
}

TEST_CASE("no deadline cuts a parked request") {
  TestServer test;
  Counter counter;
  test.options.silence_deadline = test.options.idle_deadline = test.options.header_deadline =
      test.options.request_deadline = seconds(1);
  test.on(Method::get, "/wait", counter.handler(test, seconds(3)));
  test.start();
  Client client = test.client();
  CHECK(get(client, "/wait").value().body == "nothing.");
}

TEST_CASE("a client that leaves while it is parked is forgotten") {
  TestServer test;
  Counter counter;
  test.on(Method::get, "/wait", counter.handler(test, seconds(600)));
  test.start();
  RawClient raw(test);
  raw.send("GET /wait HTTP/1.1\r\n\r\n");
  REQUIRE(eventually([&] { return test.server->counts().parked == 1; }));
  test.server->notify("counter");  // Also after it was parked a second time.
  REQUIRE(eventually([&] { return test.server->counts().parked == 1 && counter.looks == 2; }));
  raw.close();
  CHECK(eventually([&] {
    return test.server->counts().parked == 0 && test.server->counts().connections_open == 0;
  }));
}

TEST_CASE("a request sent behind a parked one is answered after it") {
  TestServer test;
  Counter counter;
  test.on(Method::get, "/wait", counter.handler(test, seconds(60)));
  test.on(Method::get, "/", [](const Request&) { return Response::text("second."); });
  test.start();
  RawClient raw(test);
  raw.send("GET /wait HTTP/1.1\r\n\r\n");
  REQUIRE(eventually([&] { return test.server->counts().parked == 1; }));
  raw.send("GET / HTTP/1.1\r\n\r\n");
  counter.value = 1;
  test.server->notify("counter");
  const std::string both = raw.read("second.");
  CHECK(both.find("value 1.") < both.find("second."));
}

TEST_CASE("no wake-up is lost between many writers and readers") {
  constexpr int kRounds = 1000;
  TestServer test;
  Counter counter;
  test.on(Method::get, "/wait", counter.handler(test, seconds(600)));
  test.start();
  std::atomic<int> failures{0};
  std::vector<std::jthread> readers;
  for (int r = 0; r < 4; ++r) {
    readers.emplace_back([&] {
      Client client = test.client();
      for (int last = 0; last < kRounds;) {
        const auto response = get(client, "/wait?above=" + std::to_string(last));
        // Without a byte for 30 s it fails: that is a lost wake-up.
        if (!response || !response->body.starts_with("value ")) {
          ++failures;
          return;
        }
        last = std::stoi(response->body.substr(6));
      }
    });
  }
  while (counter.value < kRounds) {
    ++counter.value;
    test.server->notify("counter");
    if (counter.value % 10 == 0) ::poll(nullptr, 0, 1);
  }
  readers.clear();
  CHECK(failures == 0);
}

TEST_CASE("five hundred parked requests are no burden to the others") {
  TestServer test;
  Counter counter;
  test.options.workers = 4;
  test.on(Method::get, "/wait", counter.handler(test, seconds(600)));
  test.on(Method::get, "/", [](const Request&) { return Response::text("hello"); });
  test.start();
  std::vector<std::unique_ptr<RawClient>> parked;
  for (int i = 0; i < 500; ++i) {
    parked.push_back(std::make_unique<RawClient>(test));
    parked.back()->send("GET /wait HTTP/1.1\r\n\r\n");
  }
  REQUIRE(eventually([&] { return test.server->counts().parked == 500; }));
  Client client = test.client();
  for (int i = 0; i < 100; ++i) CHECK(get(client, "/").value().body == "hello");
  CHECK(test.server->counts().parked == 500);
  counter.value = 7;
  test.server->notify("counter");
  for (const auto& raw : parked) CHECK(raw->read("value 7.").ends_with("value 7."));
}

TEST_CASE("stop answers what is under way and what is parked, and closes the rest") {
  TestServer test;
  Counter counter;
  std::latch release(1);
  std::atomic<bool> busy{false};
  test.on(Method::get, "/wait", counter.handler(test, seconds(600)));
  test.on(Method::get, "/busy", [&](const Request&) {
    busy = true;
    release.wait();
    return Response::text("done.");
  });
  test.start();
  RawClient idle(test);
  RawClient half(test);
  RawClient parked(test);
  RawClient working(test);
  half.send("GET / HT");
  parked.send("GET /wait HTTP/1.1\r\n\r\n");
  working.send("GET /busy HTTP/1.1\r\n\r\n");
  REQUIRE(eventually([&] { return busy && test.server->counts().parked == 1; }));
  REQUIRE(eventually([&] { return test.server->counts().connections_open == 4; }));
  const auto start = steady_clock::now();
  std::jthread stopper([&] { test.server->stop(); });
  CHECK(idle.read().empty());
  CHECK(half.read().empty());
  CHECK(parked.read().starts_with("HTTP/1.1 503 "));
  CHECK(counter.looks == 2);
  release.count_down();
  const std::string answer = working.read();
  CHECK(answer.ends_with("done."));
  CHECK(answer.find("connection: close") != std::string::npos);
  stopper.join();
  CHECK(elapsed_since(start) < milliseconds(4000));
  Client client = test.client();
  CHECK(client.connect().error().kind == ErrorKind::unavailable);
  test.server->notify("counter");
}

TEST_CASE("stop does not wait for ever for a client that does not read or send") {
  TestServer test;
  test.on(Method::get, "/",
          [](const Request&) { return Response::text(std::string(8 << 20, 'x')); });
  test.on(Method::post, "/", [](const Request&) { return Response::text(""); });
  test.start();
  RawClient deaf(test);
  RawClient mute(test);
  deaf.send("GET / HTTP/1.1\r\n\r\n");
  mute.send("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n");
  REQUIRE(eventually([&] { return test.server->counts().requests == 2; }));
  const auto start = steady_clock::now();
  test.server->stop();
  CHECK(elapsed_since(start) < milliseconds(8000));
}

TEST_CASE("a server stops in the middle of a storm, again and again") {
  for (int round = 0; round < 10; ++round) {
    TestServer test;
    Counter counter;
    test.on(Method::get, "/wait", counter.handler(test, seconds(600)));
    test.on(Method::get, "/", [](const Request&) { return Response::text("hello"); });
    test.start();
    std::atomic<bool> over{false};
    std::vector<std::jthread> storm;
    for (int i = 0; i < 6; ++i) {
      storm.emplace_back([&, i] {
        while (!over) {
          Client client = i % 2 == 0 ? test.client() : Client(test.on_tcp(), "");
          if (!get(client, i < 3 ? "/" : "/wait?above=" + std::to_string(counter.value))) continue;
        }
      });
    }
    storm.emplace_back([&] {
      while (!over) {
        ++counter.value;
        test.server->notify("counter");
        ::poll(nullptr, 0, 1);
      }
    });
    CHECK(eventually([&] { return test.server->counts().requests > 200; }));
    const auto start = steady_clock::now();
    test.server->stop();
    CHECK(elapsed_since(start) < milliseconds(4000));
    over = true;
  }
}

}  // namespace trainyard::http
