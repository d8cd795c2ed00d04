#include "container/bubblewrap_plan.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include "base/text.h"

namespace trainyard::container {
namespace {

// An image of next to nothing, and what bwrap is told of it.
struct Image {
  TempDir folder;
  Plan plan;
  Submitter submitter{.bwrap = "/usr/bin/bwrap", .uid = 1234, .gid = 5678, .name = "ann"};
  fs::path file = folder.path() / "rank-0";

  Image() {
    plan.root = folder.path() / "root";
    plan.command = {"true"};
    for (const char* name : {"/etc", "/home/ann", "/usr/bin", "/tmp"}) {
      REQUIRE(make_dirs(plan.root + name));
    }
    REQUIRE(write_file(plan.root + "/etc/passwd", "root:x:0:0::/root:/bin/sh\n"));
    REQUIRE(write_file(plan.root + "/etc/group", "root:x:0:\n"));
  }
  Carried carried() {
    Result<Carried> planned = plan_bubblewrap(plan, submitter, file);
    if (!planned) FAIL(planned.error().message);
    return *planned;
  }
  std::string words() { return " " + join(carried().words, " ") + " "; }
  std::string refusal(std::vector<std::string> arguments) {
    plan.arguments = std::move(arguments);
    const Result<Carried> planned = plan_bubblewrap(plan, submitter, file);
    return planned ? "" : planned.error().message;
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a plan's folders are shown where it says, the inner over the outer") {
  Image image;
  const std::string source = image.folder.path();
  image.plan.binds = {{source, "/data/inner"}, {source, "/data", true}};
  image.plan.folder = "/data/inner";
  CHECK(has(image.words(), " --ro-bind " + source + " /data --bind " + source +
                               " /data/inner --chdir /data/inner "));
  CHECK(image.carried().layered ==
        std::vector<std::string>{"--bind", image.file.string() + ".layer/root", "/"});
  CHECK(has(join(image.carried().plain, " "),
            "--ro-bind " + image.plan.root + "/usr /usr --perms 1777 --tmpfs /tmp"));
}

TEST_CASE("a container that is kept has a layer by its name, which others find by it") {
  Image image;
  CHECK(image.carried().layer == image.file.string() + ".layer");
  CHECK(image.carried().below.empty());
  image.plan.name = "first";
  image.plan.kept = true;
  const std::string layer = image.carried().layer;
  CHECK(layer == (image.file.parent_path() / "container-first.layer").string());
  CHECK(image.carried().kept);
  image.plan.name = "second";
  image.plan.kept = false;
  image.plan.upon = "first";
  CHECK(image.carried().below == layer);
  CHECK_FALSE(image.carried().kept);
}

TEST_CASE("a user whom the image does not know is added to its accounts") {
  Image image;
  CHECK(has(image.words(), " --ro-bind " + image.file.string() + ".passwd /etc/passwd "));
  CHECK(read_file(image.file.string() + ".passwd").value() ==
        "root:x:0:0::/root:/bin/sh\nann:x:1234:5678::/tmp:/bin/sh\n");
  CHECK(read_file(image.file.string() + ".group").value() == "root:x:0:\nann:x:5678:\n");
  CHECK(image.carried().given.at("HOME") == "/tmp");
}

TEST_CASE("a user whom the image knows has the home it says, if that is there") {
  Image image;
  REQUIRE(write_file(image.plan.root + "/etc/passwd", "bob:x:1234:1::/home/ann:/bin/sh\n"));
  CHECK_FALSE(has(image.words(), "/etc/passwd"));
  CHECK(image.carried().given.at("HOME") == "/home/ann");
  REQUIRE(write_file(image.plan.root + "/etc/passwd", "bob:x:1234:1::/home/bob:/bin/sh\n"));
  CHECK(image.carried().given.at("HOME") == "/tmp");
}

TEST_CASE("the arguments of docker run mean here what they mean there") {
  Image image;
  const std::string source = image.folder.path();
  image.plan.arguments = {"-v",           source + ":/mine:ro",
                          "-e",           "A=1",
                          "-e",           "FROM_OUTSIDE",
                          "--entrypoint", "python3",
                          "-w",           "/new",
                          "--ulimit",     "nofile=100:200",
                          "--ulimit",     "memlock=-1",
                          "--network",    "none",
                          "--ipc",        "private",
                          "--shm-size",   "64m",
                          "--tmpfs",      "/scratch"};
  image.plan.command = {"train.py"};
  const std::string words = image.words();
  CHECK(has(words, " --ro-bind " + source + " /mine "));
  CHECK(has(words, " --unshare-net "));
  CHECK(has(words, " --unshare-ipc --perms 1777 --size 67108864 --tmpfs /dev/shm "));
  CHECK(has(words, " --tmpfs /scratch --dir /new --chdir /new "));
  const Carried carried = image.carried();
  CHECK(carried.command == std::vector<std::string>{"python3", "train.py"});
  CHECK(carried.set == std::map<std::string, std::string>{{"A", "1"}});
  CHECK(carried.variables == std::vector<std::string>{"FROM_OUTSIDE"});
  REQUIRE(carried.limits.size() == 2);
  CHECK(carried.limits[0].resource == RLIMIT_NOFILE);
  CHECK(carried.limits[0].soft == 100);
  CHECK(carried.limits[0].hard == 200);
  CHECK(carried.limits[1].soft == RLIM_INFINITY);
}

TEST_CASE("shared memory is the machine's unless that is too small or it is to be private") {
  Image image;
  CHECK(has(image.words(), " --bind /dev/shm /dev/shm "));
  image.plan.shm_size = "1k";
  CHECK(has(image.words(), " --bind /dev/shm /dev/shm "));
  image.plan.shm_size = "1000t";
  CHECK(has(image.words(), " --size 1099511627776000 --tmpfs /dev/shm "));
  image.plan.arguments = {"--ipc=host"};
  CHECK(has(image.words(), " --bind /dev/shm /dev/shm "));
}

TEST_CASE("what only an engine can do is refused in so many words") {
  Image image;
  const std::string end = " needs docker or podman; this node has bubblewrap alone";
  CHECK(image.refusal({"--network", "bridge"}) == "--network bridge" + end);
  CHECK(image.refusal({"--cap-add", "SYS_PTRACE"}) == "--cap-add SYS_PTRACE" + end);
  CHECK(image.refusal({"--user", "77"}) == "--user 77" + end);
  CHECK(image.refusal({"--user", "1234"}).empty());
  CHECK(image.refusal({"--user", "ann:ann"}).empty());
  CHECK(image.refusal({"-v", "/no-such:/data"}) ==
        "show /no-such as /data: No such file or directory");
  image.plan.binds = {{"/etc", "/usr/.."}};
  CHECK(image.refusal({}) == "'/usr/..' is the container's whole root");
}

TEST_CASE("root inside is the submitter outside, and root itself has docker's rights") {
  Image image;
  image.plan.arguments = {"--user", "root"};
  CHECK(has(image.words(), " --unshare-user --uid 0 --gid 0 "));
  image.submitter.uid = 0;
  image.plan.arguments = {"--cap-add", "SYS_PTRACE", "--cap-drop", "CHOWN"};
  const std::string words = image.words();
  CHECK_FALSE(has(words, "--uid"));
  CHECK(has(words, " --cap-drop ALL --cap-add CAP_CHOWN "));
  CHECK(has(words, " --cap-drop CAP_CHOWN --cap-add CAP_SYS_PTRACE "));
}

TEST_CASE("an image without a command of its own needs one, and one that is not here cannot run") {
  Image image;
  image.plan.command.clear();
  CHECK(image.refusal({}) == "the image has no command of its own");
  image.plan.config.entrypoint = {"/bin/tool"};
  image.plan.config.command = {"--help"};
  image.plan.config.folder = "/home/ann";
  CHECK(image.carried().command == std::vector<std::string>{"/bin/tool", "--help"});
  CHECK(has(image.words(), " --chdir /home/ann "));
  image.plan.root += "-gone";
  CHECK(image.refusal({}).starts_with("the unpacked image is not here"));
}

}  // namespace
}  // namespace trainyard::container
