#include "cli/environment_view.h"

#include "base/text.h"

namespace trainyard::cli {
namespace {

std::string join_lines(const Json& recipe, const char* key) {
  const auto found = recipe.find(key);
  std::vector<std::string> lines;
  if (found == recipe.end() || !found->is_array()) return {};
  for (const Json& line : *found) {
    const std::string text = cell(line);
    lines.push_back(text.substr(0, text.find("  # ")));
  }
  return join(lines, ", ");
}

// What is in it, in a line.
std::string content(const Json& environment) {
  const Json recipe = environment.value("recipe", Json::object());
  std::vector<std::string> parts;
  const std::string image = cell_of(recipe, "image");
  if (!image.empty()) parts.push_back("image " + image);
  if (recipe.contains("dockerfile")) parts.emplace_back("a Dockerfile");
  const std::string python = cell_of(recipe, "python");
  if (!python.empty()) parts.push_back("python " + python);
  for (const char* key : {"conda", "requirements"}) {
    const std::string lines = join_lines(recipe, key);
    if (!lines.empty()) parts.push_back(lines);
  }
  const std::string interpreter = cell_of(environment, "interpreter");
  if (!interpreter.empty()) parts.push_back(interpreter);
  return join(parts, "; ");
}

}  // namespace

View environment_view() {
  return {
      .table =
          [](const Json& value) {
            Table table{{"NAME", "VERSION", "KIND", "CREATED BY", "HOLDS"}, {}};
            const auto add = [&](const Json& environment) {
              table.rows.push_back({cell_of(environment, "name"), cell_of(environment, "version"),
                                    cell_of(environment, "kind"), cell_of(environment, "createdBy"),
                                    content(environment)});
            };
            if (value.is_object()) {
              add(value);
            } else {
              for (const Json& environment : value) add(environment);
            }
            return table;
          },
      .text = {}};
}

}  // namespace trainyard::cli
