#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dialects/document.h"
#include "dialects/findings.h"

namespace trainyard::dialects {

enum class Support {
  works,
  no_effect,  // Accepted; a value other than its default warns.
  later,      // Refused when it asks for something.
  refused,    // The same, and it will never come: it means something only elsewhere.
};

enum class Type { any, text, whole, number, boolean, texts, list, map };

// One row of a dialect's table. The docs' tables are made of these rows too.
struct Key {
  std::string_view path;  // "environment.docker.enabled"; '*' stands for a name the user chose.
  Type type = Type::any;
  Support support = Support::works;
  // Values that ask for nothing, "false|0"; null and empty values never do. "*": any; another key
  // decides.
  std::string_view fallback = {};
  std::string_view meaning = {};  // For the docs, and the reason in a warning or a refusal.
  // "docker is on": means something only then. Words for the user; Dialect::holds knows them.
  std::string_view condition = {};
  std::string_view hint = {};  // What to do when it is refused, a sentence.
  // Generated files have it anyhow: without its condition it is no word worth.
  bool quiet = false;
};

// How a kind of file is written.
struct Dialect {
  std::string_view name;
  std::span<const Key> keys;
  // How keys are spelled: as in the table, or in any case and with or without '_'.
  enum class Spelling { exact, free } spelling = Spelling::exact;
  // Whether a row's condition holds in this file. A key whose condition does not hold is as one
  // without effect.
  bool (*holds)(std::string_view condition, const Node& root) = nullptr;
};

// A dialect's table made ready for looking up; built once, then thread-safe.
class KeyTable {
 public:
  explicit KeyTable(const Dialect& dialect);
  ~KeyTable();
  KeyTable(const KeyTable&) = delete;
  KeyTable& operator=(const KeyTable&) = delete;

  // Renames keys to the table's spelling, and says everything the table has to say: unknown keys,
  // wrong types, what has no effect, what is refused. `below` is where in the table the document's
  // root stands; empty: at its top. `whole` is what conditions look at.
  void spell(Document& document, Findings& findings, std::string_view below = {}) const;
  void check(const Document& document, const Node& whole, Findings& findings,
             std::string_view below = {}) const;

  // The table in Markdown.
  std::string markdown() const;

  struct Level;

 private:
  const Level& level_at(std::string_view path) const;

  const Dialect& dialect_;
  std::unique_ptr<Level> top_;
};

// The value at "a.b.c", or nullptr; null values count as not there.
const Node* at(const Node& root, std::string_view path);

}  // namespace trainyard::dialects
