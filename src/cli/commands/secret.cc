#include <unistd.h>

#include <cstring>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/quiet.h"

namespace trainyard::cli {
namespace {

constexpr size_t kMaskedMin = 4;  // seal/forms.h: shorter values are not masked in a console.

constexpr Option kSecretSetRows[] = {
    {"--name -n", Takes::value, "SECRET", "Its name; it becomes a variable of that name."},
    {"--file -f", Takes::value, "FILE",
     "Take the value from there; one newline at its end is cut."},
    {"--value", Takes::value, "TEXT",
     "The value itself. It stays in your shell's history: rather let it be asked for."},
};
constexpr Option kSecretNames[] = {
    {"--name -n", Takes::value, "SECRET", "The secret."},
};

View secret_view() {
  return {.table = [](const Json& value) {
    static constexpr std::string_view kKeys[] = {"name", "createdBy", "createdAt", "changedAt"};
    return plain_table(value, kKeys);
  }};
}

View set_view() {
  return {.table = [](const Json& value) {
    static constexpr std::string_view kKeys[] = {"name", "changedAt"};
    return plain_table(value, kKeys);
  }};
}

// What was typed is in the memory that `ps` shows as our arguments; it is wiped there.
void wipe_arguments() {
  constexpr int kArgumentsBegin = 48;  // proc(5): arg_start and arg_end.
  const std::string text = read_file("/proc/self/stat").value_or("");
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return;
  const std::vector<std::string> fields = split(text.substr(name_end + 2), ' ');
  const size_t at = kArgumentsBegin - 3;  // The first two and the state's place.
  if (fields.size() <= at + 1) return;
  const auto begin = parse_int(fields[at], "arg_start");
  const auto end = parse_int(fields[at + 1], "arg_end");
  if (!begin || !end || *begin <= 0 || *end <= *begin) return;
  explicit_bzero(reinterpret_cast<void*>(*begin), static_cast<size_t>(*end - *begin));
}

Result<std::string> read_all(int fd) {
  constexpr size_t kMax = 1 << 20;
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "read the value");
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kMax) return fail(ErrorKind::invalid, "the value is longer than 1 MB");
  }
}

std::string without_newline(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

Result<std::string> read_value_file(const fs::path& file) {
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) {
    return fail(ErrorKind::invalid, "--file " + file.string() + ": it is a folder");
  }
  return read_file(file);
}

// The words that are no name: at most one, the value.
std::span<const std::string> words_of_value(const Args& args) {
  const std::span<const std::string> words = args.words();
  return args.has("name") || words.empty() ? words : words.subspan(1);
}

Result<std::string> value_of(const Context& context, const std::string& name) {
  const Args& args = context.args();
  const auto words = words_of_value(args);
  if (words.size() + (args.has("value") ? 1 : 0) + (args.has("file") ? 1 : 0) > 1) {
    return fail(ErrorKind::invalid, "the value of " + name + " is given twice",
                "Give it by --file, by the standard input, or let it be asked for.");
  }
  if (args.has("value") || !words.empty()) {
    std::string value = words.empty() ? args.value("value") : words[0];
    wipe_arguments();
    context.warn("the value stays in your shell's history; better: trainyard secret set " + name +
                 " < FILE");
    return value;
  }
  if (args.has("file")) {
    TRY_SET(std::string text, read_value_file(args.value("file")));
    return without_newline(std::move(text));
  }
  if (isatty(STDIN_FILENO) != 0) return ask_quietly("value of " + name + ": ");
  TRY_SET(std::string text, read_all(STDIN_FILENO));
  return without_newline(std::move(text));
}

Result<std::string> name_of(const Context& context) {
  const Args& args = context.args();
  std::string name = args.has("name")       ? args.value("name")
                     : args.words().empty() ? std::string()
                                            : args.words()[0];
  if (name.empty()) {
    return fail(ErrorKind::invalid, "which secret?",
                "As in: trainyard " + std::string(context.command().name) + " API_KEY");
  }
  TRY(check_name(name, "secret"));
  return name;
}

}  // namespace

constinit const std::span<const Option> kSecretSetOptions = kSecretSetRows;
constinit const std::span<const Option> kSecretChoice = kSecretNames;

Result<int> secret_set(Context& context) {
  TRY_SET(const std::string name, name_of(context));
  TRY_SET(const std::string value, value_of(context, name));
  if (value.empty()) {
    return fail(ErrorKind::invalid, "the value of " + name + " is empty",
                "Give one, as in: trainyard secret set " + name + " < FILE");
  }
  if (trim(value).size() < kMaskedMin) {
    context.warn("the value is too short to be masked: what a run prints will show it");
  }
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json secret, api->set_secret(workspace, name, value));
  TRY(context.print(secret, set_view()));
  return kExitOk;
}

Result<int> secret_list(Context& context) {
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json secrets, api->secrets(workspace));
  TRY(print_list(context, secrets, secret_view()));
  return kExitOk;
}

Result<int> secret_delete(Context& context) {
  TRY_SET(const std::string name, name_of(context));
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY(api->delete_secret(workspace, name));
  context.say("secret " + name + " is deleted; runs that name it will not start");
  return kExitOk;
}

}  // namespace trainyard::cli
