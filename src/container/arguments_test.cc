#include "container/arguments.h"

#include <doctest/doctest.h>

namespace trainyard::container {
namespace {

using Words = std::vector<std::string>;

Arguments parsed(const Words& words) {
  const auto arguments = parse_arguments(words);
  REQUIRE_MESSAGE(arguments.has_value(), (arguments ? "" : arguments.error().message));
  return *arguments;
}

Error refused(const Words& words) {
  const auto arguments = parse_arguments(words);
  REQUIRE_FALSE(arguments.has_value());
  CHECK(arguments.error().kind == ErrorKind::invalid);
  return arguments.error();
}

}  // namespace

TEST_CASE("an option is taken in each form that docker takes") {
  const Bind bind{.source = "/full/path", .target = "/data"};
  for (const Words& words :
       {Words{"-v", "/full/path:/data"}, Words{"-v/full/path:/data"}, Words{"-v=/full/path:/data"},
        Words{"--volume", "/full/path:/data"}, Words{"--volume=/full/path:/data"},
        Words{"-v /full/path:/data"}, Words{"--volume /full/path:/data"},
        Words{"-v", "/full/path:/data:rw,z"},
        Words{"--mount", "type=bind,source=/full/path,target=/data"},
        Words{"--mount=type=bind,src=/full/path,dst=/data"}}) {
    CHECK(parsed(words).binds == std::vector<Bind>{bind});
  }
}

TEST_CASE("all that is taken is understood") {
  const Arguments all = parsed({"-v",
                                "/a:/b:ro",
                                "--mount",
                                "type=bind,src=/c,dst=/d,readonly",
                                "--mount",
                                "type=tmpfs,target=/m,tmpfs-size=1m",
                                "--tmpfs",
                                "/n:rw,size=64k",
                                "-e",
                                "A=b=c",
                                "--env=EMPTY=",
                                "-e",
                                "OUTSIDE",
                                "--shm-size",
                                "2g",
                                "--ipc=host",
                                "--net",
                                "none",
                                "--gpus",
                                "\"device=0,1\"",
                                "--device",
                                "/dev/fuse",
                                "--device=/dev/a:/dev/b:r",
                                "--ulimit",
                                "memlock=-1",
                                "--ulimit",
                                "nofile=1024:2048",
                                "--cap-add",
                                "sys_ptrace",
                                "--cap-add=CAP_SYS_ADMIN",
                                "--cap-drop",
                                "all",
                                "--rm",
                                "--entrypoint",
                                "",
                                "-u",
                                "1000:100",
                                "-w",
                                "/work"});
  CHECK(all.binds == std::vector<Bind>{{"/a", "/b", true}, {"/c", "/d", true}});
  CHECK(all.memory == std::vector<Arguments::Memory>{{"/m", 1 << 20}, {"/n", 64 << 10}});
  CHECK(all.variables ==
        std::vector<Arguments::Variable>{{"A", "b=c"}, {"EMPTY", ""}, {"OUTSIDE", std::nullopt}});
  CHECK(all.shm_bytes == int64_t{2} << 30);
  CHECK(all.ipc == "host");
  CHECK(all.network == "none");
  CHECK(all.gpus == "device=0,1");
  CHECK(all.devices == std::vector<Arguments::Device>{{"/dev/fuse", "/dev/fuse", "rwm"},
                                                      {"/dev/a", "/dev/b", "r"}});
  CHECK(all.limits == std::vector<Arguments::Limit>{{"memlock", -1, -1}, {"nofile", 1024, 2048}});
  CHECK(all.capabilities == Words{"SYS_PTRACE", "SYS_ADMIN"});
  CHECK(all.capabilities_less == Words{"ALL"});
  CHECK(all.entrypoint == "");
  CHECK(all.user == "1000:100");
  CHECK(all.folder == "/work");
}

TEST_CASE("what is not taken is named, with all that is") {
  const Error privileged = refused({"--privileged"});
  CHECK(privileged.message == "'--privileged' is not taken among the container's arguments");
  CHECK(privileged.hint.find("-v --mount --tmpfs -e --shm-size") != std::string::npos);
  CHECK(refused({"--env-file=/x"}).message.find("'--env-file'") == 0);
  CHECK(refused({"--gpu", "all"}).message.find("'--gpu'") == 0);
  CHECK(refused({"ubuntu"}).message.find("'ubuntu' stands") == 0);
  CHECK(refused({"-v"}).message == "'-v' has no value after it");
}

TEST_CASE("a path of Windows is told to be one") {
  for (const char* value : {"C:\\data:/data", "c:/data:/data", "C:data:/data"}) {
    const Error error = refused({"-v", value});
    CHECK(error.message.find("path of Windows") != std::string::npos);
    CHECK(error.hint.find("/full/path:/data") != std::string::npos);
  }
  CHECK(refused({"--mount", "type=bind,source=C:\\x,target=/data"}).message.find("Windows") !=
        std::string::npos);
}

TEST_CASE("values that mean nothing are refused, and say what they should be") {
  for (const Words& words : {Words{"-v", "/only"},
                             Words{"-v", "models:/m"},
                             Words{"-v", "/a:b"},
                             Words{"-v", "/a:/"},
                             Words{"-v", "/a:/b:rx"},
                             Words{"-v", "/a:/b:ro:x"},
                             Words{"--mount", "type=volume,dst=/x"},
                             Words{"--mount", "type=bind,src=/a,dst=/b,frob=1"},
                             Words{"-e", "=x"},
                             Words{"--shm-size", "much"},
                             Words{"--ipc", "maybe"},
                             Words{"--device", "fuse"},
                             Words{"--device", "/dev/x:rwx"},
                             Words{"--ulimit", "nofile"},
                             Words{"--ulimit", "nofile=x"},
                             Words{"--ulimit", "files=3"},
                             Words{"--ulimit", "nofile=9:3"},
                             Words{"--gpus", "some"},
                             Words{"-w", "work"},
                             Words{"-u", ""},
                             Words{"--tmpfs", "tmp"}}) {
    CHECK_FALSE(refused(words).message.empty());
  }
}

TEST_CASE("a text is taken apart as a shell does it") {
  CHECK(split_words("  -v '/a b:/c'  --env \"X=1 \\\"2\\\"\"\\ 3 ''").value() ==
        Words{"-v", "/a b:/c", "--env", "X=1 \"2\" 3", ""});
  CHECK(split_words("").value().empty());
  CHECK(split_words("-e 'X").error().message.find("is not closed") != std::string::npos);
}

TEST_CASE("a command of the run's own takes the place of the image's") {
  Plan plan;
  plan.config = {.entrypoint = {"/init"}, .command = {"serve"}};
  const auto words = [&](const Arguments& arguments) {
    return started_words(plan, arguments).value_or(Words{"none"});
  };
  CHECK(words({}) == Words{"/init", "serve"});
  CHECK(words({.entrypoint = "sh"}) == Words{"sh"});
  plan.command = {"python", "x.py"};
  CHECK(words({}) == Words{"python", "x.py"});
  CHECK(words({.entrypoint = "time"}) == Words{"time", "python", "x.py"});
  CHECK(words({.entrypoint = ""}) == Words{"python", "x.py"});
  plan = {};
  CHECK(words({}) == Words{"none"});
}

TEST_CASE("a submitter's arguments reach nothing that no admin has allowed") {
  const auto check = [](const Words& words, const RolePolicy& policy = default_policy()) {
    return check_arguments(words, policy, "submitter", RunGpus::none);
  };
  for (const Words& words :
       {Words{"-v", "/:/host"}, Words{"-v/home/yard:/x:ro"}, Words{"--volume=/run/docker.sock:/s"},
        Words{"--mount", "type=bind,src=/,dst=/x,readonly"}, Words{"--cap-add", "SYS_ADMIN"},
        Words{"--cap-add=ALL"}, Words{"--device", "/dev/sda"}, Words{"--gpus", "all"},
        Words{"--network", "container:other"}, Words{"--net=ns:/proc/1/ns/net"},
        Words{"-u", "root"}, Words{"--user=0:0"}}) {
    CAPTURE(words.front());
    const Status refused = check(words);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == ErrorKind::denied);
    CHECK(refused.error().hint.find("trainyard server policy set") != std::string::npos);
    CHECK(check(words, unlimited_policy()));
  }
  for (const Words& words :
       {Words{"-e", "A=b"}, Words{"--shm-size", "2g"}, Words{"--tmpfs", "/t"},
        Words{"--mount", "type=tmpfs,target=/t"}, Words{"--network", "none"}, Words{"--ipc=host"},
        Words{"--cap-drop", "ALL"}, Words{"--ulimit", "nofile=10"}, Words{"-w", "/"},
        Words{"--entrypoint", "sh"}, Words{"--rm"}}) {
    CAPTURE(words.front());
    CHECK(check(words));
  }
  // What nobody knows is refused to all.
  CHECK_FALSE(check({"--privileged"}, unlimited_policy()));
  CHECK_FALSE(check({"--pid=host"}, unlimited_policy()));
  // A run with GPUs of its own sees those.
  CHECK(check_arguments(Words{"--gpus", "all"}, default_policy(), "submitter", RunGpus::some));
}

TEST_CASE("an admin's lists allow what they name and no more") {
  const RolePolicy policy{.host_paths = {"/data", "/models:ro"},
                          .capabilities = {"SYS_PTRACE"},
                          .devices = {"/dev/fuse"},
                          .networks = {"lab"},
                          .users = {"root"}};
  const auto check = [&](const Words& words) {
    return check_arguments(words, policy, "submitter", RunGpus::none).has_value();
  };
  CHECK(check({"-v", "/data/a:/a", "-v", "/models:/m:ro", "--cap-add", "cap_sys_ptrace"}));
  CHECK(check({"--device", "/dev/fuse:/dev/x", "--network=lab", "-uroot"}));
  CHECK_FALSE(check({"-v", "/models:/m"}));
  CHECK_FALSE(check({"-v", "/data/../etc:/a"}));
  CHECK_FALSE(check({"-v", "/database:/a"}));
  CHECK_FALSE(check({"--network", "host"}));
  CHECK_FALSE(check({"--user", "0"}));
}

TEST_CASE("a mounted path that has become a link out of what is allowed is refused where it runs") {
  const TempDir dir;
  const fs::path allowed = fs::canonical(dir.path()) / "data";
  REQUIRE(make_dirs(allowed / "set"));
  fs::create_directory_symlink("/", allowed / "root");
  fs::create_directory_symlink("set", allowed / "latest");
  const std::vector<std::string> paths = {allowed.string()};
  const auto resolved = [&](const Words& words) { return resolve_binds(words, paths); };
  const auto inside = resolved({"-v", (allowed / "latest").string() + ":/a:ro", "-e", "A=b"});
  REQUIRE(inside);
  const Arguments arguments = parsed(*inside);
  CHECK(arguments.binds ==
        std::vector<Bind>{{.source = allowed / "set", .target = "/a", .read_only = true}});
  CHECK(arguments.variables.size() == 1);
  const auto out = resolved({"-v", (allowed / "root").string() + ":/a"});
  REQUIRE_FALSE(out);
  CHECK(out.error().kind == ErrorKind::denied);
  CHECK_FALSE(resolved({"-v", (allowed / "root/etc").string() + ":/a"}));
  CHECK_FALSE(resolved({"-v", (allowed / "none").string() + ":/a"}));
  // Without a policy nothing is looked at.
  CHECK(*resolve_binds(Words{"-v", "/x:/y"}, {}) == Words{"-v", "/x:/y"});
}

}  // namespace trainyard::container
