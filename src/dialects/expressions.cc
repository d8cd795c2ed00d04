#include "dialects/expressions.h"

#include <utility>
#include <vector>

#include "base/text.h"

namespace trainyard::dialects {
namespace {

constexpr std::string_view kOpen = "${{";
constexpr std::string_view kClose = "}}";
constexpr size_t kRenderedBytesMax = 1024 * 1024;  // No kernel takes a longer argument.

struct Expression {
  size_t begin = 0;  // Of "${{".
  size_t end = 0;    // Past "}}"; npos: it is not closed.
  std::string_view inside;
};

// The next expression at or after `from`; begin is npos when there is none.
Expression next_expression(std::string_view text, size_t from) {
  const size_t begin = text.find(kOpen, from);
  if (begin == std::string_view::npos) return {begin, begin, {}};
  const size_t inside = begin + kOpen.size();
  const size_t close = text.find(kClose, inside);
  if (close == std::string_view::npos) return {begin, close, text.substr(inside)};
  return {begin, close + kClose.size(), text.substr(inside, close - inside)};
}

bool is_escaped(std::string_view text, size_t begin) { return begin > 0 && text[begin - 1] == '$'; }

using Filled = std::expected<std::string, ExpressionFault>;

std::unexpected<ExpressionFault> fault(std::string message, std::string hint = {},
                                       std::string_view section = {}) {
  return std::unexpected(
      ExpressionFault{0, std::move(message), std::move(hint), std::string(section)});
}

std::string written(std::string_view inside) {
  constexpr size_t kShownMax = 80;
  return "${{" + std::string(inside.substr(0, kShownMax)) + "}}";
}

Filled member(std::string_view name, const std::map<std::string, std::string>& known,
              std::string_view noun, std::string_view section) {
  const auto found = known.find(std::string(name));
  if (found != known.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [each, value] : known) names.push_back(each);
  const std::string near = nearest(name, names);
  std::string message = written(std::string(section) + "." + std::string(name)) + ": there is no " +
                        std::string(noun) + " '" + std::string(name.substr(0, 80)) + "'";
  if (!near.empty()) message += "; did you mean '" + near + "'?";
  return fault(std::move(message), "Declare it in the section '" + std::string(section) + "'.",
               section);
}

Filled value_of(std::string_view inside, const Values& values) {
  const std::string_view words = trim(inside);
  const size_t dot = words.find('.');
  const std::string_view head = trim(words.substr(0, dot));
  const std::string_view tail = dot == words.npos ? "" : trim(words.substr(dot + 1));
  if (inside.find(kOpen) != inside.npos) {
    return fault(written(inside) + ": an expression cannot stand within another");
  }
  if (words == "name") return values.id.value;
  if (head == "inputs" && !tail.empty()) {
    return member(tail, values.parameters, "input", "inputs");
  }
  if (head == "outputs" && !tail.empty()) {
    Filled path = member(tail, values.outputs, "output", "outputs");
    if (path && path->ends_with('/')) path->pop_back();
    return path;
  }
  if (head == "search_space") {
    return fault(written(inside) + ": sweeps come with a later version");
  }
  if (head == "parent") {
    return fault(written(inside) + ": pipelines come with a later version");
  }
  if (head == "inputs" || head == "outputs") {
    return fault(written(inside) + ": says no name, as in ${{" + std::string(head) + ".NAME}}");
  }
  const std::vector<std::string> heads = {"inputs", "outputs", "name"};
  const std::string near = nearest(head, heads);
  return fault(written(inside) + ": is not known here" +
                   (near.empty() ? "" : "; did you mean '" + near + "'?"),
               "Known are ${{inputs.NAME}}, ${{outputs.NAME}} and ${{name}}; $${{ stands for ${{ "
               "itself.");
}

}  // namespace

Filled fill_in(std::string_view text, const Values& values) {
  std::string filled;
  size_t from = 0;
  for (;;) {
    const Expression found = next_expression(text, from);
    filled.append(text.substr(from, found.begin - from));
    if (found.begin == text.npos) return filled;
    if (is_escaped(text, found.begin)) {
      // $${{: one '$' is taken away, and what follows is a text like any other.
      filled.append(kOpen.substr(1));
      from = found.begin + kOpen.size();
    } else {
      if (found.end == text.npos) {
        return std::unexpected(ExpressionFault{
            found.begin, written(trim(found.inside)) + ": '}}' is missing", {}, {}});
      }
      Filled value = value_of(found.inside, values);
      if (!value) {
        value.error().offset = found.begin;
        return value;
      }
      filled.append(*value);
      from = found.end;
    }
    if (filled.size() > kRenderedBytesMax) {
      return std::unexpected(
          ExpressionFault{found.begin, "is too long once its expressions are filled in", {}, {}});
    }
  }
}

Result<std::string> render(std::string_view text, const Values& values) {
  Filled filled = fill_in(text, values);
  if (filled) return *std::move(filled);
  return fail(ErrorKind::invalid, std::move(filled.error().message),
              std::move(filled.error().hint));
}

bool has_expressions(std::string_view text) { return text.find(kOpen) != text.npos; }

Status render_command(RunSpec& spec, const RunId& id) {
  if (spec.command_template.empty()) return {};
  auto command = render(spec.command_template, {spec.parameters, spec.outputs, id});
  if (!command) return std::unexpected(std::move(command).error().within("command"));
  spec.command = {*std::move(command)};
  spec.form = CommandForm::shell;
  return {};
}

}  // namespace trainyard::dialects
