#include "cli/completion.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "model/run_state.h"

namespace trainyard::cli {
namespace {

struct Meaning {
  std::string_view word;
  Source source = Source::nothing;
};

// What stands for what in usages and in the tables of options.
constexpr Meaning kTermMeanings[] = {
    {"RUN", Source::runs},         {"RUN:PATH", Source::runs},
    {"FILE", Source::files},       {"SCRIPT", Source::files},
    {"DEST", Source::files},       {"DIR", Source::folders},
    {"SECRET", Source::secrets},   {"NAME[:V]", Source::environments},
    {"COMPUTE", Source::computes},
};

// Whose NAME or ID it is, by the beginning of an option's key or by a command's group.
constexpr Meaning kOwners[] = {
    {"run", Source::runs},
    {"job", Source::runs},
    {"experiment", Source::experiments},
    {"workspace", Source::workspaces},
    {"user", Source::users},
    {"secret", Source::secrets},
    {"token", Source::tokens},
    {"compute", Source::computes},
    {"target", Source::computes},
    {"environment", Source::environments},
};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view group_of(const Command& command) {
  const size_t space = command.name.find(' ');
  return space == std::string_view::npos ? std::string_view() : command.name.substr(0, space);
}

// "json, tsv or none; else …" -> json, tsv, none. Empty when the text does not begin so.
std::vector<std::string> values_named_by(std::string_view help) {
  const size_t end = help.find_first_of(";:.(");
  std::string list(help.substr(0, end));
  const size_t last = list.rfind(" or ");
  if (last == std::string::npos) return {};
  list.replace(last, 4, ", ");
  std::vector<std::string> values;
  for (const std::string& part : split(list, ',')) {
    const std::string_view value = trim(part);
    if (value.empty() || contains(value, " ")) return {};
    values.emplace_back(value);
  }
  return values;
}

std::vector<std::string> statuses() {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(RunStatus::canceled); ++i) {
    names.emplace_back(to_string(static_cast<RunStatus>(i)));
  }
  return names;
}

// "NAME [--role ROLE]" -> NAME; "[OPTION]… FILE…" -> FILE…: the words a command takes.
std::vector<std::string> words_of(std::string_view usage) {
  std::vector<std::string> words;
  for (std::string word : split(usage, ' ')) {
    std::erase_if(word, [](char c) { return c == '[' || c == ']'; });
    if (word.starts_with('-')) break;
    if (!word.empty() && !word.starts_with("OPTION")) words.push_back(std::move(word));
  }
  return words;
}

// Walks over the words before the last one, as the parser of arguments will.
class Walk {
 public:
  Walk(std::span<const Command> commands, std::span<const Option> common)
      : commands_(commands), common_(common) {}

  void pass(const std::string& word, size_t next) {
    if (begins_command_ || begins_script_) return;
    if (take_value(word)) return;
    if (command_ != nullptr && command_->rest == Rest::after_word && !is_option(word)) {
      begins_script_ = true;
      return;
    }
    if (word == "--" && !words_only_) {
      words_only_ = true;
      begins_command_ = command_ != nullptr && command_->rest == Rest::apart;
      result_.command_at = next;
    } else if (words_only_ || !is_option(word)) {
      take_word(word);
    } else if (is_long(word)) {
      take_long(word);
    } else {
      take_short(word);
    }
  }

  Completion last(const std::string& word) {
    result_.begun = word;
    if (begins_command_) {
      result_.source = Source::command;
    } else if (begins_script_) {
      result_.source = Source::files;  // A script's words are its own; most are files.
    } else if (waits_ != nullptr && !(waits_->takes == Takes::list && is_option(word))) {
      want_value(*waits_);
    } else if (!words_only_ && word.starts_with('-')) {
      want_option(word);
    } else if (command_ == nullptr) {
      want_command();
    } else {
      want_word();
    }
    return std::move(result_);
  }

 private:
  const Option* find(std::string_view name) const {
    for (const auto table : tables()) {
      for (const Option& option : table) {
        const auto names = option.all_names();
        if (std::find(names.begin(), names.end(), name) != names.end()) return &option;
      }
    }
    return nullptr;
  }

  std::vector<std::span<const Option>> tables() const {
    if (command_ == nullptr) return {common_};
    return {command_->options, command_->shared, common_};
  }

  // ---- what was typed before ----

  bool take_value(const std::string& word) {
    if (waits_ == nullptr || word == "--") return false;
    const bool again = waits_->takes == Takes::list;
    if (is_option(word) && (again || find(word.substr(0, word.find('='))) != nullptr)) {
      waits_ = nullptr;
      return false;
    }
    keep(*waits_, word);
    if (!again) waits_ = nullptr;
    return true;
  }

  void keep(const Option& option, std::string value) {
    result_.given[std::string(option.key())] = std::move(value);
  }

  void take_long(const std::string& word) {
    const size_t equals = word.find('=');
    const Option* option = find(word.substr(0, equals));
    if (option == nullptr) return;
    if (option->takes == Takes::nothing) {
      keep(*option, "");
    } else if (equals != std::string::npos) {
      keep(*option, word.substr(equals + 1));
    } else {
      waits_ = option;
    }
  }

  void take_short(const std::string& word) {
    for (size_t i = 1; i < word.size(); ++i) {
      const Option* option = find(std::string{'-', word[i]});
      if (option == nullptr) return;
      if (option->takes == Takes::nothing) {
        keep(*option, "");
        continue;
      }
      if (i + 1 == word.size()) {
        waits_ = option;
      } else {
        keep(*option, word.substr(i + (word[i + 1] == '=' ? 2 : 1)));
      }
      return;
    }
  }

  void take_word(const std::string& word) {
    if (command_ != nullptr) {
      ++words_;
      return;
    }
    if (path_.empty() && word == "help") return;
    path_ += (path_.empty() ? "" : " ") + word;
    for (const Command& command : commands_) {
      if (command.name == path_) command_ = &command;
    }
  }

  // ---- what may come now ----

  void want(Source source) { result_.source = source; }

  void offer(std::string value, std::string description = {}) {
    if (!value.starts_with(result_.before + result_.begun)) return;
    result_.candidates.push_back({std::move(value), std::move(description)});
  }

  void want_words(const std::vector<std::string>& words) {
    want(Source::words);
    for (const std::string& word : words) offer(result_.before + word);
  }

  // Names of commands and groups below what was typed.
  void want_command() {
    want(Source::words);
    const std::string above = path_.empty() ? "" : path_ + " ";
    std::set<std::string> seen;
    for (const Command& command : commands_) {
      if (command.internal || !command.name.starts_with(above)) continue;
      const std::string_view below = command.name.substr(above.size());
      const std::string first(below.substr(0, below.find(' ')));
      if (first == below) {
        offer(first, std::string(command.summary));
      } else if (seen.insert(first).second) {
        offer(first, commands_of(above + first + " "));
      }
    }
  }

  // "list, show, cancel, …"
  std::string commands_of(std::string_view above) const {
    std::vector<std::string> names;
    for (const Command& command : commands_) {
      if (!command.name.starts_with(above) || command.internal) continue;
      names.emplace_back(command.name.substr(above.size()));
    }
    return join(names, ", ");
  }

  // "--output=js" and "-ojs" are about a value, "--out" and "-" about an option.
  void want_option(const std::string& word) {
    const size_t equals = word.find('=');
    const size_t name = is_long(word) ? equals : 2;
    if (name < word.size()) {
      const Option* option = find(word.substr(0, name));
      if (option == nullptr || option->takes == Takes::nothing) return;
      const size_t value = equals == name ? name + 1 : name;
      result_.before = word.substr(0, value);
      result_.begun = word.substr(value);
      return want_value(*option);
    }
    want(Source::words);
    for (const auto table : tables()) {
      for (const Option& option : table) {
        const bool done = option.takes == Takes::nothing && result_.given.contains(option.key());
        if (!done && option.since == Since::now && !option.help.empty()) offer_option(option, word);
      }
    }
    if (command_ == nullptr && path_.empty()) offer("--version", "Show the version.");
  }

  // By its first name; by another one only when that is what was begun. Letters where nothing is.
  void offer_option(const Option& option, const std::string& word) {
    const auto names = option.all_names();
    if (word == "-") {
      for (const std::string_view name : names) {
        if (!is_long(name)) offer(std::string(name), std::string(option.help));
      }
    }
    for (const std::string_view name : names) {
      if (!name.starts_with(word) || (!is_long(name) && word == "-")) continue;
      return offer(std::string(name), std::string(option.help));
    }
  }

  void want_value(const Option& option) {
    if (const auto values = values_named_by(option.help); !values.empty()) {
      return want_words(values);
    }
    want_thing(option.word, option.key());
  }

  void want_word() {
    const std::vector<std::string> known = words_of(command_->usage);
    if (known.empty()) return;
    const bool more = words_ >= known.size();
    if (more && !known.back().ends_with("…")) return;
    std::string thing = more ? known.back() : known[words_];
    if (thing.ends_with("…")) thing.resize(thing.size() - std::string_view("…").size());
    if (contains(thing, "|")) return want_words(split(thing, '|'));
    // The name of what is yet to be made is for its maker to choose.
    if (!command_->name.ends_with("create")) want_thing(thing, "name");
  }

  // What a word of the help stands for; a NAME is of what the option is called after, or else the
  // command's group.
  void want_thing(std::string_view word, std::string_view key) {
    if (word == "STATUS") return want_words(statuses());
    if (word == "RUN:PATH") result_.after = ":";
    for (const auto& [known, source] : kTermMeanings) {
      if (word == known) return want(source);
    }
    if (word != "NAME" && word != "ID") return;
    const bool of_group = command_ != nullptr && (key == "name" || key == "id");
    const std::string_view owner = of_group ? group_of(*command_) : key;
    for (const auto& [known, source] : kOwners) {
      if (owner.starts_with(known)) return want(source);
    }
  }

  std::span<const Command> commands_;
  std::span<const Option> common_;
  std::string path_;  // The words of the command's name so far.
  const Command* command_ = nullptr;
  const Option* waits_ = nullptr;  // For its value.
  size_t words_ = 0;
  bool words_only_ = false;
  bool begins_command_ = false;
  bool begins_script_ = false;
  Completion result_;
};

// A tab or a line break would end a candidate.
std::string in_one_line(std::string text) {
  std::replace_if(text.begin(), text.end(), [](unsigned char c) { return c < ' '; }, ' ');
  return text;
}

}  // namespace

Completion complete(std::span<const Command> commands, std::span<const Option> common,
                    std::span<const std::string> words) {
  Walk walk(commands, common);
  if (words.empty()) return walk.last("");
  for (size_t i = 0; i + 1 < words.size(); ++i) walk.pass(words[i], i + 1);
  return walk.last(words.back());
}

std::string render_completion(const Completion& completion) {
  if (completion.source == Source::files) return ":files\n";
  if (completion.source == Source::folders) return ":folders\n";
  if (completion.source == Source::command) {
    return ":command " + std::to_string(completion.command_at) + "\n";
  }
  std::string text;
  for (const Candidate& candidate : completion.candidates) {
    text += candidate.value;
    if (!candidate.description.empty()) text += "\t" + in_one_line(candidate.description);
    text += "\n";
  }
  return text;
}

}  // namespace trainyard::cli
