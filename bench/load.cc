// The loads that Python is too slow to make.
//
//   load submit SOCKET COUNT CONNECTIONS CPUS -- CMD…   prints submissions per second
//   load follow SOCKET RUN COUNT                        follows a run's console over COUNT
//   connections
//                                                       until its stdin closes; prints bytes seen
//   load append FILE COUNT                              4 KB append + fdatasync, prints them per
//   second
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "http/client.h"
#include "wire/json.h"
#include "wire/urls.h"

using namespace trainyard;

namespace {

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "load: %s\n", why.c_str());
  std::exit(1);
}

double seconds_since(const Clock& clock, SteadyTime start) {
  return static_cast<double>((clock.steady() - start).count()) / 1e6;
}

void submit_one(http::Client& client, const RunSpec& spec) {
  http::ClientRequest request;
  request.method = http::Method::post;
  request.target = std::string(wire::kApi) + "/runs";
  request.headers["content-type"] = "application/json";
  request.body = wire::dump({{"id", new_run_id().value}, {"spec", wire::encode(spec)}});
  const Result<http::Response> answer = client.send(request);
  if (!answer) die(answer.error().message);
  if (answer->status != 201) die("submit answered " + answer->body);
}

int submit(const std::string& socket, int count, int connections, int cpus,
           std::vector<std::string> command) {
  RunSpec spec;
  spec.experiment = "bench";
  spec.command = std::move(command);
  spec.resources.cpus = cpus;
  spec.submit_environment = {{"PATH", "/usr/bin:/bin"}};
  MonotoneClock clock;
  std::atomic<int> left = count;
  const SteadyTime start = clock.steady();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < connections; ++i) {
      threads.emplace_back([&] {
        http::Client client({.unix_socket = socket}, "");
        while (left.fetch_sub(1) > 0) submit_one(client, spec);
      });
    }
  }
  std::printf("%.1f\n", count / seconds_since(clock, start));
  return 0;
}

void follow_one(const std::string& socket, const RunId& run, std::atomic<uint64_t>& bytes,
                const std::atomic<bool>& stop) {
  http::Client client({.unix_socket = socket}, "");
  uint64_t from = 0;
  while (!stop) {
    http::ClientRequest request;
    request.target = wire::file_url(run, "user_logs/std_log.txt", from, 1);
    const Result<http::Response> answer = client.send(request);
    if (!answer) return;
    if (answer->status != 200) die("follow answered " + answer->body);
    from += answer->body.size();
    bytes += answer->body.size();
  }
}

int follow(const std::string& socket, const std::string& run, int count) {
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> bytes = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&] { follow_one(socket, RunId{run}, bytes, stop); });
    }
    std::printf("following\n");
    std::fflush(stdout);
    char end = 0;
    while (::read(0, &end, 1) > 0) continue;
    stop = true;
  }
  std::printf("%llu\n", static_cast<unsigned long long>(bytes));
  return 0;
}

int append(const std::string& path, int count) {
  const Result<Fd> file = open_file(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
  if (!file) die(file.error().message);
  const std::string block(4096, 'x');
  MonotoneClock clock;
  const SteadyTime start = clock.steady();
  for (int i = 0; i < count; ++i) {
    if (!write_all(file->get(), block, "append") || fdatasync(file->get()) != 0) die("append");
  }
  std::printf("%.1f\n", count / seconds_since(clock, start));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() > 6 && args[0] == "submit") {
    return submit(args[1], std::stoi(args[2]), std::stoi(args[3]), std::stoi(args[4]),
                  {args.begin() + 6, args.end()});
  }
  if (args.size() == 4 && args[0] == "follow") return follow(args[1], args[2], std::stoi(args[3]));
  if (args.size() == 3 && args[0] == "append") return append(args[1], std::stoi(args[2]));
  die("see the head of bench/load.cc for its arguments");
}
