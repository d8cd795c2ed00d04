#include "query/parser.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/text.h"
#include "query/functions.h"
#include "query/grammar.h"

namespace trainyard::query {
namespace {

constexpr int kNestingMax = 100;  // Some 12 kB of stack each under the sanitizers.

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Result<NodePtr> run() {
    TRY_SET(NodePtr root, expression(0));
    TRY(expect(TokenKind::end, "the end"));
    return root;
  }

 private:
  Result<NodePtr> expression(int binding_min);
  // Goes on with what stands at the right of `left`, as long as it binds tighter.
  Result<NodePtr> extend(NodePtr left, int binding_min);
  Result<NodePtr> begin();
  Result<NodePtr> extend_once(NodePtr left);

  Result<NodePtr> dotted(NodePtr left);
  Result<NodePtr> dot_right_side(int binding_min);
  Result<NodePtr> bracket(NodePtr left);
  Result<NodePtr> slice(NodePtr left);
  Result<NodePtr> filter(NodePtr left);
  Result<NodePtr> flatten(NodePtr left);
  Result<NodePtr> value_projection(NodePtr left, int binding_min);
  Result<NodePtr> projected(int binding_min);
  Result<NodePtr> projected_inside(int binding_min);
  Result<NodePtr> multi_list();
  Result<NodePtr> multi_hash();
  Result<NodePtr> call(const Token& name);
  Result<std::vector<Argument>> arguments();
  Status check_arguments(const Token& name, const Call& call) const;

  // Before all that recurs; an error ends the parse, so only success has to count back.
  Status enter();
  Result<NodePtr> make(Form form);
  // Joins `left` and `right` in one flat List node.
  template <class List>
  Result<NodePtr> join(NodePtr left, NodePtr right);

  const Token& now() const { return tokens_[at_]; }
  TokenKind kind() const { return now().kind; }
  TokenKind kind_after() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)].kind; }
  // `end` stays: there is always a token to look at.
  Token take() {
    Token token = now();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool take_if(TokenKind wanted) {
    if (kind() != wanted) return false;
    take();
    return true;
  }
  Status expect(TokenKind wanted, std::string_view what) {
    if (!take_if(wanted)) return unexpected(what);
    return {};
  }
  std::unexpected<Error> unexpected(std::string_view wanted, std::string hint = {}) const {
    const std::string found =
        kind() == TokenKind::end ? "the end" : "'" + std::string(now().source) + "'";
    return fail_at(now().position, "expected " + std::string(wanted) + " but found " + found,
                   std::move(hint));
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

std::unexpected<Error> fail_nesting(size_t position) {
  return fail_at(position, "nests deeper than " + std::to_string(kNestingMax) + " levels",
                 "Split the query in two, the second one over the answer of the first.");
}

Status Parser::enter() {
  if (++depth_ > kNestingMax) return fail_nesting(now().position);
  return {};
}

Result<NodePtr> Parser::make(Form form) {
  const int height = height_of(form);
  if (height > kNestingMax) return fail_nesting(now().position);
  return std::make_unique<Node>(Node{std::move(form), height});
}

template <class List>
Result<NodePtr> Parser::join(NodePtr left, NodePtr right) {
  if (auto* const head = std::get_if<List>(&left->form)) {
    left->height = std::max(left->height, right->height + 1);
    if (left->height > kNestingMax) return fail_nesting(now().position);
    head->parts.push_back(std::move(right));
    return left;
  }
  List list;
  list.parts.push_back(std::move(left));
  list.parts.push_back(std::move(right));
  return make(std::move(list));
}

Result<NodePtr> Parser::expression(int binding_min) {
  TRY(enter());
  TRY_SET(NodePtr left, begin());
  TRY_SET(left, extend(std::move(left), binding_min));
  --depth_;
  return left;
}

Result<NodePtr> Parser::extend(NodePtr left, int binding_min) {
  while (binding_min < binding(kind())) {
    TRY_SET(left, extend_once(std::move(left)));
  }
  return left;
}

Result<NodePtr> Parser::begin() {
  const Token token = take();
  switch (token.kind) {
    case TokenKind::literal:
      return make(Literal{token.literal});
    case TokenKind::name:
      if (kind() == TokenKind::left_parenthesis) return call(token);
      return make(Field{token.name});
    case TokenKind::quoted_name:
      if (kind() == TokenKind::left_parenthesis) {
        return fail_at(token.position, "a function's name is not quoted",
                       "Write " + token.name + "(…).");
      }
      return make(Field{token.name});
    case TokenKind::current:
      return make(Current{});
    case TokenKind::not_sign: {
      TRY_SET(NodePtr operand, expression(kNotOperand));
      return make(Not{std::move(operand)});
    }
    case TokenKind::left_parenthesis: {
      TRY_SET(NodePtr inside, expression(0));
      TRY(expect(TokenKind::right_parenthesis, "')'"));
      return inside;
    }
    case TokenKind::left_brace:
      return multi_hash();
    case TokenKind::left_bracket:
      if (kind() != TokenKind::number && kind() != TokenKind::colon &&
          !(kind() == TokenKind::star && kind_after() == TokenKind::right_bracket)) {
        return multi_list();
      }
      break;
    default:
      break;
  }
  TRY_SET(NodePtr current, make(Current{}));
  if (token.kind == TokenKind::left_bracket) return bracket(std::move(current));
  if (token.kind == TokenKind::filter) return filter(std::move(current));
  if (token.kind == TokenKind::flatten) return flatten(std::move(current));
  if (token.kind == TokenKind::star) {
    return value_projection(std::move(current), binding(TokenKind::star));
  }
  if (token.kind != TokenKind::end) --at_;
  if (token.kind == TokenKind::number) {
    return unexpected("an expression", "A number is written between backticks, as `1`.");
  }
  if (token.kind == TokenKind::reference) {
    return unexpected("an expression", "&… is only for a function's arguments.");
  }
  return unexpected("an expression");
}

Result<NodePtr> Parser::extend_once(NodePtr left) {
  const Token token = take();
  const int level = binding(token.kind);
  if (token.kind == TokenKind::dot) return dotted(std::move(left));
  if (token.kind == TokenKind::left_bracket) return bracket(std::move(left));
  if (token.kind == TokenKind::filter) return filter(std::move(left));
  if (token.kind == TokenKind::flatten) return flatten(std::move(left));
  if (token.kind == TokenKind::star) {
    --at_;
    return unexpected("an operator or the end", "Write .* for all values of an object.");
  }
  TRY_SET(NodePtr right, expression(level));
  if (token.kind == TokenKind::pipe) return join<Sequence>(std::move(left), std::move(right));
  if (token.kind == TokenKind::or_else) return join<AnyOf>(std::move(left), std::move(right));
  if (token.kind == TokenKind::and_also) return join<AllOf>(std::move(left), std::move(right));
  return make(Compare{comparator_of(token.kind), std::move(left), std::move(right)});
}

Result<NodePtr> Parser::dotted(NodePtr left) {
  if (take_if(TokenKind::star)) {
    return value_projection(std::move(left), binding(TokenKind::dot));
  }
  TRY_SET(NodePtr right, dot_right_side(binding(TokenKind::dot)));
  return join<Sequence>(std::move(left), std::move(right));
}

Result<NodePtr> Parser::dot_right_side(int binding_min) {
  switch (kind()) {
    case TokenKind::name:
    case TokenKind::quoted_name:
    case TokenKind::star:
      return expression(binding_min);
    // These end a projection, as in every implementation: a[*].[b][0] is the first of all.
    case TokenKind::left_bracket:
      take();
      return multi_list();
    case TokenKind::left_brace:
      take();
      return multi_hash();
    default:
      return unexpected("a name, '*', '[' or '{' after '.'");
  }
}

Result<NodePtr> Parser::bracket(NodePtr left) {
  if (take_if(TokenKind::star)) {
    TRY(expect(TokenKind::right_bracket, "']'"));
    TRY_SET(NodePtr each, projected(binding(TokenKind::star)));
    return make(Project{std::move(left), std::move(each)});
  }
  if (kind() == TokenKind::colon || kind_after() == TokenKind::colon) return slice(std::move(left));
  if (kind() != TokenKind::number) {
    return unexpected("a number, ':' or '*' in the brackets",
                      "For several members write .[a, b]; for a condition [?a == b].");
  }
  const int64_t at = take().number;
  TRY(expect(TokenKind::right_bracket, "']'"));
  TRY_SET(NodePtr index, make(Index{at}));
  return join<Sequence>(std::move(left), std::move(index));
}

Result<NodePtr> Parser::slice(NodePtr left) {
  std::optional<int64_t> bounds[3];
  size_t part = 0;
  size_t step_position = now().position;
  while (kind() != TokenKind::right_bracket) {
    if (kind() == TokenKind::number && !bounds[part]) {
      step_position = now().position;
      bounds[part] = take().number;
    } else if (kind() == TokenKind::colon && part < 2) {
      take();
      ++part;
    } else {
      return unexpected(part < 2 ? "a number, ':' or ']'" : "a number or ']'");
    }
  }
  take();
  if (bounds[2] == 0) {
    return fail_at(step_position, "a slice's step must not be 0",
                   "Leave the step out, or -1 to go backwards.");
  }
  TRY_SET(NodePtr slice, make(Slice{bounds[0], bounds[1], bounds[2].value_or(1)}));
  TRY_SET(NodePtr of, join<Sequence>(std::move(left), std::move(slice)));
  TRY_SET(NodePtr each, projected(binding(TokenKind::star)));
  return make(Project{std::move(of), std::move(each)});
}

Result<NodePtr> Parser::filter(NodePtr left) {
  TRY_SET(NodePtr condition, expression(0));
  TRY(expect(TokenKind::right_bracket, "']'"));
  TRY_SET(NodePtr each, projected(binding(TokenKind::filter)));
  return make(Filter{std::move(left), std::move(condition), std::move(each)});
}

Result<NodePtr> Parser::flatten(NodePtr left) {
  TRY_SET(NodePtr of, make(Flatten{std::move(left)}));
  TRY_SET(NodePtr each, projected(binding(TokenKind::flatten)));
  return make(Project{std::move(of), std::move(each)});
}

Result<NodePtr> Parser::value_projection(NodePtr left, int binding_min) {
  TRY_SET(NodePtr each, projected(binding_min));
  return make(ProjectValues{std::move(left), std::move(each)});
}

// What a projection does with each element.
Result<NodePtr> Parser::projected(int binding_min) {
  TRY(enter());
  TRY_SET(NodePtr each, projected_inside(binding_min));
  --depth_;
  return each;
}

Result<NodePtr> Parser::projected_inside(int binding_min) {
  TRY_SET(NodePtr current, make(Current{}));
  if (binding(kind()) < kProjectionEnd) return current;
  if (take_if(TokenKind::dot)) return dot_right_side(binding_min);
  if (take_if(TokenKind::left_bracket)) {
    TRY_SET(NodePtr left, bracket(std::move(current)));
    return extend(std::move(left), binding_min);
  }
  if (take_if(TokenKind::filter)) {
    TRY_SET(NodePtr left, filter(std::move(current)));
    return extend(std::move(left), binding_min);
  }
  return unexpected("'.', '[' or an operator");
}

Result<NodePtr> Parser::multi_list() {
  MultiList list;
  do {
    TRY_SET(NodePtr part, expression(0));
    list.parts.push_back(std::move(part));
  } while (take_if(TokenKind::comma));
  TRY(expect(TokenKind::right_bracket, "',' or ']'"));
  return make(std::move(list));
}

Result<NodePtr> Parser::multi_hash() {
  MultiHash hash;
  do {
    if (kind() != TokenKind::name && kind() != TokenKind::quoted_name) return unexpected("a name");
    std::string key = take().name;
    TRY(expect(TokenKind::colon, "':'"));
    TRY_SET(NodePtr part, expression(0));
    // Of two alike the later one holds, as in JSON.
    const auto same = std::ranges::find(hash.keys, key);
    if (same != hash.keys.end()) {
      hash.parts[static_cast<size_t>(same - hash.keys.begin())] = std::move(part);
      continue;
    }
    hash.keys.push_back(std::move(key));
    hash.parts.push_back(std::move(part));
  } while (take_if(TokenKind::comma));
  TRY(expect(TokenKind::right_brace, "',' or '}'"));
  return make(std::move(hash));
}

Result<NodePtr> Parser::call(const Token& name) {
  const Function* const function = find_function(name.name);
  if (function == nullptr) {
    const std::string near = nearest(name.name, function_names());
    return fail_at(name.position, "unknown function " + name.name + "()",
                   near.empty()
                       ? "The functions are " + trainyard::join(function_names(), ", ") + "."
                       : "Did you mean " + near + "()?");
  }
  take();  // The parenthesis.
  TRY_SET(std::vector<Argument> arguments, this->arguments());
  Call call{function, name.position, std::move(arguments)};
  TRY(check_arguments(name, call));
  return make(std::move(call));
}

Result<std::vector<Argument>> Parser::arguments() {
  std::vector<Argument> arguments;
  if (take_if(TokenKind::right_parenthesis)) return arguments;
  do {
    const bool reference = take_if(TokenKind::reference);
    TRY_SET(NodePtr argument, expression(0));
    arguments.push_back(
        {reference ? Argument::Kind::reference : Argument::Kind::value, std::move(argument)});
  } while (take_if(TokenKind::comma));
  TRY(expect(TokenKind::right_parenthesis, "',' or ')'"));
  return arguments;
}

Status Parser::check_arguments(const Token& name, const Call& call) const {
  const Function& function = *call.function;
  const size_t count = call.arguments.size();
  if (count < function.arity || (count > function.arity && !function.variadic)) {
    const std::string wanted = std::to_string(function.arity);
    return fail_at(name.position, name.name + "() takes " + (function.variadic ? "at least " : "") +
                                      wanted +
                                      (wanted == "1" ? " argument, not " : " arguments, not ") +
                                      std::to_string(count));
  }
  for (size_t i = 0; i < count; ++i) {
    const bool wanted = function.takes_at(i) == takes::expression;
    if (wanted == (call.arguments[i].kind == Argument::Kind::reference)) continue;
    const std::string which = name.name + "(): argument " + std::to_string(i + 1);
    return wanted ? fail_at(name.position, which + " must be an expression with '&' in front",
                            "As in sort_by(runs, &name).")
                  : fail_at(name.position, which + " must be a value, not an '&' expression",
                            "Leave the '&' out.");
  }
  return {};
}

}  // namespace

Result<NodePtr> parse(std::vector<Token> tokens) { return Parser(std::move(tokens)).run(); }

}  // namespace trainyard::query
