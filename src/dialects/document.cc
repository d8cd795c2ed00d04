#include "dialects/document.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
// The one door of yaml-cpp. Its events, not its nodes: these know neither quotes nor limits.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "base/text.h"
#include "dialects/json_reader.h"
#include "dialects/tree_builder.h"

namespace trainyard::dialects {
namespace {

// A job file is a page or two; what is larger is another file given by mistake.
constexpr size_t kFileBytesMax = 1024 * 1024;

Place place_of(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

// Hands yaml-cpp's events on to the builder.
class YamlEvents : public YAML::EventHandler {
 public:
  explicit YamlEvents(std::string_view text) : lines_(1, text) {
    for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      text.remove_prefix(end + 1);
      lines_.push_back(text);
    }
  }

  TreeBuilder builder;

  void OnDocumentStart(const YAML::Mark& mark) override {
    documents_ += 1;
    if (documents_ > 1) {
      throw DocumentFault{place_of(mark).line, 0, "a second document begins; there must be one"};
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    builder.value(at(mark), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    builder.alias(place_of(mark), anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag, {"str", "int", "float", "bool", "null", "timestamp"});
    Node node = at(mark);
    node.kind = Node::Kind::scalar;
    node.text = value;
    // yaml-cpp's way to tell: "?" for a plain scalar, "!" for quotes and blocks.
    node.quoted = tag == "!" || tag.ends_with(":str");
    node.block = node.quoted && rest_at(mark).starts_with('|');
    if (node.quoted) check_quote(mark, rest_at(mark));
    builder.value(std::move(node), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    check_tag(mark, tag, {"seq"});
    builder.begin(Node::Kind::list, place_of(mark), anchor);
  }
  void OnSequenceEnd() override { builder.end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    check_tag(mark, tag, {"map"});
    builder.begin(Node::Kind::map, place_of(mark), anchor);
  }
  void OnMapEnd() override { builder.end(); }

 private:
  static Node at(const YAML::Mark& mark) {
    Node node;
    node.line = place_of(mark).line;
    node.column = place_of(mark).column;
    return node;
  }

  static void check_tag(const YAML::Mark& mark, std::string_view tag,
                        std::initializer_list<std::string_view> known) {
    constexpr std::string_view kOfYaml = "tag:yaml.org,2002:";
    if (tag.empty() || tag == "?" || tag == "!") return;
    if (tag.starts_with(kOfYaml) &&
        std::find(known.begin(), known.end(), tag.substr(kOfYaml.size())) != known.end()) {
      return;
    }
    throw DocumentFault{place_of(mark).line, place_of(mark).column,
                        "the tag '" + std::string(tag.substr(0, 80)) + "' means nothing here"};
  }

  // The text from there on.
  std::string_view rest_at(const YAML::Mark& mark) const {
    const auto line = static_cast<size_t>(mark.line);
    const auto column = static_cast<size_t>(mark.column);
    const bool within = line < lines_.size() && column < lines_[line].size();
    return within ? lines_[line].substr(column) : std::string_view();
  }

  // yaml-cpp takes the end of the file for a closing quote.
  static void check_quote(const YAML::Mark& mark, std::string_view rest) {
    const char quote = rest.empty() ? '\0' : rest.front();
    if (quote != '\'' && quote != '"') return;
    for (size_t i = 1; i < rest.size(); ++i) {
      if (rest[i] == '\\' && quote == '"') {
        ++i;
      } else if (rest[i] == quote) {
        if (quote == '"' || i + 1 >= rest.size() || rest[i + 1] != quote) return;
        ++i;  // '' stands for one '.
      }
    }
    throw DocumentFault{place_of(mark).line, place_of(mark).column, "a quote is not closed"};
  }

  std::vector<std::string_view> lines_;  // Each to the end of the text.
  int documents_ = 0;
};

Node read_yaml(std::string_view text) {
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    YamlEvents events(text);
    while (parser.HandleNextDocument(events)) {
    }
    return events.builder.take();
  } catch (const YAML::Exception& error) {
    const Place place = error.mark.is_null() ? Place{1, 0} : place_of(error.mark);
    throw DocumentFault{place.line, place.column, error.msg};
  }
}

int line_of(std::string_view text, size_t offset) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(offset, text.size()));
  return static_cast<int>(std::count(text.begin(), end, '\n')) + 1;
}

// yaml-cpp takes bytes that are no text for the end of the file or for something else.
void check_bytes(std::string_view text) {
  const auto control = std::find_if(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
  });
  if (control != text.end()) {
    const auto offset = static_cast<size_t>(control - text.begin());
    throw DocumentFault{line_of(text, offset), 0, "a control byte; is this a text file?"};
  }
  const std::string good = to_utf8(text);
  if (good == text) return;
  const auto [bad, repaired] = std::mismatch(text.begin(), text.end(), good.begin(), good.end());
  const auto offset = static_cast<size_t>(bad - text.begin());
  throw DocumentFault{line_of(text, offset), 0, "is not UTF-8; save the file as UTF-8"};
}

Node read_any(std::string_view text) {
  check_bytes(text);
  const std::string_view body = trim(text);
  const bool braced = body.starts_with('{') || body.starts_with('[');
  if (!braced) return read_yaml(text);
  // JSON is nearly YAML, but for escapes and the length of keys; and braces may be YAML's own.
  DocumentFault json_fault;
  try {
    return read_json(text);
  } catch (DocumentFault& fault) {
    if (fault.sure) throw;
    json_fault = std::move(fault);
  }
  try {
    return read_yaml(text);
  } catch (const DocumentFault&) {
    const std::string_view inside = trim(body.substr(1));
    if (inside.starts_with('"') || inside.starts_with('}'))
      throw DocumentFault(std::move(json_fault));
    throw;
  }
}

std::string hint_for(std::string_view text, int line) {
  const std::vector<std::string> lines = split(text, '\n');
  const auto index = static_cast<size_t>(line - 1);
  if (line < 1 || index >= lines.size()) return {};
  const std::string& bad = lines[index];
  const size_t content = std::min(bad.find_first_not_of(" \t"), bad.size());
  if (bad.find('\t') >= content) return {};
  return "The line begins with a tab; YAML is indented by spaces.";
}

std::unexpected<Error> too_large(const std::string& file) {
  return fail(ErrorKind::invalid, file + ": larger than " + format_size(kFileBytesMax),
              "That is no job or run configuration; was another file meant?");
}

// As much of it as is allowed, and one byte more. A pipe will do too.
Result<std::string> read_bounded(const fs::path& file) {
  TRY_SET(const Fd fd, open_file(file, O_RDONLY));
  struct stat about = {};
  if (::fstat(fd.get(), &about) != 0) return fail_errno(errno, "stat " + file.string());
  if (S_ISDIR(about.st_mode)) return fail(ErrorKind::invalid, file.string() + ": is a folder");
  if (S_ISREG(about.st_mode) && static_cast<size_t>(about.st_size) > kFileBytesMax) {
    return too_large(file.string());
  }
  std::string text(kFileBytesMax + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "read " + file.string());
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

}  // namespace

const Node* Node::find(std::string_view name) const {
  if (!is_map()) return nullptr;
  const auto found = std::find_if(children.begin(), children.end(),
                                  [&](const Node& child) { return child.key == name; });
  return found == children.end() ? nullptr : &*found;
}

Node* Node::find(std::string_view name) {
  return const_cast<Node*>(static_cast<const Node*>(this)->find(name));
}

std::string Document::place(int line) const {
  const auto index = static_cast<size_t>(-line - 1);
  if (line < 0 && index < overrides.size()) return "--set " + overrides[index];
  return line > 0 ? file + ":" + std::to_string(line) : file;
}

Result<Document> parse_document(std::string_view text, std::string file) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.size() > kFileBytesMax) return too_large(file);
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Document document;
  document.file = std::move(file);
  try {
    document.root = read_any(text);
    return document;
  } catch (const DocumentFault& fault) {
    std::string message = document.place(std::max(1, fault.line)) + ": " + fault.message;
    if (fault.column > 0) message += " (column " + std::to_string(fault.column) + ")";
    return fail(ErrorKind::invalid, std::move(message), hint_for(text, fault.line));
  }
}

Result<Document> read_document(const fs::path& file) {
  TRY_SET(const std::string text, read_bounded(file));
  return parse_document(text, file.lexically_normal().string());
}

}  // namespace trainyard::dialects
