#pragma once

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "base/process.h"
#include "container/engine_api.h"
#include "wire/json.h"

// A real docker and a real podman for tests, and a registry that wants a password.
namespace trainyard::container {

// Carries them (tests/support/engines.py), and runs commands of theirs, a line each.
inline constexpr const char* kEngineDriver = R"(
import json, sys, unittest
sys.path.insert(0, sys.argv[1])
import engines
def say(**words): print(json.dumps(words), flush=True)
up = []
try:
    try:
        registry = engines.Registry(password="open sesame")
        up.append(registry); registry.up()
        engine = engines.Docker() if sys.argv[2] == "docker" else engines.Podman(
            registries=[registry.address])
        up.append(engine); engine.up()
        engine.add_busybox("tiny", "ENV FROM_IMAGE=yes", "WORKDIR /tmp", 'CMD ["sh", "-c", "true"]')
        say(socket=str(engine.socket), registry=registry.address)
    except unittest.SkipTest as skipped:
        say(skipped=str(skipped))
    for line in sys.stdin:
        words = json.loads(line)
        try: say(said=engine.cli(*words))
        except AssertionError as error: say(failed=str(error))
finally:
    for one in reversed(up): one.down()
)";

class TestEngine {
 public:
  static constexpr const char* kUser = "reader";
  static constexpr const char* kPassword = "open sesame";

  // One of each for all tests of a program. Its socket is empty where it cannot run: `skipped`.
  static TestEngine& docker() {
    static TestEngine engine("docker");
    return engine;
  }
  static TestEngine& podman() {
    static TestEngine engine("podman");
    return engine;
  }

  ~TestEngine() {
    talk_.reset();
    int status = 0;
    ::waitpid(driver_.pid, &status, 0);
  }

  std::string socket;
  std::string registry;
  std::string skipped;

  EngineAddress address() const { return find_engine(socket, {}).value(); }

  // Its own command line; what it prints.
  std::string cli(const std::vector<std::string>& words) {
    REQUIRE(write_all(talk_.get(), wire::dump(wire::Json(words)) + "\n", "the driver"));
    const wire::Json answer = read_line();
    INFO(wire::dump(answer));
    REQUIRE(answer.contains("said"));
    return answer["said"].get<std::string>();
  }

 private:
  explicit TestEngine(const char* name) {
    std::array<int, 2> ends{};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    talk_ = Fd(ends[0]);
    const Fd theirs(ends[1]);
    SpawnOptions options;
    options.command = {"/usr/bin/env",
                       "python3",
                       "-c",
                       kEngineDriver,
                       TRAINYARD_SOURCE_DIR "/tests/support",
                       name};
    options.stdin_fd = options.stdout_fd = theirs.get();
    options.stderr_fd = STDERR_FILENO;
    driver_ = spawn(options).value();
    const wire::Json first = read_line();
    socket = first.value("socket", "");
    registry = first.value("registry", "");
    skipped = first.value("skipped", "");
  }

  wire::Json read_line() {
    std::string line;
    char c = 0;
    while (::read(talk_.get(), &c, 1) == 1 && c != '\n') line += c;
    return wire::parse(line).value_or(wire::Json::object());
  }

  Child driver_;
  Fd talk_;
};

}  // namespace trainyard::container
