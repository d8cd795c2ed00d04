#include "api/test_yard.h"

// Environments by name, as people see and change them over the API.
namespace trainyard::api {
namespace {

using enum http::Method;

struct RegistryShop {
  Yard yard;
  http::Client admin = yard.over_socket();

  http::Response ask(http::Method method, std::string_view rest, std::string body = {}) {
    return send(admin, method, "/api/v1/workspaces/default/environments" + std::string(rest),
                std::move(body));
  }
  http::Response put(std::string_view name, std::string_view requirement) {
    const Json body = {{"name", name},
                       {"description", "of the test"},
                       {"recipe", {{"kind", "venv"}, {"requirements", {requirement}}}}};
    return ask(post, "", wire::dump(body));
  }
};

TEST_CASE("an environment is registered once, and again where it is another") {
  RegistryShop shop;
  const http::Response made = shop.put("mine", "numpy");
  CHECK(made.status == 201);
  const Json json = json_of(made);
  CHECK(json["version"] == "1");
  CHECK(json["kind"] == "venv");
  CHECK(json["description"] == "of the test");
  CHECK(json["hash"].get<std::string>().size() == 64);
  CHECK(shop.put("mine", "numpy").status == 200);
  CHECK(json_of(shop.put("mine", "pandas"))["version"] == "2");
  CHECK(json_of(shop.ask(get, ""))["items"].size() == 1);
  CHECK(json_of(shop.ask(get, "?name=mine"))["items"].size() == 2);
  CHECK(json_of(shop.ask(get, "/mine"))["version"] == "2");
  CHECK(json_of(shop.ask(get, "/mine?version=1"))["recipe"]["requirements"] == Json{"numpy"});
  CHECK(shop.ask(get, "/mine?version=9").status == 404);
  CHECK(json_of(shop.ask(get, "/mine:1"))["version"] == "1");
  CHECK(json_of(shop.ask(get, "/mine:1?version=latest"))["version"] == "2");
}

TEST_CASE("what is wrong with an environment is said when it is registered") {
  RegistryShop shop;
  CHECK(shop.put("AzureML-mine", "numpy").status == 400);
  CHECK(shop.put("a b", "numpy").status == 400);
  CHECK(shop.ask(post, "", R"({"name":"x","recipe":{"kind":"container"}})").status == 400);
  CHECK(shop.ask(post, "", R"({"name":"x","recipe":{"kind":"nothing"}})").status == 400);
  CHECK(shop.ask(post, "", R"({"name":"x","base":"nowhere"})").status == 404);
  const Json secret = {{"name", "x"},
                       {"recipe", {{"kind", "container"}, {"image", "i"}}},
                       {"registry", {{"address", "r"}, {"secret", "s"}}}};
  CHECK(shop.ask(post, "", wire::dump(secret)).status == 404);
}

TEST_CASE("an environment put upon another has what that had then") {
  RegistryShop shop;
  REQUIRE(shop.put("mine", "numpy").status == 201);
  const http::Response made =
      shop.ask(post, "", R"({"name":"more","base":"mine:1","recipe":{"requirements":["tqdm"]}})");
  CHECK(made.status == 201);
  CHECK(json_of(made)["recipe"]["requirements"] == Json{"numpy", "tqdm"});
}

TEST_CASE("files of a client are read for it, and those they name are asked for") {
  Shop shop;
  const auto read = [&](const Json& body) {
    return send(shop.admin, post, "/api/v1/environments/read", wire::dump(body));
  };
  Json body = {{"requirements", "r.txt"},
               {"folder", "/code"},
               {"environment", {{"name", "mine:1"}, {"arguments", {"-v '/a b:/c'"}}}},
               {"files", {{"./r.txt", "tqdm\n-r /etc/hostname\n"}}}};
  CHECK(json_of(read(body))["missing"] == Json{"/etc/hostname"});
  body["files"]["/etc/hostname"] = "numpy\n";
  const Json made = json_of(read(body))["environment"];
  CHECK(made["name"] == "mine:1");
  CHECK(made["recipe"]["requirements"].size() == 2);
  CHECK(made["arguments"] == Json{"-v", "/a b:/c"});
  body["environment"]["arguments"] = {"--privileged"};
  CHECK(read(body).status == 400);
  body = {{"conda", "c.yml"}, {"files", {{"c.yml", "dependencies: 7"}}}};
  CHECK(read(body).status == 400);
  CHECK(read({{"files", {{"c.yml", 7}}}}).status == 400);
  CHECK(read({{"requirements", "r.txt"}, {"files", {{"r.txt", "-e ."}}}}).status == 400);
}

TEST_CASE("a curated environment is shown by any name that its pattern fits") {
  RegistryShop shop;
  const Json found = json_of(shop.ask(get, "/AzureML-PyTorch-1.6-GPU?version=44"));
  CHECK(found["curated"] == true);
  CHECK(found["name"] == "AzureML-PyTorch-1.6-GPU");
  CHECK(!found["note"].get<std::string>().empty());
}

TEST_CASE("a version is archived and comes back, and nothing else of it changes") {
  RegistryShop shop;
  REQUIRE(shop.put("mine", "numpy").status == 201);
  CHECK(shop.ask(patch, "/mine", R"({"archived":true})").status == 204);
  CHECK(json_of(shop.ask(get, ""))["items"].empty());
  CHECK(json_of(shop.ask(get, "?archived=1"))["items"].size() == 1);
  CHECK(shop.ask(get, "/mine").status == 404);
  CHECK(shop.ask(patch, "/mine?version=1", R"({"archived":false})").status == 204);
  CHECK(shop.ask(get, "/mine").status == 200);
  CHECK(shop.ask(patch, "/mine", R"({"recipe":{}})").status == 400);
  CHECK(shop.ask(patch, "/none", R"({"archived":true})").status == 404);
}

TEST_CASE("the table of curated environments is an admin's to change") {
  RegistryShop shop;
  const auto curated = [&](http::Method method, std::string_view name, std::string body = {}) {
    return send(shop.admin, method, "/api/v1/curated-environments" + std::string(name),
                std::move(body));
  };
  const size_t before = json_of(curated(get, ""))["items"].size();
  CHECK(curated(put, "/AzureML-Ours-%2A",
                R"({"note":"ask us","recipe":{"kind":"venv","requirements":["ours"]}})")
            .status == 200);
  CHECK(json_of(curated(get, ""))["items"].size() == before + 1);
  CHECK(json_of(shop.ask(get, "/azureml-ours-3"))["note"] == "ask us");
  CHECK(
      curated(put, "/x", R"({"recipe":{"kind":"container","image":"i"},"registry":{"secret":"s"}})")
          .status == 400);
  CHECK(curated(del, "/AzureML-Ours-%2A").status == 204);
  CHECK(curated(del, "/AzureML-Ours-%2A").status == 404);
}

}  // namespace
}  // namespace trainyard::api
