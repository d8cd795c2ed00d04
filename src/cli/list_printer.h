#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/output.h"

namespace trainyard::cli {

// How an item of a list is a row: for people, and for programs (tsv).
struct Columns {
  std::vector<std::string> header;
  std::function<std::vector<std::string>(const Json&)> row;
  std::function<std::vector<std::string>(const Json&)> raw_row;
};

// Prints a list as its items come: a home may have a hundred thousand runs, and a JSON value of all
// of them would take a gigabyte. Only --query and -t need them all at once.
class ListPrinter {
 public:
  static Result<ListPrinter> make(Context& context, Columns columns);

  Status add(const Json& item);
  Status finish();

 private:
  ListPrinter(Context& context, Format format, Columns columns);
  bool is_json() const { return format_ == Format::json || format_ == Format::jsonc; }
  bool by_item() const { return is_json() || format_ == Format::yaml || format_ == Format::yamlc; }
  Status put(std::string_view text, bool last);

  Context* context_;
  Format format_;
  Columns columns_;
  bool whole_;
  Json kept_ = Json::array();
  Table table_;
  std::string held_;
  bool first_ = true;
};

}  // namespace trainyard::cli
