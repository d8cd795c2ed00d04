#include "cli/args.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "cli/suggest.h"

namespace trainyard::cli {
namespace {

// "--last=5" -> "--last" and "5".
struct Word {
  std::string name;
  std::string value;
  bool has_value = false;
};

Word take_apart(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos) return {word, {}, false};
  return {word.substr(0, equals), word.substr(equals + 1), true};
}

// "--workspace_name", as some write it -> "--workspace-name".
std::string dashed(std::string_view given) {
  std::string name(given);
  if (is_long(given)) std::ranges::replace(name, '_', '-');
  return name;
}

}  // namespace

std::vector<std::string_view> Option::all_names() const {
  std::vector<std::string_view> found;
  std::string_view left = names;
  while (!left.empty()) {
    const size_t space = left.find(' ');
    found.push_back(left.substr(0, space));
    left = space == std::string_view::npos ? std::string_view() : left.substr(space + 1);
  }
  return found;
}

std::string_view Option::key() const {
  const std::string_view first = names.substr(0, names.find(' '));
  return first.substr(first.find_first_not_of('-'));
}

class Parser {
 public:
  Parser(const Grammar& grammar, std::span<const std::string> words)
      : grammar_(grammar), words_(words) {
    for (const auto table : grammar.tables) {
      for (const Option& option : table) args_.values_.try_emplace(std::string(option.key()));
    }
  }

  Result<Args> run() {
    while (at_ < words_.size()) {
      const std::string& word = words_[at_++];
      if (word == "--") {
        take_rest();
      } else if (is_long(word)) {
        TRY(take_long(word));
      } else if (is_option(word)) {
        TRY(take_short(word));
      } else if (grammar_.rest == Rest::after_word) {
        --at_;
        take_rest();
      } else {
        TRY(take_word(word));
      }
    }
    return std::move(args_);
  }

 private:
  const Option* find(std::string_view given) const {
    const std::string name = dashed(given);
    for (const auto table : grammar_.tables) {
      for (const Option& option : table) {
        for (const std::string_view known : option.all_names()) {
          if (known == name) return &option;
        }
      }
    }
    return nullptr;
  }

  std::unexpected<Error> unknown(const std::string& name) const {
    std::vector<std::string> known;
    for (const auto table : grammar_.tables) {
      for (const Option& option : table) {
        for (const std::string_view each : option.all_names()) {
          if (is_long(each)) known.emplace_back(each);
        }
      }
    }
    const std::string near = is_long(name) ? option_meant_by(name, known) : "";
    return fail(ErrorKind::invalid, "unknown option '" + name + "'",
                near.empty() ? "" : "Did you mean '" + near + "'?");
  }

  void take_rest() {
    const auto left = words_.subspan(at_);
    at_ = words_.size();
    args_.has_rest_ = true;
    auto& into = grammar_.rest == Rest::words ? args_.words_ : args_.rest_;
    into.insert(into.end(), left.begin(), left.end());
  }

  Status take_word(const std::string& word) {
    args_.words_.push_back(word);
    if (static_cast<int>(args_.words_.size()) <= grammar_.words_max) return {};
    if (grammar_.rest == Rest::apart) {
      return fail(ErrorKind::invalid, "unexpected word '" + word + "'",
                  "The command to run comes after --, as in: trainyard submit -- python train.py");
    }
    // The option that a command without words of its own takes most often.
    std::string hint;
    for (const std::string_view name : {"-f", "-n"}) {
      const Option* option = find(name);
      const bool file = option != nullptr && option->key() == "file";
      const bool named = option != nullptr && option->key() == "name";
      if (hint.empty() && (file || named) && !args_.has(option->key())) {
        hint = "Did you mean '" + std::string(name) + " " + word + "'?";
      }
    }
    return fail(ErrorKind::invalid, "unexpected word '" + word + "'", hint);
  }

  Status take_long(const std::string& word) {
    const Word parts = take_apart(word);
    const Option* option = find(parts.name);
    if (option == nullptr) return unknown(parts.name);
    if (option->takes != Takes::nothing) return take_value(*option, parts);
    if (!parts.has_value) return add(*option, parts.name, {});
    return fail(ErrorKind::invalid, "option '" + parts.name + "' takes no value");
  }

  // "-f", "-n5", "-n 5", "-n=5", "-fy": a cluster of flags, of which the last may take a value.
  Status take_short(const std::string& word) {
    for (size_t i = 1; i < word.size(); ++i) {
      const std::string name = {'-', word[i]};
      const Option* option = find(name);
      if (option == nullptr) return unknown(word.size() > 2 && i == 1 ? word : name);
      if (option->takes == Takes::nothing) {
        TRY(add(*option, name, {}));
        continue;
      }
      std::string value = word.substr(i + 1);
      const bool attached = !value.empty();
      if (value.starts_with('=')) value.erase(0, 1);
      return take_value(*option, {name, std::move(value), attached});
    }
    return {};
  }

  // A word that is itself an option here is no value: `-e --async` forgot one. Anything else that
  // begins with a dash is: `--env-var -1` is the user's business.
  bool next_is_value() const {
    if (at_ >= words_.size() || words_[at_] == "--") return false;
    const std::string& next = words_[at_];
    return !is_option(next) || find(take_apart(next).name) == nullptr;
  }

  Status take_value(const Option& option, const Word& word) {
    if (word.has_value) {
      TRY(add(option, word.name, word.value));
    } else if (next_is_value()) {
      TRY(add(option, word.name, words_[at_++]));
    } else {
      if (option.since == Since::later) return add(option, word.name, {});
      return fail(ErrorKind::invalid,
                  "option '" + word.name + "' needs a value: " + std::string(option.word));
    }
    if (option.takes != Takes::list || word.has_value) return {};
    while (at_ < words_.size() && !is_option(words_[at_])) {
      TRY(add(option, word.name, words_[at_++]));
    }
    return {};
  }

  Status add(const Option& option, const std::string& name, std::string value) {
    if (option.since == Since::later) {
      return fail(ErrorKind::invalid, "option '" + name + "' comes with a later version");
    }
    args_.values_.find(option.key())->second.push_back(std::move(value));
    return {};
  }

  const Grammar& grammar_;
  std::span<const std::string> words_;
  size_t at_ = 0;
  Args args_;
};

Result<Args> Args::parse(const Grammar& grammar, std::span<const std::string> words) {
  return Parser(grammar, words).run();
}

bool Args::has(std::string_view key) const { return !values(key).empty(); }

std::string Args::value(std::string_view key, std::string_view otherwise) const {
  const auto& all = values(key);
  return all.empty() ? std::string(otherwise) : all.back();
}

const std::vector<std::string>& Args::values(std::string_view key) const {
  const auto found = values_.find(key);
  ENSURE(found != values_.end());
  return found->second;
}

Split split_name(std::span<const Option> table, std::span<const std::string> words,
                 bool (*is_group)(std::string_view)) {
  Split split;
  const auto takes_value = [&](const std::string& word) {
    for (const Option& option : table) {
      const auto names = option.all_names();
      if (std::ranges::find(names, dashed(word)) != names.end()) {
        return option.takes != Takes::nothing;
      }
    }
    return false;
  };
  size_t i = 0;
  for (; i < words.size() && words[i] != "--"; ++i) {
    if (is_option(words[i])) {
      split.left.push_back(words[i]);
      if (takes_value(words[i]) && i + 1 < words.size()) split.left.push_back(words[++i]);
      continue;
    }
    split.name.push_back(words[i]);
    if (!is_group(join(split.name, " "))) {
      ++i;
      break;
    }
  }
  split.left.insert(split.left.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
  return split;
}

Result<std::map<std::string, std::string>> parse_pairs(std::span<const std::string> pairs,
                                                       std::string_view what) {
  std::map<std::string, std::string> found;
  for (const std::string& pair : pairs) {
    const Word parts = take_apart(pair);
    if (!parts.has_value || parts.name.empty()) {
      return fail(ErrorKind::invalid, std::string(what) + " '" + pair + "' is not KEY=VALUE");
    }
    found[parts.name] = parts.value;
  }
  return found;
}

}  // namespace trainyard::cli
