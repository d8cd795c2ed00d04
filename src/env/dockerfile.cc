#include "env/dockerfile.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "base/text.h"

namespace trainyard::env {
namespace {

using Values = std::map<std::string, std::string>;

// Whether the comments at the top have "# escape=`". Engines differ in which of them count.
bool may_escape_by_backtick(std::string_view text) {
  for (const std::string& raw : split(text, '\n')) {
    const std::string_view line = trim(raw);
    if (!line.empty() && !line.starts_with('#')) break;
    const size_t equals = std::min(line.find('='), line.size());
    const std::string name = lower(trim(line.substr(0, equals)));
    if (name.ends_with("escape") && line.find('`', equals) != line.npos) return true;
  }
  return false;
}

// A line with those it goes on in; empty ones and comments between them do not end it.
std::vector<std::string> whole_lines(std::string_view text, char escape) {
  std::vector<std::string> lines;
  bool goes_on = false;
  for (const std::string& raw : split(text, '\n')) {
    std::string_view line = trim(raw);
    if (line.empty() || line.starts_with('#')) continue;
    const bool more = line.ends_with(escape);
    if (more) line.remove_suffix(1);
    if (!goes_on) lines.emplace_back();
    lines.back().append(line).append(" ");
    goes_on = more;
  }
  return lines;
}

// "$A" and "${A}"; anything else, and what has no value, stays as it is.
std::string filled_in(std::string_view text, const Values& values) {
  std::string filled;
  for (size_t i = 0; i < text.size();) {
    size_t begin = i + 1;
    const bool braces = text[i] == '$' && begin < text.size() && text[begin] == '{';
    if (braces) ++begin;
    size_t end = begin;
    const auto in_name = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    };
    while (end < text.size() && in_name(text[end])) ++end;
    const auto value = values.find(std::string(text.substr(begin, end - begin)));
    const bool closed = !braces || (end < text.size() && text[end] == '}');
    if (text[i] != '$' || !closed || value == values.end()) {
      filled += text[i++];
      continue;
    }
    filled += value->second;
    i = end + (braces ? 1 : 0);
  }
  return filled;
}

std::string unquoted(std::string text) {
  std::erase_if(text, [](char c) { return c == '"' || c == '\''; });
  return text;
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  std::string plain(line);
  std::ranges::replace(plain, '\t', ' ');
  for (std::string& word : split(plain, ' ')) {
    if (!word.empty()) words.push_back(unquoted(std::move(word)));
  }
  return words;
}

// What an option of COPY, ADD or RUN copies from; empty: nothing.
std::string copied_from(std::string_view word) {
  constexpr std::string_view kFrom = "from=";
  if (!word.starts_with("--")) return {};
  word.remove_prefix(2);
  if (word.starts_with("mount=")) word.remove_prefix(6);
  for (const std::string& part : split(word, ',')) {
    if (part.starts_with(kFrom)) return part.substr(kFrom.size());
  }
  return {};
}

// "<<EOF" and "3<<-EOF" begin a text.
bool begins_text(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of("0123456789"), word.size()));
  return word.starts_with("<<");
}

class ImagesIn {
 public:
  explicit ImagesIn(const Values& arguments) : arguments_(arguments) {}

  std::vector<std::string> read(std::string_view dockerfile, char escape) {
    for (const std::string& line : whole_lines(dockerfile, escape)) {
      const std::vector<std::string> words = words_of(line);
      if (words.empty()) continue;
      const std::string instruction = lower(words[0]);
      if (instruction == "arg" && count_ == 0) read_argument(words);
      if (instruction == "from") {
        read_from(words);
        continue;
      }
      for (const std::string& word : words) add(copied_from(word));
      has_text_ = has_text_ || std::ranges::any_of(words, begins_text);
    }
    return std::move(images_);
  }

 private:
  void read_argument(const std::vector<std::string>& words) {
    for (size_t i = 1; i < words.size(); ++i) {
      const size_t equals = std::min(words[i].find('='), words[i].size());
      const std::string name = words[i].substr(0, equals);
      const auto given = arguments_.find(name);
      if (given != arguments_.end()) {
        values_[name] = given->second;
      } else if (equals < words[i].size()) {
        values_[name] = filled_in(words[i].substr(equals + 1), values_);
      }
    }
  }

  void read_from(const std::vector<std::string>& words) {
    size_t at = 1;
    while (at < words.size() && words[at].starts_with("--")) ++at;
    if (at < words.size()) add(filled_in(words[at], values_));
    if (has_text_) return;
    stages_.insert(std::to_string(count_++));  // Copied from by number too.
    const bool named = at + 2 < words.size() && lower(words[at + 1]) == "as";
    if (named && words[at + 2].find_first_of(":/@$") == std::string::npos) {
      stages_.insert(lower(words[at + 2]));
    }
  }

  void add(const std::string& name) {
    if (!name.empty() && !stages_.contains(lower(name))) images_.push_back(name);
  }

  const Values& arguments_;
  std::vector<std::string> images_;
  std::set<std::string> stages_ = {"scratch"};
  Values values_;
  int count_ = 0;  // Of stages.
  // A text was begun, which is no instruction for engines that know it: a stage after that may be a
  // line of the text, and counts as an image.
  bool has_text_ = false;
};

}  // namespace

std::vector<std::string> images_in(std::string_view dockerfile, const Values& arguments) {
  std::vector<std::string> images = ImagesIn(arguments).read(dockerfile, '\\');
  if (!may_escape_by_backtick(dockerfile)) return images;
  for (std::string& image : ImagesIn(arguments).read(dockerfile, '`')) {
    if (std::ranges::find(images, image) == images.end()) images.push_back(std::move(image));
  }
  return images;
}

bool names_transport(std::string_view image) {
  constexpr auto kTransports = std::to_array<std::string_view>(
      {"atomic", "containers-storage", "dir", "docker-archive", "docker-daemon", "oci",
       "oci-archive", "ostree", "rootfs", "sif", "tarball"});
  const size_t colon = image.find(':');
  return colon != image.npos &&
         std::ranges::find(kTransports, lower(image.substr(0, colon))) != kTransports.end();
}

bool is_plain_image_name(std::string_view image) {
  return std::ranges::all_of(image, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("._-/:@").find(c) != std::string_view::npos;
  });
}

bool may_be_anothers(std::string_view image) {
  if (image.starts_with("localhost/")) image.remove_prefix(10);
  if (image.starts_with("docker.io/")) image.remove_prefix(10);
  if (image.starts_with("sha256:") || image.starts_with("trainyard/") ||
      image.starts_with("trainyard-kept")) {
    return true;
  }
  return !image.empty() && image.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace trainyard::env
