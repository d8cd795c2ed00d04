#include "base/id.h"

#include <sys/random.h>

#include <array>
#include <cstdint>
#include <span>

#include "base/check.h"

namespace trainyard {
namespace {

constexpr std::string_view kAlphabet = "abcdefghijkmnpqrstuvwxyz23456789";  // 32, none alike.

constexpr std::array<std::string_view, 64> kAdjectives = {
    "able",  "amber", "bold",   "brave", "brisk",  "bright", "calm",  "civil",  "clear", "clever",
    "cool",  "crisp", "daring", "deft",  "eager",  "early",  "easy",  "fair",   "fancy", "fast",
    "fine",  "firm",  "fond",   "frank", "fresh",  "gentle", "glad",  "golden", "good",  "grand",
    "great", "green", "happy",  "hardy", "honest", "jolly",  "keen",  "kind",   "light", "lively",
    "loyal", "lucid", "lucky",  "merry", "mild",   "modest", "neat",  "nimble", "noble", "odd",
    "plain", "proud", "quick",  "quiet", "rapid",  "ready",  "sharp", "silver", "sly",   "steady",
    "sunny", "swift", "tidy",   "warm"};

constexpr std::array<std::string_view, 64> kAnimals = {
    "ant",    "badger", "bat",    "bear",  "beaver", "bee",   "bison", "camel", "cat",    "crane",
    "crow",   "deer",   "dingo",  "dove",  "duck",   "eagle", "egret", "elk",   "falcon", "ferret",
    "finch",  "fox",    "frog",   "gecko", "goat",   "goose", "gull",  "hare",  "hawk",   "heron",
    "hyena",  "ibex",   "jay",    "kite",  "koala",  "lark",  "lemur", "lion",  "lizard", "lynx",
    "magpie", "mole",   "moose",  "mouse", "newt",   "otter", "owl",   "panda", "parrot", "pony",
    "puffin", "quail",  "rabbit", "raven", "robin",  "seal",  "shrew", "sloth", "stork",  "swan",
    "tapir",  "tiger",  "vole",   "wren"};

void fill_random(std::span<uint8_t> bytes) {
  ENSURE(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
}

}  // namespace

RunId new_run_id() {
  std::array<uint8_t, 10> random{};
  fill_random(random);
  std::string id(kAdjectives[random[0] % kAdjectives.size()]);
  id.append("-").append(kAnimals[random[1] % kAnimals.size()]).append("-");
  for (size_t i = 2; i < random.size(); ++i) id.push_back(kAlphabet[random[i] % 32]);
  return RunId{id};
}

std::string new_secret(std::string_view prefix) {
  std::array<uint8_t, 52> random{};
  fill_random(random);
  std::string secret(prefix);
  for (const uint8_t byte : random) secret.push_back(kAlphabet[byte % 32]);
  return secret;
}

Status check_name(std::string_view name, std::string_view what) {
  constexpr size_t kLengthMax = 255;
  const auto alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  bool good = !name.empty() && name.size() <= kLengthMax && alphanumeric(name.front());
  for (const char c : name) good = good && (alphanumeric(c) || c == '_' || c == '.' || c == '-');
  if (good) return {};
  return fail(ErrorKind::invalid,
              std::string(what) + " '" + std::string(name.substr(0, 80)) + "' is not a valid name",
              "Use 1 to 255 letters, digits, '_', '.' or '-', starting with a letter or digit.");
}

}  // namespace trainyard
