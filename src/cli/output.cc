#include "cli/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/text.h"

namespace trainyard::cli {
namespace {

constexpr std::pair<std::string_view, Format> kFormats[] = {
    {"json", Format::json}, {"jsonc", Format::jsonc}, {"table", Format::table},
    {"tsv", Format::tsv},   {"yaml", Format::yaml},   {"yamlc", Format::yamlc},
    {"none", Format::none},
};

constexpr size_t kGap = 2;  // Between two columns.

constexpr std::string_view kReset = "\x1b[0m";
constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kKey = "\x1b[34m";
constexpr std::string_view kString = "\x1b[32m";
constexpr std::string_view kOther = "\x1b[33m";

std::string paint(std::string_view text, std::string_view colour, bool on) {
  if (!on) return std::string(text);
  return std::string(colour).append(text).append(kReset);
}

constexpr std::string_view kRed = "\x1b[31m";
constexpr std::string_view kGreen = "\x1b[32m";
constexpr std::string_view kYellow = "\x1b[33m";
constexpr std::string_view kCyan = "\x1b[36m";
constexpr std::string_view kEllipsis = "…";
constexpr size_t kColumnMin = 8;  // Narrower ones say nothing.

constexpr std::pair<std::string_view, std::string_view> kStatusColours[] = {
    {"Completed", kGreen}, {"Running", kCyan},           {"Finalizing", kCyan}, {"Failed", kRed},
    {"Canceled", kYellow}, {"CancelRequested", kYellow}, {"online", kGreen},    {"offline", kRed},
    {"failed", kRed},      {"unusable", kRed},
};

std::string fit(std::string_view text, size_t columns_max) {
  if (columns(text) <= columns_max) return std::string(text);
  if (columns_max == 0) return {};
  return std::string(cut(text, columns_max - 1)).append(kEllipsis);
}

// What each column gets of `width`: all have the same limit, the first as much as it needs.
std::vector<size_t> fit_columns(std::vector<size_t> widths, size_t width) {
  const auto total = [&](size_t limit) {
    size_t sum = widths.front();
    for (size_t i = 1; i < widths.size(); ++i) sum += kGap + std::min(widths[i], limit);
    return sum;
  };
  if (widths.empty()) return widths;
  size_t limit = *std::ranges::max_element(widths);
  while (limit > kColumnMin && total(limit) > width) --limit;
  for (size_t i = 1; i < widths.size(); ++i) widths[i] = std::min(widths[i], limit);
  widths.front() = std::min(widths.front(), width);
  return widths;
}

std::string_view colour_of(const Json& value) { return value.is_string() ? kString : kOther; }

void put_json(const Json& value, size_t depth, std::string& out) {
  if (!value.is_structured() || value.empty()) {
    out += paint(wire::dump(value), colour_of(value), true);
    return;
  }
  const bool object = value.is_object();
  out += object ? "{\n" : "[\n";
  size_t left = value.size();
  for (auto it = value.begin(); it != value.end(); ++it) {
    out.append((depth + 1) * 2, ' ');
    if (object) out += paint(wire::dump(Json(it.key())), kKey, true) + ": ";
    put_json(*it, depth + 1, out);
    out += --left > 0 ? ",\n" : "\n";
  }
  out.append(depth * 2, ' ');
  out += object ? "}" : "]";
}

// A plain YAML word is safe when no reader takes it for a number, a date, a boolean or syntax: only
// words of letters that are no keyword are, and paths.
bool is_plain(std::string_view text) {
  static constexpr std::string_view kYamlWords[] = {
      "true", "false", "yes", "no", "on", "off", "null", "y", "n", "nan", "inf", "infinity"};
  if (text.empty() || text.back() == ' ') return false;
  const auto letter = [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; };
  if (!letter(text.front()) && text.front() != '/' && text.front() != '_') return false;
  const auto safe = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || std::string_view("_-./ ").find(c) != text.npos;
  };
  if (!std::all_of(text.begin(), text.end(), safe)) return false;
  return std::find(std::begin(kYamlWords), std::end(kYamlWords), lower(text)) ==
         std::end(kYamlWords);
}

std::string yaml_scalar(const Json& value) {
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    if (is_plain(text)) return text;
  }
  return wire::dump(value);  // A JSON scalar, [] and {} are YAML too.
}

// Each line begins with `depth` levels; `first` is what stands instead of them on the first line.
void put_yaml(const Json& value, size_t depth, bool colour, bool after_dash, std::string& out) {
  bool first = true;
  for (auto it = value.begin(); it != value.end(); ++it) {
    if (!(first && after_dash)) out.append(depth * 2, ' ');
    first = false;
    const bool nested = it->is_structured() && !it->empty();
    if (value.is_object()) {
      out += paint(yaml_scalar(Json(it.key())), kKey, colour) + ":";
      if (nested) {
        out += "\n";
        put_yaml(*it, it->is_array() ? depth : depth + 1, colour, false, out);
        continue;
      }
      out += " ";
    } else {
      out += "- ";
      if (nested) {
        put_yaml(*it, depth + 1, colour, true, out);
        continue;
      }
    }
    out += paint(yaml_scalar(*it), colour_of(*it), colour) + "\n";
  }
}

// With its states painted, by the heads of their columns.
std::string render_row(const std::vector<std::string>& cells, std::span<const size_t> widths,
                       std::span<const std::string> header, const Screen& screen) {
  size_t left = screen.width > 0 ? static_cast<size_t>(screen.width) : SIZE_MAX;
  std::string line;
  size_t gap = 0;  // Before the next cell that is not empty.
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string text = left > gap ? fit(cells[i], std::min(widths[i], left - gap)) : "";
    if (!text.empty()) {
      line.append(gap, ' ');
      left -= gap + columns(text);
      gap = 0;
    }
    const bool state = i < header.size() && (header[i] == "STATUS" || header[i] == "STATE");
    line += paint_status(text, state && screen.colour);
    gap += widths[i] - columns(text) + kGap;
  }
  return line;
}

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// JSON escapes C0 alone. What else moves a cursor, DEL and C1, is escaped here; it occurs in
// strings only.
std::string escape_controls(std::string_view json) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(json.size());
  for (size_t i = 0; i < json.size(); ++i) {
    const auto c = static_cast<unsigned char>(json[i]);
    const auto next = static_cast<unsigned char>(i + 1 < json.size() ? json[i + 1] : 0);
    const bool c1 = c == 0xC2 && next >= 0x80 && next < 0xA0;
    if (c != 0x7f && !c1) {
      out += json[i];
      continue;
    }
    const unsigned code = c1 ? next : c;
    out += "\\u00";
    out += kDigits[code >> 4U];
    out += kDigits[code & 15U];
    if (c1) ++i;
  }
  return out;
}

}  // namespace

Result<Format> format_from(std::string_view name) {
  for (const auto& [known, format] : kFormats) {
    if (known == name) return format;
  }
  return fail(ErrorKind::invalid, "output format '" + std::string(name) + "' is not known",
              "Formats: json, jsonc, table, tsv, yaml, yamlc, none.");
}

Screen look_at_screen() {
  Screen screen;
  screen.out_terminal = isatty(STDOUT_FILENO) == 1;
  screen.error_terminal = isatty(STDERR_FILENO) == 1;
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool colours = (no_colour == nullptr || *no_colour == '\0') &&
                       (term == nullptr || std::string_view(term) != "dumb");
  screen.error_colour = colours && screen.error_terminal;
  if (!screen.out_terminal) return screen;
  screen.colour = colours;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) screen.width = size.ws_col;
  return screen;
}

std::string render(const Json& value, Format format, const View& view, const Screen& screen) {
  switch (format) {
    case Format::json:
      return render_json(value, false);
    case Format::jsonc:
      return render_json(value, screen.colour);
    case Format::yaml:
      return render_yaml(value, false);
    case Format::yamlc:
      return render_yaml(value, screen.colour);
    case Format::table:
      if (view.text) return view.escaped ? view.text(value) : printable(view.text(value), "\n");
      return render_table(view.table(value), screen);
    case Format::tsv:
      return render_tsv(view.table(value));
    case Format::none:
      return {};
  }
  return {};
}

std::string paint_status(std::string_view status, bool on) {
  for (const auto& [known, colour] : kStatusColours) {
    if (status.starts_with(known)) return paint(status, colour, on);
  }
  return std::string(status);
}

std::string paint_error(std::string_view word, bool on) { return paint(word, kRed, on); }
std::string paint_warning(std::string_view word, bool on) { return paint(word, kYellow, on); }

std::string render_table(const Table& table, const Screen& screen) {
  std::vector<std::vector<std::string>> rows;
  // Cells come from users, and so do the heads of what --query finds.
  const auto add = [&](const std::vector<std::string>& row) {
    auto& cells = rows.emplace_back();
    for (const std::string& text : row) cells.push_back(printable(text));
  };
  if (!table.header.empty()) add(table.header);
  for (const auto& row : table.rows) add(row);
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
  }
  if (screen.width > 0) widths = fit_columns(widths, static_cast<size_t>(screen.width));
  std::string out;
  for (size_t r = 0; r < rows.size(); ++r) {
    const bool head = r == 0 && !table.header.empty();
    out += render_row(rows[r], widths, head ? std::vector<std::string>() : table.header, screen);
    out += "\n";
    if (head && screen.colour) out = paint(out.substr(0, out.size() - 1), kBold, true) + "\n";
  }
  return out;
}

std::string render_tsv(const Table& table) {
  std::string out;
  for (const auto& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) out += '\t';
      out += printable(row[i]);
    }
    out += '\n';
  }
  return out;
}

std::string render_json(const Json& value, bool colour) {
  if (!colour) return escape_controls(wire::dump_pretty(value)) + "\n";
  std::string out;
  put_json(value, 0, out);
  return escape_controls(out) + "\n";
}

std::string render_yaml(const Json& value, bool colour) {
  if (!value.is_structured() || value.empty()) return escape_controls(yaml_scalar(value)) + "\n";
  std::string out;
  put_yaml(value, 0, colour, false, out);
  return escape_controls(out);
}

std::string cell(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_string()) return value.get<std::string>();
  return wire::dump(value);
}

std::string cell_of(const Json& object, std::string_view key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found == object.end() ? std::string() : cell(*found);
}

Table plain_table(const Json& value, std::span<const std::string_view> keys) {
  Table table;
  for (const std::string_view key : keys) {
    // "createdAt" -> "CREATED AT"
    std::string& head = table.header.emplace_back();
    for (const char c : key) {
      if (c >= 'A' && c <= 'Z') head += ' ';
      head += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
    }
  }
  const auto add = [&](const Json& item) {
    auto& row = table.rows.emplace_back();
    for (const std::string_view key : keys) row.push_back(cell_of(item, key));
  };
  if (!value.is_array()) {
    add(value);
  } else {
    for (const Json& item : value) add(item);
  }
  return table;
}

Table any_table(const Json& value) {
  Table table;
  const auto add = [&](const Json& item) {
    auto& row = table.rows.emplace_back();
    if (item.is_structured()) {
      for (const Json& each : item) row.push_back(cell(each));
    } else {
      row.push_back(cell(item));
    }
  };
  if (value.is_null()) return table;
  if (!value.is_array()) {
    add(value);
  } else {
    for (const Json& item : value) add(item);
  }
  const Json& first = value.is_array() && !value.empty() ? value.front() : value;
  if (!first.is_object()) return table;
  for (auto it = first.begin(); it != first.end(); ++it) table.header.push_back(it.key());
  return table;
}

View any_view() { return {.table = any_table}; }

size_t columns(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

std::string_view cut(std::string_view text, size_t columns_max) {
  size_t seen = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!is_continuation(text[i]) && ++seen > columns_max) return text.substr(0, i);
  }
  return text;
}

}  // namespace trainyard::cli
