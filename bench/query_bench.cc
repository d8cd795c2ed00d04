// A JMESPath query over a file, as a whole process: what `jp -f FILE EXPRESSION` does.
//
//   query_bench EXPRESSION FILE         prints the answer
//   query_bench EXPRESSION FILE parts   prints the milliseconds of each part instead
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/clock.h"
#include "base/file.h"
#include "query/query.h"
#include "query/read.h"
#include "wire/json.h"

using namespace trainyard;

namespace {

[[noreturn]] void die(const Error& error) {
  std::fprintf(stderr, "query_bench: %s\n", error.message.c_str());
  std::exit(1);
}

template <class T>
T must(Result<T> result) {
  if (!result) die(result.error());
  return *std::move(result);
}

double ms(SteadyTime from, SteadyTime to) { return static_cast<double>((to - from).count()) / 1e3; }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) die({ErrorKind::invalid, "use: query_bench EXPRESSION FILE [parts]", {}});
  const MonotoneClock clock;
  const SteadyTime start = clock.steady();
  const std::string text = must(read_file(argv[2]));
  const SteadyTime read = clock.steady();
  const wire::Json document = must(query::read(text));
  const SteadyTime parsed = clock.steady();
  const wire::Json found = must(must(query::Query::compile(argv[1])).search(document));
  const SteadyTime searched = clock.steady();
  const std::string answer = wire::dump_pretty(found) + "\n";
  const SteadyTime dumped = clock.steady();
  if (argc > 3) {
    std::printf("read %.1f parse %.1f search %.1f dump %.1f ms\n", ms(start, read),
                ms(read, parsed), ms(parsed, searched), ms(searched, dumped));
  } else {
    std::fwrite(answer.data(), 1, answer.size(), stdout);
  }
  std::fflush(stdout);
  // As a command does that ends: the system takes the memory back faster than we do.
  _exit(0);
}
