// Environments, without a server around them.
//
//   env_bench hash                           milliseconds to hash a recipe of 1,000 lines
//   env_bench find SHELF CACHE               milliseconds to decide that an environment is there
//   env_bench build SHELF CACHE REQUIREMENTS seconds to build one; what it prints goes to stderr
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/clock.h"
#include "dialects/requirements.h"
#include "env/build.h"
#include "env/shelf.h"

extern char** environ;

using namespace trainyard;

namespace {

constexpr int kRepeat = 101;

[[noreturn]] void die(const Error& error) {
  std::fprintf(stderr, "env_bench: %s\n%s\n", error.message.c_str(), error.hint.c_str());
  std::exit(1);
}

template <class T>
T must(Result<T> result) {
  if (!result) die(result.error());
  return *std::move(result);
}

template <class F>
double median_ms(const Clock& clock, F&& f) {
  std::vector<double> times;
  for (int i = 0; i < kRepeat; ++i) {
    const SteadyTime began = clock.steady();
    f();
    times.push_back(static_cast<double>((clock.steady() - began).count()) / 1e3);
  }
  std::ranges::nth_element(times, times.begin() + kRepeat / 2);
  return times[kRepeat / 2];
}

// Names as long as those that people use, with a hash each, as a compiled list has them.
Recipe recipe_of(int lines) {
  Recipe recipe;
  recipe.kind = EnvironmentKind::venv;
  for (int i = 0; i < lines; ++i) {
    const std::string number = std::to_string(i * 7919 % 10007);
    recipe.requirements.push_back("some-package-" + number + "==1." + number +
                                  " --hash=sha256:" + std::string(64, 'a') +
                                  "  # requirements.txt:" + std::to_string(i));
  }
  return recipe;
}

class Printed : public env::Watcher {
 public:
  void line(std::string_view text) override {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  }
  void progress(std::string_view words) override {
    std::fprintf(stderr, "[%.*s]\n", static_cast<int>(words.size()), words.data());
  }
  bool stopped() const override { return false; }
};

env::Settings settings_of(const char* cache) {
  env::Settings settings;
  for (char** pair = environ; *pair != nullptr; ++pair) {
    const std::string text = *pair;
    settings.variables[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  settings.cache = cache;
  return settings;
}

std::string resolve(Environment& environment, const env::Settings& settings) {
  environment.recipe.platform = must(env::platform_of(environment.recipe, settings));
  environment.hash = recipe_hash(environment.recipe);
  return environment.hash;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const MonotoneClock clock;
  if (words.size() == 1 && words[0] == "hash") {
    const Recipe recipe = recipe_of(1000);
    std::printf("%.3f\n", median_ms(clock, [&] { recipe_hash(recipe); }));
    return 0;
  }
  if (words.size() == 3 && words[0] == "find") {
    const env::Shelf shelf{fs::path(words[1])};
    const env::Settings settings = settings_of(argv[3]);
    Environment environment;
    environment.recipe = recipe_of(25);
    const std::string hash = resolve(environment, settings);
    must(shelf.make(hash, [](const fs::path&) -> Result<Realised> { return Realised{}; }));
    std::printf("%.3f\n", median_ms(clock, [&] {
                  Environment asked = environment;
                  if (!must(shelf.find(resolve(asked, settings)))) std::exit(1);
                }));
    return 0;
  }
  if (words.size() == 4 && (words[0] == "build" || words[0] == "build-plain")) {
    env::Settings settings = settings_of(argv[3]);
    // A server looks once whether it works.
    if (words[0] == "build") settings.sandbox = must(env::open_sandbox({}));
    const SteadyTime began = clock.steady();
    Environment environment;
    environment.recipe.kind = EnvironmentKind::venv;
    must(dialects::read_requirements(words[3])).add_to(environment);
    const std::string hash = resolve(environment, settings);
    Printed printed;
    must(env::Shelf(fs::path(words[1])).make(hash, [&](const fs::path& folder) {
      return env::build(environment, folder, settings, printed);
    }));
    std::printf("%.3f\n", static_cast<double>((clock.steady() - began).count()) / 1e6);
    return 0;
  }
  die({ErrorKind::invalid,
       "use: env_bench hash | find SHELF CACHE | build[-plain] SHELF CACHE FILE",
       {}});
}
