#include "dialects/requirements.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "base/text.h"
#include "model/requirement.h"

namespace trainyard::dialects {
namespace {

constexpr size_t kRequirementsBytesMax =
    4 * 1024 * 1024;                    // A lock with hashes of 1,000 packages: 1 MB.
constexpr int kIncludeDepthMax = 16;    // Of files that name files.
constexpr size_t kOptionsMax = 10'000;  // Each is compared with all before it.

enum class As { requirements, constraints };

// One line of pip's: with the lines that a '\' joins to it, and where it begins.
struct Logical {
  std::string text;
  int line = 0;
};

std::vector<Logical> logical_lines(std::string_view text) {
  std::vector<Logical> found;
  std::string joined;
  int first = 0;
  int number = 0;
  for (std::string& line : split(text, '\n')) {
    number += 1;
    if (line.ends_with('\r')) line.pop_back();
    if (joined.empty()) first = number;
    // A comment's own '\' joins nothing, as with pip.
    const bool comment = trim(line).starts_with('#');
    if (!comment && line.ends_with('\\')) {
      line.pop_back();
      joined += line;
      if (joined.empty()) joined = " ";
      continue;
    }
    // A comment line in the middle of joined ones ends them.
    found.push_back({comment && !joined.empty() ? joined : joined + line, first});
    joined.clear();
  }
  if (!joined.empty()) found.push_back({joined, first});
  return found;
}

// "-r other.txt" -> "other.txt", for one of the names of an option.
std::optional<std::string> value_of(std::string_view text, std::string_view brief,
                                    std::string_view full) {
  std::string_view rest;
  if (text.starts_with(full) && text.substr(full.size()).find_first_of("= \t") == 0) {
    rest = text.substr(full.size());
  } else if (text.starts_with(brief) && !text.starts_with("--")) {
    rest = text.substr(brief.size());
  } else {
    return std::nullopt;
  }
  rest = trim(rest);
  if (rest.starts_with('=')) rest = trim(rest.substr(1));
  return std::string(rest);
}

bool is_archive(std::string_view path) {
  return std::ranges::any_of(
      std::to_array<std::string_view>({".whl", ".tar.gz", ".tgz", ".zip", ".tar.bz2"}),
      [&](std::string_view end) { return path.ends_with(end); });
}

bool is_url(std::string_view text) { return text.find("://") != std::string_view::npos; }

// Without "; marker", "--hash=…" and "[extra]".
std::string_view path_in(std::string_view text) {
  text = trim(text.substr(0, text.find(" --")));
  text = trim(text.substr(0, text.find(" ;")));
  if (text.ends_with(']')) text = text.substr(0, text.rfind('['));
  return text;
}

class RequirementsReader {
 public:
  explicit RequirementsReader(Requirements& into, SentFiles* sent = nullptr)
      : into_(into), sent_(sent) {}

  Status file(const fs::path& path, As as) {
    std::error_code error;
    const fs::path whole =
        sent_ != nullptr ? path.lexically_normal() : fs::weakly_canonical(path, error);
    if (std::ranges::find(open_, whole) != open_.end()) {
      return fail(ErrorKind::invalid, path.string() + " names itself, by way of other files");
    }
    if (static_cast<int>(open_.size()) >= kIncludeDepthMax) {
      return fail(ErrorKind::invalid, path.string() + ": too many files that name files");
    }
    TRY_SET(const std::string text, sent_ != nullptr ? sent_text(whole) : own_text(path));
    open_.push_back(whole);
    TRY(lines(text, path, as));
    open_.pop_back();
    return {};
  }

  static Result<std::string> own_text(const fs::path& path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (fs::exists(status) && !fs::is_regular_file(status)) {
      return fail(ErrorKind::invalid, path.string() + ": is no file");
    }
    const auto size = fs::file_size(path, error);
    if (!error && size > kRequirementsBytesMax) {
      return fail(ErrorKind::invalid,
                  path.string() + ": larger than " + format_size(kRequirementsBytesMax),
                  "That is no list of packages; was another file meant?");
    }
    return read_file(path);
  }

  Result<std::string> sent_text(const fs::path& path) {
    const auto found = sent_->texts.find(path.string());
    if (found != sent_->texts.end()) return found->second;
    sent_->missing.insert(path);
    return std::string();
  }

  Status lines(std::string_view text, const fs::path& path, As as) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    if (text.find('\0') != std::string_view::npos || to_utf8(text) != text) {
      return fail(ErrorKind::invalid, path.string() + ": is no text in UTF-8",
                  "Save the file as UTF-8; PowerShell's > writes UTF-16.");
    }
    for (const Logical& logical : logical_lines(text)) {
      const std::string place =
          path.lexically_normal().string() + ":" + std::to_string(logical.line);
      const Status done = line(logical.text, place, path.parent_path(), as);
      if (!done) {
        Error error = done.error();
        // The place of the innermost file is the one to go to.
        if (!placed_) error = std::move(error).within(place);
        placed_ = true;
        return std::unexpected(std::move(error));
      }
    }
    return {};
  }

  Status line(std::string_view whole, const std::string& place, const fs::path& folder, As as) {
    const std::string text = parse_requirement(whole).text;
    if (text.empty()) return {};
    TRY(check_one_line(text));
    if (!text.starts_with('-')) return package(text, place, as);
    if (const auto other = value_of(text, "-r", "--requirement")) {
      return other_file(*other, "-r", folder, as);
    }
    if (const auto other = value_of(text, "-c", "--constraint")) {
      return other_file(*other, "-c", folder, As::constraints);
    }
    if (const auto what = value_of(text, "-e", "--editable")) return editable(*what, place, as);
    return option(text, folder);
  }

 private:
  Status other_file(const std::string& name, std::string_view how, const fs::path& folder, As as) {
    if (name.empty()) return fail(ErrorKind::invalid, std::string(how) + " names no file");
    if (is_url(name)) {
      return fail(ErrorKind::invalid, "a file at a URL is not read: " + name,
                  "Download it, and name the copy.");
    }
    return file(folder / name, as);
  }

  // `-e git+https://…#egg=name` is installed as it is of that commit; it cannot be edited in what
  // many runs share.
  Status editable(const std::string& what, const std::string& place, As as) {
    if (!is_url(what)) {
      return fail(ErrorKind::invalid,
                  "an editable install of a folder, '-e " + what +
                      "', cannot be part of an environment that runs share",
                  "Take the line out: code in the run's folder is found by import as it is "
                  "(set PYTHONPATH for a src/ folder), or install a wheel of it.");
    }
    const size_t egg = what.find("#egg=");
    const std::string name =
        egg == std::string::npos ? "" : what.substr(egg + 5, what.find('&', egg) - egg - 5);
    return package(name.empty() ? what : name + " @ " + what.substr(0, egg), place, as);
  }

  Status package(const std::string& text, const std::string& place, As as) {
    const Requirement requirement = parse_requirement(text);
    if (is_ours(requirement.name)) {
      return as == As::requirements ? add(into_.left_out, requirement.text) : Status{};
    }
    if (requirement.name.empty()) {
      TRY(check_nameless(requirement.text));
    }
    if (as == As::constraints) {
      return add(into_.options, "--constraint " + requirement.text);
    }
    if (seen_.insert(requirement.text).second) {
      into_.lines.push_back(with_place(requirement.text, place));
    }
    return {};
  }

  static Status check_nameless(const std::string& text) {
    const std::string_view path = path_in(text);
    const bool named = is_url(text) || (path.starts_with('/') && is_archive(path));
    if (named && !text.starts_with('-')) return {};
    const bool looks_like_path =
        path.starts_with('.') || path.find('/') != std::string_view::npos || is_archive(path);
    if (!looks_like_path) return fail(ErrorKind::invalid, "'" + text + "' is no requirement");
    return fail(ErrorKind::invalid,
                "'" + std::string(path) + "' is a path, which is not there where it is installed",
                "Name a wheel by an absolute path of the server's machine, put it on an index, or "
                "into a folder for --find-links; code in the run's folder needs no install.");
  }

  Status option(const std::string& text, const fs::path& folder) {
    TRY_SET(PipOption option, parse_pip_option(text));
    // pip looks beside the file; who installs is elsewhere.
    if (option.name == "--find-links" && !is_url(option.value) && !option.value.starts_with('/')) {
      std::error_code error;
      option.value = sent_ != nullptr
                         ? (sent_->folder / folder / option.value).lexically_normal()
                         : fs::weakly_canonical(fs::absolute(folder / option.value), error);
    }
    const std::string written =
        option.value.empty() ? option.name : option.name + " " + option.value;
    // Who installs reads the line again, and a '#' after a blank would begin a comment there.
    const Result<PipOption> again = parse_pip_option(written);
    if (!again || again->value != option.value) {
      return fail(ErrorKind::invalid,
                  option.name + ": the value '" + option.value + "' reads as a comment",
                  "Write a '#' of a URL or path as %23.");
    }
    return add(into_.options, written);
  }

  static Status add(std::vector<std::string>& list, const std::string& text) {
    if (std::ranges::find(list, text) != list.end()) return {};
    if (list.size() >= kOptionsMax) {
      return fail(ErrorKind::invalid,
                  "more than " + std::to_string(kOptionsMax) + " options or packages of ours");
    }
    list.push_back(text);
    return {};
  }

  Requirements& into_;
  SentFiles* const sent_;
  std::set<std::string> seen_;
  std::vector<fs::path> open_;
  bool placed_ = false;
};

}  // namespace

void Requirements::add_to(Environment& environment) const {
  const auto append = [](std::vector<std::string>& to, const std::vector<std::string>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(environment.recipe.requirements, lines);
  append(environment.recipe.options, options);
  append(environment.left_out, left_out);
}

Result<Requirements> read_requirements(const fs::path& file) {
  Requirements found;
  TRY(RequirementsReader(found).file(file, As::requirements));
  return found;
}

Result<Requirements> parse_requirements(std::string_view text, const fs::path& file) {
  Requirements found;
  TRY(RequirementsReader(found).lines(text, file, As::requirements));
  return found;
}

Result<Requirements> read_requirements(const fs::path& file, SentFiles& sent) {
  Requirements found;
  TRY(RequirementsReader(found, &sent).file(file, As::requirements));
  return found;
}

Status add_requirement(Requirements& into, std::string_view line, const std::string& place,
                       const fs::path& folder, SentFiles* sent) {
  return RequirementsReader(into, sent).line(line, place, folder, As::requirements);
}

}  // namespace trainyard::dialects
