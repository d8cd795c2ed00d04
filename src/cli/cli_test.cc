#include "cli/cli.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "base/fd.h"
#include "base/file.h"
#include "base/version.h"
#include "cli/exit.h"
#include "wire/json.h"

using namespace trainyard;
using namespace trainyard::cli;
using trainyard::wire::Json;

namespace {

struct Ran {
  int code = 0;
  std::string out;
  std::string errors;
};

// The whole command line in this process, with its two outputs caught in files.
Ran ran(const std::vector<std::string>& words) {
  // Nobody listens there: a command that gets as far as a server must not start one, which would be
  // this very program.
  setenv("TRAINYARD_SERVER", "http://127.0.0.1:1", 1);
  const TempDir dir;
  const Fd out(open((dir.path() / "out").c_str(), O_CREAT | O_RDWR, 0600));
  const Fd errors(open((dir.path() / "err").c_str(), O_CREAT | O_RDWR, 0600));
  const Fd old_out(dup(STDOUT_FILENO));
  const Fd old_errors(dup(STDERR_FILENO));
  dup2(out.get(), STDOUT_FILENO);
  dup2(errors.get(), STDERR_FILENO);
  Ran result;
  result.code = cli::run(words);
  dup2(old_out.get(), STDOUT_FILENO);
  dup2(old_errors.get(), STDERR_FILENO);
  result.out = read_file(dir.path() / "out").value();
  result.errors = read_file(dir.path() / "err").value();
  return result;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("help is there at every level and goes to stdout") {
  for (const std::vector<std::string>& words : {std::vector<std::string>{},
                                                {"--help"},
                                                {"-h"},
                                                {"help"},
                                                {"run"},
                                                {"run", "--help"},
                                                {"run", "list", "--help"},
                                                {"help", "run", "list"},
                                                {"computetarget", "create"},
                                                {"compute", "size", "--help"},
                                                {"submit", "-h", "--nonsense"}}) {
    const Ran result = ran(words);
    CHECK(result.code == 0);
    CHECK(result.out.size() > 100);
    CHECK(result.errors.empty());
  }
  CHECK(has(ran({"run", "list", "--help"}).out, "trainyard run list --last 10"));
}

TEST_CASE("the version is shown as a line and as JSON, without a server") {
  const std::string line = ran({"--version"}).out;
  CHECK(line.starts_with("trainyard " + std::string(kVersion)));
  CHECK(ran({"version", "-o", "table"}).out == line);
  const Json shown = Json::parse(ran({"version", "-o", "json"}).out);
  CHECK(shown["version"] == kVersion);
  CHECK(shown.contains("commit"));
}

TEST_CASE("--help of the user's own command is not ours") {
  const Ran result = ran({"submit", "--checkpoint", "x", "--", "python", "--help"});
  CHECK(result.code == kExitInvalid);
  CHECK(result.out.empty());
}

TEST_CASE("what is unknown is refused with 2 and the nearest thing we know") {
  const Ran command = ran({"run", "lst"});
  CHECK(command.code == kExitInvalid);
  CHECK(has(command.errors, "error: unknown command 'run lst'\n"));
  CHECK(has(command.errors, "Did you mean 'trainyard run list'?"));
  CHECK(has(ran({"sumbit"}).errors, "'trainyard submit'"));
  CHECK(has(ran({"rerun", "x"}).errors, "'trainyard run rerun'"));
  const std::pair<std::vector<std::string>, std::string> meant[] = {
      {{"run", "rm", "x"}, "'trainyard run delete'"},
      {{"run", "ls"}, "'trainyard run list'"},
      {{"run", "kill", "x"}, "'trainyard run cancel'"},
      {{"job", "get", "x"}, "'trainyard job show'"},
      {{"user", "remove", "x"}, "'trainyard user delete'"},
      {{"environment", "new"}, "'trainyard environment create'"},
      {{"ls"}, "'trainyard run list'"},
      {{"run", "python", "train.py"}, "'trainyard submit -- python'"},
      {{"submit", "--env", "A=1", "--", "x"}, "'--env-var'"},
      {{"submit", "--memory", "1G", "--", "x"}, "'--mem'"},
      {{"run", "list", "--count", "3"}, "'--last'"},
      {{"job", "create", "job.yml"}, "'-f job.yml'"},
      {{"environment", "build", "a", "b"}, "'-n b'"},
  };
  for (const auto& [words, said] : meant) {
    const Ran tried = ran(words);
    CAPTURE(words.back());
    CHECK(tried.code == kExitInvalid);
    CHECK_MESSAGE(has(tried.errors, "Did you mean " + said), tried.errors);
  }
  const Ran option = ran({"run", "list", "--sttus", "x"});
  CHECK(option.code == kExitInvalid);
  CHECK(has(option.errors, "Did you mean '--status'?"));
  CHECK(has(option.errors, "trainyard run list --help"));
  CHECK(ran({"--nonsense"}).code == kExitInvalid);
}

TEST_CASE("what comes later is refused by name") {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"run", "evict", "x"},
                                                {"job", "connect-ssh", "x"},
                                                {"computetarget", "create", "aks", "-n", "x"},
                                                {"pipeline", "create"},
                                                {"studio"},
                                                {"submit", "--input", "x", "--", "true"}}) {
    const Ran result = ran(words);
    CHECK(result.code == kExitInvalid);
    CHECK(has(result.errors, "comes with a later version"));
  }
}

TEST_CASE("bad values are found before a server is looked for") {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"submit"},
        {"submit", "--"},
        {"submit", "--environment", "a", "--image", "b", "--", "true"},
        {"submit", "--environment", "a@newest", "--", "true"},
        {"submit", "--image", "", "--", "true"},
        {"environment", "show"},
        {"environment", "show", "a", "-n", "b"},
        {"environment", "scaffold", "-n", "x"},
        {"environment", "scaffold", "-n", "AzureML-x", "-d", "x"},
        {"environment", "register", "-n", "x"},
        {"environment", "create", "-n", "x"},
        {"environment", "curated", "set", "x"},
        {"submit", "python", "train.py"},
        {"submit", "--cpus", "0", "--", "true"},
        {"submit", "--cpus", "two", "--", "true"},
        {"submit", "--mem", "lots", "--", "true"},
        {"submit", "--time", "soon", "--", "true"},
        {"submit", "--env-var", "novalue", "--", "true"},
        {"submit", "-w", "../x", "--", "true"},
        {"submit", "--path", "/", "--", "true"},
        {"run", "list", "--status", "Dreaming"},
        {"run", "list", "--last", "0"},
        {"run", "list", "-o", "xml"},
        {"compute", "create", "--engine", "slurm"},
        {"compute", "create", "local", "--engine", "slurm"},
        {"compute", "create", "c", "--engine", "kubernetes"},
        {"compute", "create", "c", "--type", "kubernetes"},
        {"compute", "create", "c", "-n", "d", "--engine", "slurm"},
        {"compute", "create", "c", "--engine", "slurm", "--min-nodes", "2"},
        {"compute", "list-nodes"},
        {"compute", "list-nodes", "c", "-n", "d"},
        {"compute", "update", "c"},
        {"compute", "update", "c", "--max-nodes", "none"},
        {"compute", "size", "set", "s"},
        {"compute", "size", "set", "s", "--price", "cheap"},
        {"compute", "delete", "c"},
        {"computetarget", "create", "amlcompute", "-n", "c", "-s", "STANDARD_NC6"},
        {"computetarget", "create", "amlcompute", "-n", "c", "--max-nodes", "1"},
        {"run", "list", "--query", "[0"},
        {"run", "show"},
        {"run", "show", "a", "b"},
        {"run", "show", "a", "-r", "b"},
        {"run", "cp", "a"},
        {"run", "cp", "a", "b"},
        {"run", "cp", "a:../b", "c"},
        {"workspace", "create", "a/b"},
        {"workspace", "delete", "a"},
        {"user", "create", "x", "--role", "king"},
        {"job", "create"},
        {"job", "show"},
        {"job", "show", "a", "-n", "b"},
        {"job", "list", "-r", "0"},
        {"job", "update", "a"},
        {"job", "update", "a", "--set", "status=x"},
        {"job", "download", "a", "--all", "--output-name=x"},
        {"job", "validate"},
        {"run", "submit-script"},
        {"run", "submit-script", "no-such-script.py"},
        {"run", "update", "a"},
        {"run", "update", "a", "--add-tag", "b"},
        {"folder", "attach", "-w", "../x"},
        {"token", "revoke", "x"}}) {
    const Ran result = ran(words);
    std::string line;
    for (const std::string& word : words) line += word + " ";
    CAPTURE(line);
    CAPTURE(result.errors);
    CHECK(result.code == kExitInvalid);
    CHECK(result.errors.starts_with("error: "));
    CHECK(result.out.empty());
  }
}

TEST_CASE("server status starts nothing and is 6 where none runs") {
  const TempDir dir;
  const Ran result = ran({"server", "status", "--home", dir.path().string()});
  CHECK(result.code == kExitUnavailable);
  CHECK(fs::is_empty(dir.path()));
}
