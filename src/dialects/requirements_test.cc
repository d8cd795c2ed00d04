#include "dialects/requirements.h"

#include <doctest/doctest.h>

namespace trainyard::dialects {
namespace {

using Lines = std::vector<std::string>;

Requirements parsed_lines(std::string_view text) {
  auto found = parse_requirements(text, "r.txt");
  REQUIRE_MESSAGE(found, found.error().message);
  return *std::move(found);
}

Error refused_lines(std::string_view text) {
  const auto found = parse_requirements(text, "r.txt");
  REQUIRE(!found);
  return found.error();
}

std::string hash_of(std::string_view text) {
  Environment environment;
  environment.recipe.kind = EnvironmentKind::venv;
  parsed_lines(text).add_to(environment);
  return recipe_hash(environment.recipe);
}

TEST_CASE("packages are read with their places; comments and blank lines are not") {
  const Requirements found = parsed_lines(
      "# what we need\n"
      "\n"
      "numpy==1.26.4   # arrays\n"
      "Pandas[excel] >= 2 ; python_version < '3.12'\r\n"
      "torch @ https://x.org/torch-2.0-py3-none-any.whl#sha256=00\n"
      "git+https://x.org/a.git@v1#egg=a\n"
      "https://x.org/b.tar.gz");
  CHECK(found.lines ==
        Lines{"numpy==1.26.4  # r.txt:3", "Pandas[excel] >= 2 ; python_version < '3.12'  # r.txt:4",
              "torch @ https://x.org/torch-2.0-py3-none-any.whl#sha256=00  # r.txt:5",
              "git+https://x.org/a.git@v1#egg=a  # r.txt:6", "https://x.org/b.tar.gz  # r.txt:7"});
  CHECK(found.options.empty());
}

TEST_CASE("a line goes on after a backslash, as hashes do") {
  const Requirements found = parsed_lines(
      "a==1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\n"
      "b==2 \\\n# a comment ends it \\\nc\n"
      "d \\");
  CHECK(found.lines == Lines{"a==1     --hash=sha256:00     --hash=sha256:11  # r.txt:1",
                             "b==2  # r.txt:4", "c  # r.txt:6", "d  # r.txt:7"});
}

TEST_CASE("an option whose value would read as a comment is refused with its place") {
  for (const char* line : {"-i###", "-i#", "--index-url=#x", "--trusted-host=#"}) {
    INFO(std::string(line));
    const Error error = refused_lines(std::string("numpy\n") + line + "\n");
    CHECK(error.message.starts_with("r.txt:2: "));
    CHECK(error.message.find("reads as a comment") != std::string::npos);
  }
  CHECK(parsed_lines("-ihttps://x.org/simple#a\n").options ==
        Lines{"--index-url https://x.org/simple#a"});
}

TEST_CASE("what changes nothing does not change the hash") {
  const std::string plain = hash_of("numpy==1.26.4\npandas\n");
  CHECK(hash_of("# why\npandas # tables\n\nnumpy==1.26.4\npandas\n") == plain);
  CHECK(hash_of("numpy==1.26.4\npandas\ntrainyard\n") == plain);
  CHECK(hash_of("numpy==1.26.5\npandas\n") != plain);
  CHECK(hash_of("--pre\nnumpy==1.26.4\npandas\n") != plain);
}

TEST_CASE("packages that a run has from us are left out, however they are spelt") {
  const Requirements found = parsed_lines(
      "trainyard==0.1\nTrainyard\nazureml-core==1.5\narcus-azureml>=1\nnumpy\ntrainyard==0.1\n");
  CHECK(found.left_out == Lines{"trainyard==0.1", "Trainyard"});
  CHECK(found.lines ==
        Lines{"azureml-core==1.5  # r.txt:3", "arcus-azureml>=1  # r.txt:4", "numpy  # r.txt:5"});
}

TEST_CASE("options are kept in their order and their long form") {
  const Requirements found = parsed_lines(
      "-i https://x/simple\n--extra-index-url=https://y/simple\n--pre\n-f /wheels\n"
      "--no-binary :all:\n--trusted-host x\n--require-hashes\nnumpy\n");
  CHECK(found.options == Lines{"--index-url https://x/simple", "--extra-index-url https://y/simple",
                               "--pre", "--find-links /wheels",
                               "--no-binary :all:", "--trusted-host x", "--require-hashes"});
  const Error error = refused_lines("numpy\n--target /etc\n");
  CHECK(error.message == "r.txt:2: the option '--target' means nothing here");
}

TEST_CASE("other files are read from beside the file that names them") {
  const TempDir temp;
  REQUIRE(make_dirs(temp.path() / "sub"));
  const std::string base = temp.path();
  REQUIRE(write_file(temp.path() / "r.txt", "-r sub/more.txt\n--requirement=sub/more.txt\na\n"));
  REQUIRE(write_file(temp.path() / "sub/more.txt", "b\n-c limits.txt\n-f wheels\na\n"));
  REQUIRE(write_file(temp.path() / "sub/limits.txt", "numpy<2\ntrainyard<2\n"));
  const auto found = read_requirements(temp.path() / "r.txt");
  REQUIRE_MESSAGE(found, found.error().message);
  CHECK(found->lines ==
        Lines{"b  # " + base + "/sub/more.txt:1", "a  # " + base + "/sub/more.txt:4"});
  CHECK(found->options == Lines{"--constraint numpy<2", "--find-links " + base + "/sub/wheels"});
  CHECK(found->left_out.empty());
}

TEST_CASE("a file that names itself is refused, where it does") {
  const TempDir temp;
  const std::string base = temp.path();
  REQUIRE(write_file(temp.path() / "r.txt", "a\n-r s.txt\n"));
  REQUIRE(write_file(temp.path() / "s.txt", "\n\n-r r.txt\n"));
  const auto found = read_requirements(temp.path() / "r.txt");
  REQUIRE(!found);
  CHECK(found.error().kind == ErrorKind::invalid);
  CHECK(found.error().message ==
        base + "/s.txt:3: " + base + "/r.txt names itself, by way of other files");
}

TEST_CASE("a file that is not there is told at the line that names it") {
  const TempDir temp;
  REQUIRE(write_file(temp.path() / "r.txt", "a\n-r none.txt\n"));
  const auto found = read_requirements(temp.path() / "r.txt");
  REQUIRE(!found);
  CHECK(found.error().kind == ErrorKind::not_found);
  CHECK(found.error().message.starts_with(temp.path().string() + "/r.txt:2: open "));
  CHECK(refused_lines("-r https://x/r.txt").message ==
        "r.txt:1: a file at a URL is not read: https://x/r.txt");
  CHECK(refused_lines("-r /dev/zero").message == "r.txt:1: /dev/zero: is no file");
  CHECK(refused_lines("-r").message == "r.txt:1: -r names no file");
}

TEST_CASE("an editable install of a folder is refused with what to do, one of git is installed") {
  const Error error = refused_lines("numpy\n-e ./src\n");
  CHECK(error.kind == ErrorKind::invalid);
  CHECK(error.message ==
        "r.txt:2: an editable install of a folder, '-e ./src', cannot be part of an environment "
        "that runs share");
  CHECK(error.hint.find("PYTHONPATH") != std::string::npos);
  CHECK(refused_lines("--editable=.").message.starts_with("r.txt:1: an editable install"));
  CHECK(parsed_lines("-e git+https://x/a.git@main#egg=a\n-e git+https://x/b.git").lines ==
        Lines{"a @ git+https://x/a.git@main  # r.txt:1", "git+https://x/b.git  # r.txt:2"});
}

TEST_CASE("paths are refused unless they are of a wheel on the server's machine") {
  CHECK(refused_lines("./a-1.0-py3-none-any.whl").message ==
        "r.txt:1: './a-1.0-py3-none-any.whl' is a path, which is not there where it is installed");
  CHECK(refused_lines("sub/folder").message.starts_with("r.txt:1: 'sub/folder' is a path"));
  CHECK(refused_lines("a-1.0-py3-none-any.whl").message.find("is a path") != std::string::npos);
  CHECK(parsed_lines("/wheels/a-1.0-py3-none-any.whl").lines.size() == 1);
  CHECK(!parse_requirements("-e -x://y", "r.txt"));
  CHECK(refused_lines("!what").message == "r.txt:1: '!what' is no requirement");
}

TEST_CASE("what is no text is refused") {
  CHECK(refused_lines(std::string_view("n\0u\0", 4)).message == "r.txt: is no text in UTF-8");
  CHECK(refused_lines("\xff\xfe").hint.find("PowerShell") != std::string::npos);
  CHECK(parsed_lines("\xEF\xBB\xBFnumpy").lines == Lines{"numpy  # r.txt:1"});
}

TEST_CASE("files that were sent are read in place of our own, and what is missing is named") {
  const TempDir dir;
  REQUIRE(write_file(dir.path() / "ours.txt", "secret-package\n"));
  SentFiles sent;
  sent.folder = "/home/ann/code";
  sent.texts["r.txt"] = "a\n-r sub/more.txt\n-r " + (dir.path() / "ours.txt").string() + "\n";
  REQUIRE(read_requirements("r.txt", sent));
  CHECK(sent.missing == std::set<std::string>{"sub/more.txt", (dir.path() / "ours.txt").string()});
  sent.missing.clear();
  sent.texts["r.txt"] = "a\n-r ./sub/more.txt\n--find-links wheels\n";
  sent.texts["sub/more.txt"] = "b\n-c ../bounds.txt\n";
  sent.texts["bounds.txt"] = "c<2\n";
  const auto found = read_requirements("r.txt", sent);
  REQUIRE(found);
  CHECK(sent.missing.empty());
  CHECK(found->lines == Lines{"a  # r.txt:1", "b  # sub/more.txt:1"});
  CHECK(found->options == Lines{"--constraint c<2", "--find-links /home/ann/code/wheels"});
  sent.texts["bounds.txt"] = "-r r.txt\n";
  CHECK(read_requirements("r.txt", sent).error().message.contains("names itself"));
}

}  // namespace
}  // namespace trainyard::dialects
