#include "model/requirement.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace trainyard {
namespace {

constexpr std::string_view kBlanks = " \t";

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

// Where the comment begins; a '#' in a URL's fragment has no blank before it.
size_t comment_at(std::string_view line) {
  for (size_t at = line.find('#'); at != std::string_view::npos; at = line.find('#', at + 1)) {
    if (at == 0 || kBlanks.find(line[at - 1]) != std::string_view::npos) return at;
  }
  return line.size();
}

// "FILE:12"
bool is_place(std::string_view text) {
  const size_t colon = text.rfind(':');
  return colon != std::string_view::npos && colon > 0 && colon + 1 < text.size() &&
         text.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
}

// "numpy[extra] >=1" -> "numpy"; nothing for a URL or a path.
std::string_view name_in(std::string_view text) {
  const auto end = std::ranges::find_if_not(text, is_name_char);
  const std::string_view name = text.substr(0, static_cast<size_t>(end - text.begin()));
  const std::string_view rest = trim(text.substr(name.size()));
  if (name.starts_with('-') || name.starts_with('.')) return {};
  if (rest.empty()) return name.ends_with(".whl") || name.ends_with(".tar.gz") ? "" : name;
  return std::string_view("[=<>!~;@(").find(rest.front()) != std::string_view::npos ||
                 rest.starts_with("--")
             ? name
             : "";
}

struct Known {
  std::string_view name;
  std::string_view brief;
  bool has_value;
};

// What pip takes in a file, but for what says where to install or what else to read.
constexpr auto kOptions = std::to_array<Known>({
    {"--index-url", "-i", true},
    {"--extra-index-url", "", true},
    {"--find-links", "-f", true},
    {"--no-index", "", false},
    {"--no-binary", "", true},
    {"--only-binary", "", true},
    {"--prefer-binary", "", false},
    {"--pre", "", false},
    {"--require-hashes", "", false},
    {"--trusted-host", "", true},
    {"--use-feature", "", true},
    {"--no-deps", "", false},
    {"--no-build-isolation", "", false},
    {"--constraint", "", true},
});

}  // namespace

std::string package_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    const bool separator = c == '-' || c == '_' || c == '.';
    if (separator && plain.ends_with('-')) continue;
    plain += separator ? '-' : static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  return plain;
}

Requirement parse_requirement(std::string_view line) {
  const size_t end = comment_at(line);
  Requirement found;
  found.text = trim(line.substr(0, end));
  found.name = package_name(name_in(found.text));
  const std::string_view comment = end < line.size() ? trim(line.substr(end + 1)) : "";
  if (is_place(comment)) found.place = comment;
  return found;
}

std::string with_place(std::string_view text, std::string_view place) {
  std::string line(text);
  if (!place.empty()) line.append("  # ").append(place);
  return line;
}

bool is_ours(std::string_view package) { return package_name(package) == "trainyard"; }

Status check_one_line(std::string_view text) {
  if (trim(text).ends_with('\\')) {
    return fail(ErrorKind::invalid, "'" + printable(text) + "' ends with a \\",
                "It would join the next line to this one: write both as one line.");
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::string_view rest = text.substr(i);
    const bool c1 = byte == 0xC2 && rest.size() > 1 && static_cast<unsigned char>(rest[1]) < 0xA0;
    const bool separator = rest.starts_with("\xE2\x80\xA8") || rest.starts_with("\xE2\x80\xA9");
    if ((byte >= 0x20 || byte == '\t') && byte != 0x7F && !c1 && !separator) continue;
    return fail(ErrorKind::invalid,
                "'" + printable(text.substr(0, i)) + "' is followed by a control character",
                "Write each package or option as a line of its own.");
  }
  return {};
}

Result<PipOption> parse_pip_option(std::string_view text) {
  text = trim(text.substr(0, comment_at(text)));
  // "-i URL", "-iURL", "--index-url URL", "--index-url=URL".
  size_t end =
      text.starts_with("--") ? text.find_first_of("= \t") : std::min<size_t>(2, text.size());
  end = std::min(end, text.size());
  std::string_view value = trim(text.substr(end));
  if (value.starts_with('=')) value = trim(value.substr(1));
  const std::string_view name = text.substr(0, end);
  for (const Known& known : kOptions) {
    if (name != known.name && (known.brief.empty() || name != known.brief)) continue;
    const std::string known_name(known.name);
    if (known.has_value && value.empty()) {
      return fail(ErrorKind::invalid, known_name + " has no value");
    }
    if (!known.has_value && !value.empty()) {
      return fail(ErrorKind::invalid, known_name + " takes no value");
    }
    return PipOption{known_name, std::string(value)};
  }
  std::string names;
  for (const Known& known : kOptions)
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  return fail(ErrorKind::invalid, "the option '" + std::string(name) + "' means nothing here",
              "Options of packages are: " + names + ".");
}

std::string local_path_of(std::string_view text) {
  text = trim(text.substr(0, comment_at(text)));
  if (const size_t hash = text.find(" --hash"); hash != text.npos)
    text = trim(text.substr(0, hash));
  // "name[extra] @ URL ; marker"
  const std::string_view name = name_in(text);
  if (!name.empty()) {
    const size_t at = text.find('@');
    if (at == text.npos || text.substr(0, at).find_first_of("=<>!~;") != text.npos) return {};
    text = trim(text.substr(at + 1));
  }
  if (const size_t marker = text.find(" ;"); marker != text.npos)
    text = trim(text.substr(0, marker));
  const size_t scheme = text.find(':');
  const bool has_scheme = scheme != text.npos && scheme > 0 &&
                          text.substr(0, scheme).find('/') == std::string_view::npos;
  if (!has_scheme) return std::string(text);
  std::string kind(text.substr(0, scheme));
  for (char& c : kind) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  if (!kind.ends_with("file")) return {};
  text = text.substr(scheme + 1);
  if (text.starts_with("//")) text = text.substr(std::min(text.find('/', 2), text.size()));
  const size_t end = std::min(text.find_first_of("#?"), text.size());
  const size_t commit = std::min(text.find('@'), end);
  return text.empty() ? "/" : std::string(text.substr(0, commit));
}

}  // namespace trainyard
