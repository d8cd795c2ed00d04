#include "cli/list_printer.h"

#include <unistd.h>

#include "cli/console.h"

namespace trainyard::cli {

Result<ListPrinter> ListPrinter::make(Context& context, Columns columns) {
  TRY_SET(const Format format, context.format());
  return ListPrinter(context, format, std::move(columns));
}

ListPrinter::ListPrinter(Context& context, Format format, Columns columns)
    : context_(&context),
      format_(format),
      columns_(std::move(columns)),
      whole_(context.args().has("output-metadata-file") || context.args().has("query")) {
  table_.header = columns_.header;
}

Status ListPrinter::add(const Json& item) {
  if (whole_) {
    kept_.push_back(item);
    return {};
  }
  if (format_ == Format::none) return {};
  if (!by_item()) {
    table_.rows.push_back(format_ == Format::tsv ? columns_.raw_row(item) : columns_.row(item));
    return {};
  }
  // A list of one, without its brackets, is what stands between those of the whole.
  const std::string one = render(Json::array({item}), format_, {}, context_->screen());
  if (!is_json()) return put(one, false);
  return put((first_ ? "[\n" : ",\n") + one.substr(2, one.size() - 5), false);
}

Status ListPrinter::finish() {
  if (whole_) {
    const bool raw = format_ == Format::tsv;
    return context_->print(
        kept_, {.table = [&](const Json& items) {
          Table table{columns_.header, {}};
          for (const Json& item : items) {
            table.rows.push_back(raw ? columns_.raw_row(item) : columns_.row(item));
          }
          return table;
        }});
  }
  if (is_json()) return put(first_ ? "[]\n" : "\n]\n", true);
  if (by_item()) return put(first_ ? "[]\n" : "", true);
  if (format_ == Format::none) return {};
  return put(format_ == Format::tsv ? render_tsv(table_) : render_table(table_, context_->screen()),
             true);
}

Status ListPrinter::put(std::string_view text, bool last) {
  constexpr size_t kPiece = 64 * 1024;
  first_ = false;
  held_.append(text);
  if (!last && held_.size() < kPiece) return {};
  TRY(write_output(STDOUT_FILENO, held_));
  held_.clear();
  return {};
}

}  // namespace trainyard::cli
