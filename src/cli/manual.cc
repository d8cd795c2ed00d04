#include "cli/manual.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/output.h"

namespace trainyard::cli {

std::string_view embedded(std::string_view name);

namespace {

constexpr size_t kOptionColumn = 32;
constexpr size_t kWidth = 112;

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  return out;
}

std::string without_marks(std::string_view line) {
  std::string out;
  bool code = false;  // There a star is a star.
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '`') {
      code = !code;
      continue;
    }
    if (!code && line.substr(i, 2) == "**") {
      ++i;
      continue;
    }
    out += line[i];
  }
  return out;
}

// Lines of what an option is for, each below the one before.
std::string in_column(std::string_view help) {
  std::string out;
  size_t width = kOptionColumn;
  for (const std::string& word : split(help, ' ')) {
    if (width > kOptionColumn && width + 1 + columns(word) > kWidth) {
      out += "\n" + std::string(kOptionColumn, ' ');
      width = kOptionColumn;
    }
    if (width > kOptionColumn) {
      out += ' ';
      ++width;
    }
    out += word;
    width += columns(word);
  }
  return out;
}

// "-e, --experiment-name NAME", and the rest of its spellings.
std::string option_line(const Option& option) {
  std::string names;
  const auto all = option.all_names();
  const auto put = [&](std::string_view name) {
    if (!names.empty()) names += ", ";
    names += name;
  };
  for (const std::string_view name : all) {
    if (!name.starts_with("--")) put(name);
  }
  for (const std::string_view name : all) {
    if (name.starts_with("--")) put(name);
  }
  if (!option.word.empty()) names += " " + std::string(option.word);
  if (option.takes == Takes::list) names += "…";
  const size_t width = columns(names);
  const std::string gap = width + 4 > kOptionColumn ? "\n" + std::string(kOptionColumn, ' ')
                                                    : std::string(kOptionColumn - width - 2, ' ');
  return "  " + names + gap + in_column(option.help) + "\n";
}

std::string options_help(std::string_view title, std::span<const Option> first,
                         std::span<const Option> second) {
  std::string lines;
  for (const auto table : {first, second}) {
    for (const Option& option : table) {
      if (!option.help.empty()) lines += option_line(option);
    }
  }
  return lines.empty() ? "" : fmt::format("\n{}\n{}", title, lines);
}

}  // namespace

std::string manual_file(std::string_view command) {
  std::string name(command);
  for (char& c : name) {
    if (c == ' ' || c == '-') c = '_';
  }
  return "commands/" + name + ".md";
}

std::string render_manual(std::string_view markdown) {
  std::string out;
  bool code = false;
  for (const std::string& line : split(trim(markdown), '\n')) {
    if (line.starts_with("```")) {
      code = !code;
    } else if (code) {
      out += "  " + line + "\n";
    } else if (line.starts_with("# ")) {
      continue;  // The name; the help has said it.
    } else if (line.starts_with("## ")) {
      out += upper(line.substr(3)) + "\n";
    } else {
      out += without_marks(line) + "\n";
    }
  }
  return std::string(trim(out)) + "\n";
}

std::string command_help(const Command& command, std::span<const Option> common) {
  return fmt::format("trainyard {}: {}\n\nUSAGE\n  trainyard {} {}\n\n{}", command.name,
                     command.summary, command.name, command.usage,
                     render_manual(embedded(manual_file(command.name)))) +
         options_help("OPTIONS", command.options, command.shared) +
         options_help("EVERYWHERE", common, {});
}

std::string group_help(std::string_view group, std::span<const Command> commands) {
  std::string out;
  if (group.empty()) {
    out = render_manual(embedded("trainyard.md")) + "\nCOMMANDS\n";
  } else {
    out = fmt::format("USAGE\n  trainyard {} COMMAND …\n\nCOMMANDS\n", group);
  }
  const std::string below = group.empty() ? "" : std::string(group) + " ";
  size_t width = 0;
  for (const Command& command : commands) width = std::max(width, command.name.size());
  for (const Command& command : commands) {
    if (command.internal || !command.name.starts_with(below)) continue;
    out += fmt::format("  {:{}}  {}\n", command.name, width, command.summary);
  }
  return out + "\nMore about one of them, with an example: trainyard COMMAND --help\n";
}

}  // namespace trainyard::cli
