#include <algorithm>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "dialects/file_kind.h"
#include "dialects/job.h"
#include "dialects/runconfig.h"

namespace trainyard::cli {
namespace {

constexpr Option kJobValidateRows[] = {
    {"--file -f", Takes::list, "FILE",
     "A job file or run configuration, or a folder of job files."},
    {"--set", Takes::list, "K=V", "Put this in the place of what the job files say."},
};

constexpr uintmax_t kReadMax = 16 * 1024 * 1024;  // What is larger is refused by its size alone.

// One thing to say, taken apart: "job.yml", "12", "limits.timeout: must be a whole number".
struct Said {
  std::string file;
  std::string line;  // Empty: the file as a whole.
  dialects::Finding finding;

  std::string place() const { return line.empty() ? file : file + ":" + line; }
};

// A fault of the file as a whole has its place in the message: "job.yml:3: what".
Said take_apart(const std::string& file, dialects::Finding finding) {
  const std::string all = finding.str();
  Said said{file, "", std::move(finding)};
  said.finding.message = all;
  if (!all.starts_with(file + ":")) return said;
  std::string_view rest = std::string_view(all).substr(file.size() + 1);
  const std::string_view number = rest.substr(0, rest.find_first_not_of("0123456789"));
  if (!number.empty() && rest.substr(number.size()).starts_with(": ")) {
    said.line = number;
    rest.remove_prefix(number.size() + 1);
  }
  said.finding.message = trim(rest);
  return said;
}

// By its name, else by its keys: many run configurations have no extension.
bool holds_runconfig(const fs::path& path, std::string_view text) {
  const fs::path extension = path.extension();
  if (extension == ".runconfig") return true;
  if (extension == ".yml" || extension == ".yaml") return false;
  const auto document = dialects::parse_document(text, path.string());
  return document && dialects::is_runconfig(*document);
}

Result<dialects::Findings> look_at(const fs::path& path, const std::vector<std::string>& sets) {
  std::error_code ignored;
  const auto size = fs::file_size(path, ignored);
  if (!ignored && size > kReadMax) {
    const auto refused = dialects::read_document(path);
    if (!refused) {
      return dialects::Findings{
          {dialects::Severity::error, "", refused.error().message, refused.error().hint}};
    }
  }
  TRY_SET(const std::string text, read_file(path));
  const std::string name = path.lexically_normal().string();
  if (holds_runconfig(path, text)) return dialects::validate_runconfig(text, name);
  dialects::Findings findings = dialects::validate_job(text, name, sets);
  if (dialects::has_errors(findings)) return findings;
  // What only a look at its folders can tell.
  if (const auto job = dialects::load_job({.file = path, .name = "", .sets = sets}); !job) {
    findings.push_back({dialects::Severity::error, "", job.error().message, job.error().hint});
  }
  return findings;
}

Result<std::vector<fs::path>> files_of(const Args& args) {
  std::vector<std::string> names = args.values("file");
  names.insert(names.end(), args.words().begin(), args.words().end());
  if (names.empty()) {
    return fail(ErrorKind::invalid, "which job file?", "As in: trainyard job validate -f job.yml");
  }
  std::vector<fs::path> files;
  for (const std::string& name : names) {
    std::error_code error;
    if (!fs::is_directory(name, error)) {
      files.emplace_back(name);
      continue;
    }
    const size_t before = files.size();
    for (fs::directory_iterator entry(name, error), end; !error && entry != end;
         entry.increment(error)) {
      const fs::path extension = entry->path().extension();
      if (extension == ".yml" || extension == ".yaml") files.push_back(entry->path());
    }
    if (error) return fail_errno(error.value(), "read " + name);
    if (files.size() == before) {
      return fail(ErrorKind::not_found, name + ": no job file in it", "They end in .yml or .yaml.");
    }
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  return files;
}

void say(const Context& context, const Said& said) {
  const bool error = said.finding.severity == dialects::Severity::error;
  std::string line = said.place() + (error ? ": error: " : ": warning: ") + said.finding.message;
  if (!said.finding.hint.empty()) line += "\n       " + said.finding.hint;
  error ? context.insist(line) : context.say(line);
}

Json to_json(const Said& said) {
  const bool error = said.finding.severity == dialects::Severity::error;
  const auto line = parse_int(said.line, "line");
  return {{"file", said.file},
          {"line", line ? Json(*line) : Json()},
          {"severity", error ? "error" : "warning"},
          {"message", said.finding.message},
          {"hint", said.finding.hint}};
}

std::string count(size_t number, std::string_view noun) {
  return std::to_string(number) + " " + std::string(noun) + (number == 1 ? "" : "s");
}

}  // namespace

constinit const std::span<const Option> kJobValidateOptions = kJobValidateRows;

Result<int> job_validate(Context& context) {
  TRY_SET(const std::vector<fs::path> files, files_of(context.args()));
  Json list = Json::array();
  size_t bad = 0;
  size_t warnings = 0;
  for (const fs::path& file : files) {
    TRY_SET(const dialects::Findings findings, look_at(file, context.args().values("set")));
    bad += dialects::has_errors(findings) ? 1 : 0;
    for (const dialects::Finding& finding : findings) {
      warnings += finding.severity == dialects::Severity::warning ? 1 : 0;
      const Said said = take_apart(file.lexically_normal().string(), finding);
      say(context, said);
      list.push_back(to_json(said));
    }
  }
  // On a terminal the lines above have said it all.
  TRY(context.print(list, {.table =
                               [](const Json& found) {
                                 static constexpr std::string_view kKeys[] = {
                                     "file", "line", "severity", "message"};
                                 return plain_table(found, kKeys);
                               },
                           .text = [](const Json&) { return std::string(); }}));
  if (bad == 0) {
    context.say(count(files.size(), "file") +
                " checked: " + (warnings == 0 ? "nothing to say" : count(warnings, "warning")));
    return kExitOk;
  }
  return fail(ErrorKind::invalid,
              std::to_string(bad) + " of " + count(files.size(), "file") + " cannot be submitted");
}

}  // namespace trainyard::cli
