#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/json.h"

namespace trainyard::cli {

using wire::Json;

enum class Format { json, jsonc, table, tsv, yaml, yamlc, none };
Result<Format> format_from(std::string_view name);

// What our two outputs are. Colours only for a terminal, and not against NO_COLOR or TERM=dumb.
struct Screen {
  bool out_terminal = false;
  bool error_terminal = false;
  bool colour = false;
  bool error_colour = false;  // Of stderr.
  int width = 0;              // Of the terminal; 0: not cut.
};
Screen look_at_screen();

// A run's status, or a node's state, in its colour: red for what failed, green for what is well.
std::string paint_status(std::string_view status, bool on);
// The word that an error or a warning begins with: "error:", "warning:".
std::string paint_error(std::string_view word, bool on);
std::string paint_warning(std::string_view word, bool on);

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

// How a value is shown to people: a table (its rows are also those of tsv), or a text of its own.
struct View {
  std::function<Table(const Json&)> table;
  std::function<std::string(const Json&)> text;
  bool escaped = false;  // `text` is free of control characters but its own colours.
};

std::string render(const Json& value, Format format, const View& view, const Screen& screen);

// Columns as wide as their widest cell. With a width, the widest are made narrower, the first last
// of all: it is the name by which a row is asked for. What does not fit ends with an ellipsis.
// A column whose head is STATUS or STATE is coloured.
std::string render_table(const Table& table, const Screen& screen);
// No header, tabs between, as `az` has it.
std::string render_tsv(const Table& table);
std::string render_json(const Json& value, bool colour);
std::string render_yaml(const Json& value, bool colour);

// A cell for any value: a string as it is, null empty, the rest as JSON.
std::string cell(const Json& value);
std::string cell_of(const Json& object, std::string_view key);
// The table of a list's plain members, or of one object as key and value.
Table plain_table(const Json& value, std::span<const std::string_view> keys);

// A table of whatever there is, for what --query finds: a list's items are rows, an object's
// members columns. Nothing found is no row.
Table any_table(const Json& value);
View any_view();

// How many columns a UTF-8 text takes, by code points; and its beginning that fits.
size_t columns(std::string_view text);
std::string_view cut(std::string_view text, size_t columns_max);

}  // namespace trainyard::cli
