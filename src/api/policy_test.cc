#include "api/policy.h"

#include "api/test_yard.h"
#include "store/people.h"

// What people of each role may ask of machines, over the API.
namespace trainyard::api {
namespace {

using enum http::Method;

struct PolicyShop {
  Yard yard;
  http::Client admin = yard.over_socket();
  http::Client ann = yard.over_tcp(yard.token_of("ann", Role::submitter));
  int runs = 0;

  http::Response submit(http::Client& client, const Json& environment) {
    const Json body = {
        {"id", "run-" + std::to_string(++runs)},
        {"spec", {{"experiment", "e"}, {"command", {"true"}}, {"environment", environment}}}};
    return send(client, post, "/api/v1/runs", wire::dump(body));
  }
  http::Response set(const Json& changes) {
    return send(admin, put, "/api/v1/policies/submitter", wire::dump(changes));
  }
};

Json container(const Json& arguments, std::string_view image = "debian") {
  return {{"recipe", {{"kind", "container"}, {"image", image}}}, {"arguments", arguments}};
}

TEST_CASE("a submitter's container reaches what an admin allows, and the refusal says who can") {
  PolicyShop shop;
  const Json mount = container({"-v", "/data:/data"});
  const http::Response refused = shop.submit(shop.ann, mount);
  CHECK(refused.status == 403);
  CHECK(refused.body.find("--host-path /data") != std::string::npos);
  CHECK(shop.submit(shop.admin, mount).status == 201);
  CHECK(shop.submit(shop.ann, container({"-e", "A=b"})).status == 201);

  CHECK(shop.set({{"hostPaths", {"/data"}}}).status == 200);
  const http::Response taken = shop.submit(shop.ann, mount);
  CHECK(taken.status == 201);
  const Json spec =
      json_of(fetch(shop.admin, "/api/v1/runs/run-" + std::to_string(shop.runs) + "/spec"));
  CHECK(spec["environment"]["hostPaths"] == Json{"/data"});
  CHECK(shop.submit(shop.ann, container({"-v", "/:/x"})).status == 403);
  CHECK(shop.submit(shop.ann, container({"--privileged"})).status == 400);
}

TEST_CASE("a run's children have the rights of who submitted it") {
  PolicyShop shop;
  const auto child = [&](std::string_view user) {
    const RunId id{"parent-of-" + std::string(user)};
    RunSpec spec;
    spec.experiment = "tests";
    spec.command = {"true"};
    REQUIRE(shop.yard.control->submit({id, spec, std::string(user)}).has_value());
    http::Client attempt = shop.yard.over_tcp(shop.yard.place(id));
    return shop.submit(attempt, container({"-v", "/:/x"})).status;
  };
  CHECK(child("ann") == 403);
  CHECK(child(store::system_user()) == 201);
}

TEST_CASE("images by path come only from folders that an admin names") {
  PolicyShop shop;
  const std::string folder = shop.yard.dir.path() / "images";
  for (const char* form : {"rootfs:", "docker-archive:", "oci-archive:", "oci:"}) {
    CAPTURE(form);
    CHECK(shop.submit(shop.ann, container({}, std::string(form) + "/etc/passwd")).status == 403);
    CHECK(shop.submit(shop.admin, container({}, std::string(form) + "/etc/passwd")).status == 201);
  }
  for (const char* image : {"dir:/etc", "docker-daemon:x:1", "containers-storage:x", "sif:/x"}) {
    CAPTURE(image);
    CHECK(shop.submit(shop.ann, container({}, image)).status == 403);
  }
  REQUIRE(shop.set({{"imageFolders", {folder}}}).status == 200);
  CHECK(shop.submit(shop.ann, container({}, "rootfs:" + folder + "/x.tar")).status == 201);
  CHECK(shop.submit(shop.ann, container({}, "rootfs:" + folder + "/../x.tar")).status == 403);
  CHECK(shop.submit(shop.ann, container({}, "rootfs:x.tar")).status == 403);
}

TEST_CASE("an image that a password has fetched is another environment than the same without") {
  PolicyShop shop;
  REQUIRE(send(shop.admin, put, "/api/v1/workspaces/default/secrets/key", R"({"value":"open"})")
              .status < 300);
  const auto hash = [&](const Json& environment) {
    const http::Response taken = shop.submit(shop.ann, environment);
    REQUIRE(taken.status == 201);
    return json_of(taken)["environment"]["hash"].get<std::string>();
  };
  const std::string plain = hash(container({}));
  Json with_key = container({});
  with_key["registry"] = {{"address", "r.example"}, {"username", "ann"}, {"secret", "key"}};
  CHECK(hash(with_key) != plain);
  CHECK(hash(with_key) == hash(with_key));
  with_key["recipe"]["credential"] = "";
  CHECK(hash(with_key) != plain);
  // A hash that a client has made up, or a lock, changes nothing.
  Json forged = container({});
  forged["hash"] = "0";
  forged["recipe"]["credential"] = "0";
  forged["lock"] = {"sha256:0123"};
  CHECK(hash(forged) == plain);
  const Json spec =
      json_of(fetch(shop.admin, "/api/v1/runs/run-" + std::to_string(shop.runs) + "/spec"));
  CHECK(wire::member(spec["environment"], "lock").empty());
  for (const char* image : {"sha256:0123", "0123abcd", "trainyard/env:0123"}) {
    CAPTURE(image);
    CHECK(shop.submit(shop.ann, container({}, image)).status == 403);
    CHECK(shop.submit(shop.admin, container({}, image)).status == 201);
  }
}

TEST_CASE("a submitter's recipe names no file of the server's machine") {
  PolicyShop shop;
  const auto with = [&](const char* key, const char* line) {
    Json recipe = {{"kind", std::string_view(key) == "channels" ? "conda" : "venv"}};
    recipe[key] = {line};
    return shop.submit(shop.ann, {{"recipe", recipe}}).status;
  };
  for (const char* line :
       {"-r /etc/passwd", "-r/etc/passwd", "--requirement=/etc/passwd", "-e /srv/x", "/srv/x.whl",
        "./x", "~/x", "sub/x.whl", "x @ file:///srv/x.whl", "x @ git+file:///srv/x",
        "-c constraints.txt"}) {
    CAPTURE(line);
    CHECK(with("requirements", line) == 403);
  }
  for (const char* line : {"numpy", "numpy>=1 ; python_version > '3'",
                           "x @ https://example.com/x.whl", "x @ git+https://example.com/x@v1",
                           "numpy  # see /etc/passwd", "numpy==1 --hash=sha256:00"}) {
    CAPTURE(line);
    CHECK(with("requirements", line) == 201);
  }
  CHECK(with("options", "--find-links /srv") == 403);
  CHECK(with("options", "--find-links=/srv") == 403);
  CHECK(with("options", "--index-url file:///srv") == 403);
  CHECK(with("options", "--index-url https://example.com/simple") == 201);
  CHECK(with("channels", "file:///srv/channel") == 403);
  CHECK(with("channels", "/srv/channel") == 403);
  CHECK(with("channels", "conda-forge") == 201);
}

TEST_CASE("an environment that its maker may not use is not registered") {
  PolicyShop shop;
  const auto put_in = [&](http::Client& client, const char* name) {
    Json body = container({"-v", "/:/host"});
    body["name"] = name;
    return send(client, post, "/api/v1/workspaces/default/environments", wire::dump(body)).status;
  };
  CHECK(put_in(shop.ann, "mine") == 403);
  CHECK(put_in(shop.admin, "theirs") == 201);
  const Json named = {{"name", "theirs"}};
  CHECK(shop.submit(shop.ann, named).status == 403);
  CHECK(shop.submit(shop.admin, named).status == 201);
}

TEST_CASE("a policy is the admin's to set, and never opens the server's home") {
  PolicyShop shop;
  const Json before = json_of(fetch(shop.ann, "/api/v1/policies"));
  CHECK(before["items"][0]["role"] == "submitter");
  CHECK(before["items"][0]["hostPaths"].empty());
  CHECK(before["items"][1]["hostPaths"] == Json{"*"});
  CHECK(shop.set({{"hostPaths", {"/data"}}, {"users", {"root"}}}).status == 200);
  const Json after = json_of(shop.set({{"capabilities", {"SYS_PTRACE"}}}));
  CHECK(after["hostPaths"] == Json{"/data"});
  CHECK(after["users"] == Json{"root"});
  for (const std::string& path :
       {std::string("/"), std::string(shop.yard.home.root()), std::string("/run"),
        std::string(shop.yard.dir.path()), std::string("/proc"), std::string("data")}) {
    CAPTURE(path);
    CHECK(shop.set({{"hostPaths", {path}}}).status == 400);
  }
  CHECK(shop.set({{"nothing", {"x"}}}).status == 400);
  CHECK(shop.set({{"hostPaths", "x"}}).status == 400);
  CHECK(send(shop.admin, put, "/api/v1/policies/admin", "{}").status == 400);
  CHECK(send(shop.admin, put, "/api/v1/policies/nobody", "{}").status == 400);
  CHECK(send(shop.ann, put, "/api/v1/policies/submitter", "{}").status == 403);
}

}  // namespace
}  // namespace trainyard::api
