#include "env/build_venv.h"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>

#include "env/shelf.h"
#include "env/test_settings.h"
#include "env/test_wheels.h"

namespace trainyard::env {
namespace {

using Lines = std::vector<std::string>;

// The tools a test is run with: PATH as it is, and PATH without uv.
struct VenvPlace {
  TempDir temp;
  Settings settings = test_settings(temp.path());
  fs::path wheels = temp.path() / "wheels";
  Recorder recorder;

  VenvPlace() {
    for (const char* name : {"PIP_FIND_LINKS", "PIP_INDEX_URL", "UV_INDEX_URL", "UV_CACHE_DIR"}) {
      settings.variables.erase(name);
    }
    REQUIRE(write_wheel(wheels, "tyone", "1.0"));
    REQUIRE(write_wheel(wheels, "tyone", "2.0"));
    REQUIRE(write_wheel(wheels, "tytwo", "1.5", "tyone<2"));
  }

  void without_uv() {
    fs::path folder = temp.path() / "bin";
    REQUIRE(make_dirs(folder));
    for (const char* name : {"python3", "sh", "realpath", "dirname"}) {
      const fs::path program = find_program(name, settings.variables);
      REQUIRE(!program.empty());
      std::error_code none;
      fs::create_symlink(name == std::string("python3") ? "/usr/bin/python3" : program,
                         folder / name, none);
    }
    settings.variables["PATH"] = folder;
  }

  bool has_uv() const { return !find_program("uv", settings.variables).empty(); }

  Environment environment(Lines requirements) const {
    Environment asked;
    asked.recipe.kind = EnvironmentKind::venv;
    asked.recipe.requirements = std::move(requirements);
    asked.recipe.options = {"--no-index", "--find-links " + wheels.string()};
    return asked;
  }

  Result<Realised> build_in(const std::string& name, const Environment& asked) {
    const fs::path folder = temp.path() / name;
    REQUIRE(make_dirs(folder));
    return build(asked, folder, settings, recorder);
  }
};

// uv where it is here, and pip in any case.
#define WITH_EACH_INSTALLER(place)        \
  SUBCASE("by uv") {                      \
    if (!(place).has_uv()) {              \
      MESSAGE("skipped: uv is not here"); \
      return;                             \
    }                                     \
  }                                       \
  SUBCASE("by pip") { (place).without_uv(); }

// A lock without its hashes; each line has to have one.
Lines versions_of(const Lines& lock) {
  Lines versions;
  for (const std::string& line : lock) {
    const size_t hash = line.find(" --hash=sha256:");
    CAPTURE(line);
    CHECK(hash != std::string::npos);
    versions.push_back(line.substr(0, hash));
  }
  return versions;
}

std::string said_by(const fs::path& program, const Lines& arguments, const Settings& settings) {
  Lines command = {program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  auto text = output_of({command, settings.variables, "/"}, milliseconds(20'000));
  CAPTURE(program);
  REQUIRE(text);
  return *text;
}

TEST_CASE("what is put upon a conda environment sees what is in it, and nothing else does") {
  VenvPlace place;
  WITH_EACH_INSTALLER(place);
  const fs::path conda = place.temp.path() / "conda";
  REQUIRE(make_dirs(conda / "bin"));
  std::error_code none;
  fs::create_symlink("/usr/bin/python3", conda / "bin" / "python", none);
  Environment asked = place.environment({"tyone==1.0"});
  asked.recipe.python = conda / "bin" / "python";
  const auto shows_base = [&](const std::string& name) {
    const auto realised = place.build_in(name, asked);
    REQUIRE_MESSAGE(realised, realised.error().message);
    const std::string text = read_file(place.temp.path() / name / "root/pyvenv.cfg").value();
    return text.contains("include-system-site-packages = true\n");
  };
  CHECK_FALSE(shows_base("apart"));
  REQUIRE(make_dirs(conda / "conda-meta"));
  CHECK(shows_base("upon"));
  CHECK(said_by(place.temp.path() / "upon/root/bin/python",
                {"-c", "import tyone; print(tyone.__name__)"}, place.settings) == "tyone\n");
}

TEST_CASE("packages are installed, with what they need, and all versions are in the lock") {
  VenvPlace place;
  WITH_EACH_INSTALLER(place)
  const auto made = place.build_in("first", place.environment({"tytwo  # requirements.txt:1"}));
  REQUIRE_MESSAGE(made, made.error().message);
  CHECK(versions_of(made->lock) == Lines{"tyone==1.0", "tytwo==1.5"});
  CHECK(made->python == "root/bin/python");
  CHECK(made->files > 4);
  CHECK(made->bytes > 100);
  const fs::path python = place.temp.path() / "first" / made->python;
  CHECK(said_by(python, {"-c", "import tyone; print(tyone.version)"}, place.settings) == "1.0\n");
  CHECK(std::ranges::find(place.recorder.steps, "2 of 2 packages") != place.recorder.steps.end());
}

TEST_CASE("what was built may be moved: its programs find it again") {
  VenvPlace place;
  WITH_EACH_INSTALLER(place)
  REQUIRE(place.build_in("first", place.environment({"tyone"})));
  const fs::path moved = place.temp.path() / "else where";
  fs::rename(place.temp.path() / "first", moved);
  CHECK(said_by(moved / "root/bin/tyone", {}, place.settings) == (moved / "root\n").string());
  const std::string source = ". '" + (moved / "root/bin/activate").string() + "'; ";
  CHECK(said_by("/bin/bash", {"-c", source + "echo $VIRTUAL_ENV"}, place.settings) ==
        (moved / "root\n").string());
  for (const auto& entry : fs::recursive_directory_iterator(moved / "root")) {
    if (entry.is_symlink() || !entry.is_regular_file()) continue;
    CAPTURE(entry.path());
    CHECK(read_file(entry.path())->find("first/root") == std::string::npos);
  }
}

TEST_CASE("a lock is installed as it is, newer versions or not") {
  VenvPlace place;
  WITH_EACH_INSTALLER(place)
  Environment asked = place.environment({"tyone"});
  CHECK(versions_of(place.build_in("free", asked)->lock) == Lines{"tyone==2.0"});
  asked.lock = {"tyone==1.0"};  // One of before there were hashes.
  CHECK(place.build_in("locked", asked)->lock.front().starts_with("tyone==1.0"));
  asked.lock = {"tytwo==1.5"};  // Nothing that is not in it.
  CHECK(place.build_in("alone", asked)->lock.size() == 1);
}

TEST_CASE("a lock's hashes are verified: another file of that version is refused") {
  VenvPlace place;
  WITH_EACH_INSTALLER(place)
  Environment asked = place.environment({"tyone"});
  const auto first = place.build_in("first", asked);
  REQUIRE_MESSAGE(first, first.error().message);
  asked.lock = first->lock;
  const auto again = place.build_in("again", asked);
  REQUIRE_MESSAGE(again, again.error().message);
  CHECK(again->lock == first->lock);
  REQUIRE(write_wheel(place.wheels, "tyone", "2.0", "tytwo"));
  place.settings.cache = place.temp.path() / "new cache";
  const auto other = place.build_in("other", asked);
  REQUIRE(!other);
  CAPTURE(other.error().message);
  const std::string& message = other.error().message;
  CHECK((message.contains("ash") || message.contains("ASH")));  // uv: Hash mismatch; pip: HASHES.
}

TEST_CASE("a constraint bounds a version and installs nothing") {
  VenvPlace place;
  WITH_EACH_INSTALLER(place)
  Environment asked = place.environment({"tyone"});
  asked.recipe.options.insert(asked.recipe.options.end(),
                              {"--constraint tyone<2", "--constraint tytwo==1.5"});
  const auto made = place.build_in("first", asked);
  REQUIRE_MESSAGE(made, made.error().message);
  CHECK(versions_of(made->lock) == Lines{"tyone==1.0"});
}

TEST_CASE("a package that does not exist is told in the resolver's words, with the user's line") {
  VenvPlace place;
  WITH_EACH_INSTALLER(place)
  const auto made =
      place.build_in("first", place.environment({"tyone  # my/requirements.txt:1",
                                                 "ty_Nosuch>=3  # my/requirements.txt:7"}));
  REQUIRE(!made);
  CAPTURE(made.error().message);
  CHECK(made.error().kind == ErrorKind::invalid);
  CHECK(made.error().message.starts_with("my/requirements.txt:7: ty_Nosuch>=3: "));
  CHECK(made.error().message.find("osuch", 38) != std::string::npos);
  CHECK(place.recorder.text().find("osuch") != std::string::npos);
}

TEST_CASE("two requirements that exclude each other are both named") {
  VenvPlace place;
  WITH_EACH_INSTALLER(place)
  const auto made =
      place.build_in("first", place.environment({"tytwo  # r.txt:1", "tyone==2.0  # r.txt:2"}));
  REQUIRE(!made);
  CAPTURE(made.error().message);
  CHECK(made.error().kind == ErrorKind::invalid);
  CHECK(made.error().message.starts_with("r.txt:1: tytwo: "));
  CHECK(made.error().hint == "Named too: r.txt:2: tyone==2.0.");
}

TEST_CASE("no packages at all are an environment too") {
  VenvPlace place;
  WITH_EACH_INSTALLER(place)
  const auto made = place.build_in("first", place.environment({}));
  REQUIRE_MESSAGE(made, made.error().message);
  CHECK(made->lock.empty());
}

TEST_CASE("an index that cannot be reached is told as that, with what to set") {
  VenvPlace place;
  WITH_EACH_INSTALLER(place)
  place.settings.variables["UV_HTTP_RETRIES"] = "0";
  place.settings.variables["PIP_RETRIES"] = "1";
  Environment asked = place.environment({"tyone"});
  asked.recipe.options = {"--index-url http://127.0.0.1:1/simple"};
  const auto made = place.build_in("first", asked);
  REQUIRE(!made);
  CAPTURE(made.error().message);
  CHECK(made.error().kind == ErrorKind::unavailable);
  CHECK(made.error().message.find("the package index cannot be reached") != std::string::npos);
  CHECK(made.error().hint.find("HTTPS_PROXY") != std::string::npos);
}

TEST_CASE("a stop kills the installer and what it has started, at once") {
  VenvPlace place;
  const fs::path pid = place.temp.path() / "pid";
  write_program(place.temp.path() / "fake" / "uv", "echo begun; sleep 1000 & echo $! > " +
                                                       pid.string() + ".new; mv " + pid.string() +
                                                       ".new " + pid.string() + "; wait\n");
  place.settings.variables["PATH"] =
      (place.temp.path() / "fake").string() + ":" + variable(place.settings.variables, "PATH");
  place.recorder.stop = [&] { return fs::exists(pid); };
  const auto began = std::chrono::steady_clock::now();
  const auto made = place.build_in("first", place.environment({"tyone"}));
  REQUIRE(!made);
  CHECK(made.error().kind == ErrorKind::cancelled);
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(20));
  const std::string child = read_file(pid).value();
  CHECK(ends(child.substr(0, child.size() - 1)));
}

TEST_CASE("a full disk is told as one") {
  VenvPlace place;
  write_program(place.temp.path() / "fake" / "uv",
                "echo 'error: Failed to write: No space left on device (os error 28)'; exit 2\n");
  place.settings.variables["PATH"] =
      (place.temp.path() / "fake").string() + ":" + variable(place.settings.variables, "PATH");
  const auto made = place.build_in("first", place.environment({"tyone"}));
  REQUIRE(!made);
  CHECK(made.error().kind == ErrorKind::no_space);
}

TEST_CASE("without uv and pip it says what to install") {
  VenvPlace place;
  place.without_uv();
  // An interpreter as of a machine without pip: the real one, but for that module.
  const fs::path python = place.temp.path() / "bin" / "python3";
  fs::remove(python);
  write_program(python,
                "case \"$*\" in\n"
                "  *'-m pip'*) echo 'No module named pip' >&2; exit 1 ;;\n"
                "  *'-I -S -c'*) printf '3.11.2\\ncpython\\nx86_64\\n%s\\n' \"$0\"; exit ;;\n"
                "esac\n"
                "exec /usr/bin/python3 \"$@\"\n");
  const auto made = place.build_in("first", place.environment({"tyone"}));
  REQUIRE(!made);
  CHECK(made.error().message == "neither uv nor pip is on the server's machine");
  CHECK(made.error().kind == ErrorKind::not_found);
  CHECK(made.error().hint.find("apt-get install python3-pip") != std::string::npos);
}

TEST_CASE("without a sandbox nothing is installed for those who are no admins") {
  VenvPlace place;
  place.settings.refusal = Error{ErrorKind::denied, "no sandbox", "Install bubblewrap."};
  const auto refused = place.build_in("refused", place.environment({"tyone"}));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().kind == ErrorKind::denied);
  CHECK(refused.error().hint == "Install bubblewrap.");
  CHECK(place.recorder.lines.empty());
}

// An uv that tells what it may do.
struct ToldByUv : VenvPlace {
  ToldByUv() {
    write_program(temp.path() / "bin" / "uv",
                  "echo \"$1 with $UV_CACHE_DIR\"; mkdir -p root\n"
                  "for each in pythons wheels/uv; do\n"
                  "  (echo x >" +
                      settings.cache.string() +
                      "/$each/planted) 2>/dev/null\n"
                      "done\n"
                      "exit 0\n");
    settings.variables["PATH"] = (temp.path() / "bin").string() + ":" + settings.variables["PATH"];
    REQUIRE(make_dirs(settings.cache / "pythons"));
  }
};

TEST_CASE("what installs wheels may write to the shared cache, not to what is kept beside it") {
  ToldByUv place;
  auto opened = open_sandbox({place.temp.path() / "home"});
  if (!opened) {
    MESSAGE("skipped: " << opened.error().message);
    return;
  }
  place.settings.sandbox = *std::move(opened);
  static_cast<void>(place.build_in("made", place.environment({})).has_value());
  CHECK(
      place.recorder.text().contains("venv with " + (place.settings.cache / "wheels/uv").string()));
  CHECK(fs::exists(place.settings.cache / "wheels/uv" / "planted"));
  CHECK_FALSE(fs::exists(place.settings.cache / "pythons" / "planted"));
}

TEST_CASE("only wheels come into the shared cache: all else has a cache of its own") {
  struct Row {
    std::string line;
    bool shared;
  };
  for (const Row& row : std::vector<Row>{
           {"tyone==1.0", true},
           {"tyone @ https://host/tyone-1.0-py3-none-any.whl#sha256=12 ; python_version>'3'", true},
           {"tyone @ git+https://host/tyone@0123", false},
           {"tyone @ git+https://host/tyone.whl", false},
           {"tyone @ https://host/tyone-1.0.tar.gz", false},
           {"https://host/tyone-1.0.zip?x.whl", false},
           // What a password has fetched is not for others.
           {"tyone @ https://ann:pw@host/tyone-1.0-py3-none-any.whl", false}}) {
    CAPTURE(row.line);
    ToldByUv place;
    Environment asked = place.environment({});
    asked.lock = {row.line};
    static_cast<void>(place.build_in("made", asked).has_value());
    const std::string shared = "pip with " + (place.settings.cache / "wheels/uv").string();
    const std::string own = "pip with " + (place.temp.path() / "made" / "cache").string();
    CHECK(place.recorder.text().contains(row.shared ? shared : own));
    CHECK_FALSE(place.recorder.text().contains(row.shared ? own : shared));
  }
}

TEST_CASE("lines that are no packages are refused, whoever sends them") {
  VenvPlace place;
  CHECK(place.build_in("a", place.environment({"-r /etc/passwd"})).error().kind ==
        ErrorKind::invalid);
  CHECK(place.build_in("d", place.environment({" -r /etc/passwd"})).error().kind ==
        ErrorKind::invalid);
  CHECK(place.build_in("e", place.environment({"tyone \\"})).error().kind == ErrorKind::invalid);
  CHECK(place.build_in("b", place.environment({"tyone\n-r /etc/passwd"})).error().kind ==
        ErrorKind::invalid);
  Environment asked = place.environment({"tyone"});
  asked.recipe.options = {"--target /etc"};
  CHECK(place.build_in("c", asked).error().message == "the option '--target' means nothing here");
}

}  // namespace
}  // namespace trainyard::env
