// The words by which a runtime starts a rank, a line each, for container_bench.py:
//
//   bench_container docker PROGRAM SOCKET IMAGE FILE COMMAND...
//   bench_container bubblewrap PROGRAM ROOT FILE COMMAND...
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "container/bubblewrap.h"
#include "container/docker_runtime.h"

namespace {

using namespace trainyard;

Result<std::vector<std::string>> words_of(const std::vector<std::string>& given) {
  container::Plan plan;
  plan.mark = "bench";
  plan.variables = {"HOME"};
  if (given.size() > 5 && given[0] == "docker") {
    plan.image = given[3];
    plan.command.assign(given.begin() + 5, given.end());
    TRY_SET(container::EngineAddress engine, container::find_engine(given[2], {}));
    return container::DockerRuntime(given[1], std::move(engine)).command(plan, given[4]);
  }
  if (given.size() > 4 && given[0] == "bubblewrap") {
    plan.root = given[2];
    plan.command.assign(given.begin() + 4, given.end());
    TRY_SET(const std::unique_ptr<container::Runtime> runtime,
            container::Bubblewrap::open(given[1]));
    return runtime->command(plan, given[3]);
  }
  return fail(ErrorKind::invalid, "bench_container docker|bubblewrap …");
}

}  // namespace

int main(int argc, char** argv) {
  const auto words = words_of({argv + 1, argv + argc});
  if (!words) {
    std::fprintf(stderr, "%s\n", words.error().message.c_str());
    return 1;
  }
  for (const std::string& word : *words) std::printf("%s\n", word.c_str());
  return 0;
}
